package main

import (
	"context"
	"errors"
	"log"
	"net"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/tikvrpc"
	"google.golang.org/grpc"
)

const (
	requestBytesMax = 64 << 20
	// Longer answers are refused with ResourceExhausted. A cluster may have such a bound, or none.
	answerBytesMax = 10 << 20
)

// A store is one of the three servers of the cluster. All share the data.
type store struct {
	tikvpb.UnimplementedTikvServer
	standin  *standin
	id       uint64
	address  string
	listener net.Listener

	mu sync.Mutex
	// Both are nil while the store is stopped.
	server *grpc.Server
	gate   *gate
}

// A gate passes accepted connections to a server. The port stays ours when the server stops.
type gate struct {
	net.Listener
	passed chan net.Conn
	closed chan struct{}
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case connection := <-g.passed:
		return connection, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

func (g *gate) Close() error {
	close(g.closed)
	return nil
}

// serve accepts connections for as long as the process lives. A stopped store closes them.
func (s *store) serve() {
	listener := s.listener
	s.start()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				log.Fatal(err)
			}
			s.mu.Lock()
			gate := s.gate
			s.mu.Unlock()
			if gate == nil {
				connection.Close()
				continue
			}
			select {
			case gate.passed <- connection:
			case <-gate.closed:
				connection.Close()
			}
		}
	}()
}

// start serves connections again, if the store was stopped.
func (s *store) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return
	}
	s.gate = &gate{Listener: s.listener, passed: make(chan net.Conn), closed: make(chan struct{})}
	s.server = newServer(s.standin.faults)
	tikvpb.RegisterTikvServer(s.server, s)
	go serve(s.server, s.gate)
}

// stop cuts all connections.
func (s *store) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		s.server.Stop()
		s.server, s.gate = nil, nil
	}
}

func newServer(f *faults) *grpc.Server {
	return grpc.NewServer(
		grpc.UnaryInterceptor(f.intercept),
		grpc.MaxRecvMsgSize(requestBytesMax),
		grpc.MaxSendMsgSize(answerBytesMax),
	)
}

func serve(server *grpc.Server, listener net.Listener) {
	if err := server.Serve(listener); err != nil {
		log.Print(err)
	}
}

// ask passes a request to the mock store.
func ask[Answer any](ctx context.Context, s *store, kind tikvrpc.CmdType, req any, reqCtx *kvrpcpb.Context) (answer Answer, err error) {
	request := tikvrpc.NewRequest(kind, req, *reqCtx)
	got, err := s.standin.client.SendRequest(ctx, s.address, request, time.Minute)
	if err != nil {
		return answer, err
	}
	answer, ok := got.Resp.(Answer)
	if !ok {
		return answer, errors.New("the mock gave another type of answer")
	}
	return answer, nil
}

func (s *store) KvGet(ctx context.Context, req *kvrpcpb.GetRequest) (*kvrpcpb.GetResponse, error) {
	answer, err := ask[*kvrpcpb.GetResponse](ctx, s, tikvrpc.CmdGet, req, req.Context)
	if err == nil && answer.RegionError == nil && answer.Error == nil {
		answer.NotFound = len(answer.Value) == 0
	}
	return answer, err
}

func (s *store) KvBatchGet(ctx context.Context, req *kvrpcpb.BatchGetRequest) (*kvrpcpb.BatchGetResponse, error) {
	return ask[*kvrpcpb.BatchGetResponse](ctx, s, tikvrpc.CmdBatchGet, req, req.Context)
}

func (s *store) KvScan(ctx context.Context, req *kvrpcpb.ScanRequest) (*kvrpcpb.ScanResponse, error) {
	return ask[*kvrpcpb.ScanResponse](ctx, s, tikvrpc.CmdScan, req, req.Context)
}

func (s *store) KvCommit(ctx context.Context, req *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	return ask[*kvrpcpb.CommitResponse](ctx, s, tikvrpc.CmdCommit, req, req.Context)
}

func (s *store) KvBatchRollback(ctx context.Context, req *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	return ask[*kvrpcpb.BatchRollbackResponse](ctx, s, tikvrpc.CmdBatchRollback, req, req.Context)
}

func (s *store) KvCheckTxnStatus(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	return ask[*kvrpcpb.CheckTxnStatusResponse](ctx, s, tikvrpc.CmdCheckTxnStatus, req, req.Context)
}

func (s *store) KvResolveLock(ctx context.Context, req *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	return ask[*kvrpcpb.ResolveLockResponse](ctx, s, tikvrpc.CmdResolveLock, req, req.Context)
}

func (s *store) KvScanLock(ctx context.Context, req *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	return ask[*kvrpcpb.ScanLockResponse](ctx, s, tikvrpc.CmdScanLock, req, req.Context)
}

// KvPrewrite adds to the mock what TiKV does: one-phase commits, not later than they may be, and the
// commit of a transaction as the answer to its repeated prewrite.
func (s *store) KvPrewrite(ctx context.Context, req *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	answer, err := ask[*kvrpcpb.PrewriteResponse](ctx, s, tikvrpc.CmdPrewrite, req, req.Context)
	if err != nil || answer.RegionError != nil {
		return answer, err
	}
	s.standin.faults.mu.Lock()
	onePC, repeat := s.standin.faults.onePC && req.TryOnePc, s.standin.faults.repeat
	s.standin.faults.mu.Unlock()
	if len(answer.Errors) > 0 {
		if committed := s.committed(ctx, req); repeat && committed > 0 {
			done := &kvrpcpb.PrewriteResponse{}
			if req.TryOnePc {
				done.OnePcCommitTs = committed
			}
			return done, nil
		}
		return answer, nil
	}
	if !onePC {
		return answer, nil
	}
	commitTS := s.standin.clock.timestamp()
	if req.MaxCommitTs > 0 && commitTS > req.MaxCommitTs {
		// The locks stay, as if one phase had been declined.
		return answer, nil
	}
	keys := make([][]byte, len(req.Mutations))
	for i, mutation := range req.Mutations {
		keys[i] = mutation.Key
	}
	if err := s.standin.client.MvccStore.Commit(keys, req.StartVersion, commitTS); err != nil {
		return nil, err
	}
	return &kvrpcpb.PrewriteResponse{OnePcCommitTs: commitTS}, nil
}

// committed is the commit timestamp of the transaction that req repeats; 0 if it has not committed.
func (s *store) committed(ctx context.Context, req *kvrpcpb.PrewriteRequest) uint64 {
	find := &kvrpcpb.MvccGetByKeyRequest{Context: req.Context, Key: req.Mutations[0].Key}
	found, err := ask[*kvrpcpb.MvccGetByKeyResponse](ctx, s, tikvrpc.CmdMvccGetByKey, find, req.Context)
	if err != nil {
		return 0
	}
	for _, write := range found.GetInfo().GetWrites() {
		if write.StartTs == req.StartVersion && write.Type != kvrpcpb.Op_Rollback {
			return write.CommitTs
		}
	}
	return 0
}
