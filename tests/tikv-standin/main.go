// Command tikv-standin speaks the protocol of a TiKV cluster: one placement driver and three stores
// around the mock store of client-go, with a control port that splits, moves and breaks them.
//
// It proves a client of the protocol; it has no replication and is no database.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tikv/client-go/v2/testutils"
)

const storeCount = 3

// A standin is one simulated cluster.
type standin struct {
	client  *testutils.MockClient
	cluster *testutils.MockCluster
	clock   *clock
	faults  *faults
	stores  []*store
	// Versions that were replaced before this timestamp may be dropped.
	safePoint atomic.Uint64
}

func main() {
	data := flag.String("data", "", "directory that keeps the data; empty: memory")
	ports := flag.String("listen", "", "addresses from an earlier start, comma separated: pd, control, stores; empty: free ports")
	forever := flag.Bool("forever", false, "run until killed, not until the standard input ends")
	flag.Parse()
	if err := run(*data, *ports, *forever); err != nil {
		log.Fatal(err)
	}
}

func run(data, ports string, forever bool) error {
	listeners, err := listen(ports)
	if err != nil {
		return err
	}
	client, cluster, _, err := testutils.NewMockTiKV(data, nil)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	s := &standin{client: client, cluster: cluster, clock: &clock{}, faults: newFaults()}
	s.bootstrap(listeners[2:])
	go s.servePD(listeners[0], nil)
	go s.serveControl(listeners[1])

	// The mock logs to standard output, which nobody reads after the addresses.
	signal.Ignore(syscall.SIGPIPE)
	// Ready: the addresses of driver, control port and stores, as -listen takes them.
	printed := make([]string, len(listeners))
	for i, listener := range listeners {
		printed[i] = listener.Addr().String()
	}
	fmt.Println(strings.Join(printed, ","))
	if forever {
		select {}
	}
	// The process that started this one holds its standard input: when that is gone, so is this.
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}

func listen(ports string) ([]net.Listener, error) {
	wanted := make([]string, 2+storeCount)
	if ports != "" {
		wanted = strings.Split(ports, ",")
	}
	if len(wanted) != 2+storeCount {
		return nil, fmt.Errorf("-listen wants %d addresses", 2+storeCount)
	}
	listeners := make([]net.Listener, len(wanted))
	for i, address := range wanted {
		if address == "" {
			address = "127.0.0.1:0"
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		listeners[i] = listener
	}
	return listeners, nil
}

// bootstrap makes one region with a peer in every store. Its version is the time, so that a region
// that a client remembers from before a restart is never taken for this one.
func (s *standin) bootstrap(listeners []net.Listener) {
	storeIDs := s.cluster.AllocIDs(storeCount)
	peerIDs := s.cluster.AllocIDs(storeCount)
	region := s.cluster.AllocID()
	for i, listener := range listeners {
		address := listener.Addr().String()
		store := &store{standin: s, id: storeIDs[i], address: address, listener: listener}
		s.cluster.AddStore(store.id, store.address)
		s.stores = append(s.stores, store)
		store.serve()
	}
	version := uint64(time.Now().UnixMilli())
	s.cluster.PutRegion(region, 1, version, storeIDs, peerIDs, peerIDs[0])
}
