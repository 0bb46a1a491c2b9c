package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/metadata"
)

const clusterID = 7

// The placement driver: where regions are, and what time it is.
type driver struct {
	pdpb.UnimplementedPDServer
	standin *standin
	// Where it says that the stores are, if they are to be reached through proxies.
	doors []string
}

func (s *standin) servePD(listener net.Listener, doors []string) {
	server := newServer(s.faults)
	pdpb.RegisterPDServer(server, &driver{standin: s, doors: doors})
	serve(server, listener)
}

// door serves one more driver, for a client whose connections all pass through proxies.
func (s *standin) door(address string, stores []string) (string, error) {
	if len(stores) != storeCount {
		return "", fmt.Errorf("%d addresses of stores are needed", storeCount)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	go s.servePD(listener, stores)
	return listener.Addr().String(), nil
}

func header() *pdpb.ResponseHeader {
	return &pdpb.ResponseHeader{ClusterId: clusterID}
}

// at is the store with the address that clients of this driver use.
func (d *driver) at(store *metapb.Store) *metapb.Store {
	if store == nil {
		return nil
	}
	store.Version = "8.5.0"
	for i, known := range d.standin.stores {
		if known.id == store.Id && d.doors != nil {
			store.Address = d.doors[i]
		}
	}
	return store
}

// The driver is where the client found it, which may be a proxy.
func (d *driver) GetMembers(ctx context.Context, _ *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	url := "http://" + strings.Join(headers.Get(":authority"), "")
	member := &pdpb.Member{Name: "pd", MemberId: 1, ClientUrls: []string{url}}
	return &pdpb.GetMembersResponse{Header: header(), Members: []*pdpb.Member{member}, Leader: member}, nil
}

func (d *driver) Tso(stream pdpb.PD_TsoServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.standin.faults.count("Tso", 0)
		done, lose, err := d.standin.faults.meet("Tso", false, 0)
		done()
		if lose || err != nil {
			return errors.New("broken by the control port")
		}
		if req.GetHeader().GetClusterId() != clusterID {
			return errors.New("mismatch cluster id")
		}
		physical, logical := d.standin.clock.next(int64(req.Count))
		timestamp := &pdpb.Timestamp{Physical: physical, Logical: logical}
		answer := &pdpb.TsoResponse{Header: header(), Count: req.Count, Timestamp: timestamp}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (d *driver) GetRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	region, leader, _, _ := d.standin.cluster.GetRegionByKey(req.RegionKey)
	return &pdpb.GetRegionResponse{Header: header(), Region: region, Leader: leader}, nil
}

func (d *driver) GetPrevRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	region, leader, _, _ := d.standin.cluster.GetPrevRegionByKey(req.RegionKey)
	return &pdpb.GetRegionResponse{Header: header(), Region: region, Leader: leader}, nil
}

func (d *driver) GetStore(_ context.Context, req *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	store := d.at(d.standin.cluster.GetStore(req.StoreId))
	return &pdpb.GetStoreResponse{Header: header(), Store: store}, nil
}

func (d *driver) GetAllStores(context.Context, *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	stores := d.standin.cluster.GetAllStores()
	for _, store := range stores {
		d.at(store)
	}
	return &pdpb.GetAllStoresResponse{Header: header(), Stores: stores}, nil
}

func (d *driver) GetClusterConfig(context.Context, *pdpb.GetClusterConfigRequest) (*pdpb.GetClusterConfigResponse, error) {
	cluster := &metapb.Cluster{Id: clusterID, MaxPeerCount: storeCount}
	return &pdpb.GetClusterConfigResponse{Header: header(), Cluster: cluster}, nil
}

func (d *driver) UpdateGCSafePoint(_ context.Context, req *pdpb.UpdateGCSafePointRequest) (*pdpb.UpdateGCSafePointResponse, error) {
	d.standin.safePoint.Store(max(d.standin.safePoint.Load(), req.SafePoint))
	return &pdpb.UpdateGCSafePointResponse{Header: header(), NewSafePoint: d.standin.safePoint.Load()}, nil
}
