package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/tikv/client-go/v2/util/codec"
)

// serveControl answers one line for each line: "ok", "ok RESULT" or "error REASON". Keys are in
// hexadecimal. The commands:
//
//	split KEY                      a new region begins at the key
//	merge KEY                      the region of the key takes in the next one
//	lead KEY STORE                 store 1, 2 or 3 leads the region of the key
//	stop STORE, start STORE        the store cuts its connections, takes new ones again
//	lose CALL N [KEY]              do the next N calls, lose their answers
//	refuse CALL N [KEY]            do not do the next N calls
//	delay CALL N MS [KEY]          the next N calls wait first
//	hold CALL N [KEY]              the next N calls wait for release
//	release [CALL]                 calls that are held go on, those of a name or all; answered when they
//	                               are done
//	onepc on|off                   whether a prewrite may commit at once
//	repeat on|off                  whether a repeated prewrite is answered with the commit
//	count [KEY]                    calls by name: NAME=COUNT ...; with KEY, those to its region
//	door ADDRESS STORE STORE STORE one more driver, which says that the stores are at these addresses
//	forward MS                     put the cluster's clock forward
//	safepoint                      how many milliseconds before now versions may be dropped
//	locks                          how many locks there are
//	keys PREFIX N                  the last N keys that begin with PREFIX, the greatest first
//	reset                          forget faults and counts
//
// CALL is the name of a remote call, such as KvPrewrite, or OnePC: a prewrite that may commit at once.
// With KEY, only calls to the region that holds it now.
func (s *standin) serveControl(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			lines := bufio.NewScanner(connection)
			for lines.Scan() {
				result, err := s.command(strings.Fields(lines.Text()))
				answer := strings.TrimSpace("ok " + result)
				if err != nil {
					answer = "error " + err.Error()
				}
				if _, err := fmt.Fprintln(connection, answer); err != nil {
					return
				}
			}
		}()
	}
}

func (s *standin) command(words []string) (result string, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%v", panicked)
		}
	}()
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch arg(0) {
	case "split":
		return "", s.split(arg(1))
	case "merge":
		return "", s.merge(arg(1))
	case "lead":
		return "", s.lead(arg(1), arg(2))
	case "stop", "start":
		return "", s.runStore(arg(0), arg(1))
	case "lose", "refuse", "hold":
		return "", s.plan(arg(0), arg(1), arg(2), "0", arg(3))
	case "delay":
		return "", s.plan(arg(0), arg(1), arg(2), arg(3), arg(4))
	case "release":
		s.faults.release(arg(1))
		return "", nil
	case "onepc":
		return "", s.set(&s.faults.onePC, arg(1))
	case "repeat":
		return "", s.set(&s.faults.repeat, arg(1))
	case "count":
		return s.counts(arg(1))
	case "door":
		return s.door(arg(1), words[min(2, len(words)):])
	case "forward":
		ms, err := strconv.Atoi(arg(1))
		s.clock.forward(time.Duration(ms) * time.Millisecond)
		return "", err
	case "safepoint":
		now, safe := s.clock.timestamp()>>logicalBits, s.safePoint.Load()>>logicalBits
		return strconv.FormatUint(now-safe, 10), nil
	case "locks":
		locks, err := s.client.MvccStore.ScanLock(nil, nil, math.MaxUint64)
		return strconv.Itoa(len(locks)), err
	case "keys":
		return s.keys(arg(1), arg(2))
	case "reset":
		s.faults.reset()
		return "", nil
	}
	return "", errors.New("no such command")
}

// keys lists keys, also those that are locked.
func (s *standin) keys(prefix, count string) (string, error) {
	start, err := hex.DecodeString(prefix)
	if err != nil || len(start) == 0 || start[len(start)-1] == 0xff {
		return "", errors.New("a prefix in hexadecimal is needed")
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return "", errors.New("a count is needed")
	}
	end := slices.Clone(start)
	end[len(end)-1]++
	now := s.clock.timestamp()
	found := s.client.MvccStore.ReverseScan(start, end, n, now, kvrpcpb.IsolationLevel_SI, nil)
	words := make([]string, len(found))
	for i, pair := range found {
		words[i] = hex.EncodeToString(pair.Key)
	}
	return strings.Join(words, " "), nil
}

func (s *standin) region(key string) (*metapb.Region, []byte, error) {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) == 0 {
		return nil, nil, errors.New("a key in hexadecimal is needed")
	}
	encoded := codec.EncodeBytes(nil, raw)
	region, _, _, _ := s.cluster.GetRegionByKey(encoded)
	if region == nil {
		return nil, nil, errors.New("no region holds the key")
	}
	return region, encoded, nil
}

func (s *standin) split(key string) error {
	region, encoded, err := s.region(key)
	if err != nil {
		return err
	}
	if string(region.StartKey) == string(encoded) {
		return nil
	}
	leader := 0
	_, led := s.cluster.GetRegion(region.Id)
	for i, peer := range region.Peers {
		if peer.Id == led {
			leader = i
		}
	}
	peers := s.cluster.AllocIDs(len(region.Peers))
	s.cluster.SplitRaw(region.Id, s.cluster.AllocID(), encoded, peers, peers[leader])
	return nil
}

func (s *standin) merge(key string) error {
	region, _, err := s.region(key)
	if err != nil {
		return err
	}
	if len(region.EndKey) == 0 {
		return nil
	}
	next, _, _, _ := s.cluster.GetRegionByKey(region.EndKey)
	s.cluster.Merge(region.Id, next.Id)
	return nil
}

func (s *standin) lead(key, number string) error {
	region, _, err := s.region(key)
	if err != nil {
		return err
	}
	store, err := s.store(number)
	if err != nil {
		return err
	}
	for _, peer := range region.Peers {
		if peer.StoreId == store.id {
			s.cluster.ChangeLeader(region.Id, peer.Id)
			return nil
		}
	}
	return errors.New("the store has no peer of the region")
}

func (s *standin) store(number string) (*store, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(s.stores) {
		return nil, fmt.Errorf("a store from 1 to %d is needed", len(s.stores))
	}
	return s.stores[n-1], nil
}

func (s *standin) runStore(how, number string) error {
	store, err := s.store(number)
	if err != nil {
		return err
	}
	if how == "start" {
		store.start()
	} else {
		store.stop()
	}
	return nil
}

func (s *standin) plan(kind, call, count, ms, key string) error {
	n, err := strconv.Atoi(count)
	if err != nil || call == "" {
		return errors.New("a call and a count are needed")
	}
	delay, err := strconv.Atoi(ms)
	if err != nil {
		return errors.New("milliseconds are needed")
	}
	planned := &fault{kind: kind, call: call, left: n, delay: time.Duration(delay) * time.Millisecond}
	if key != "" {
		region, _, err := s.region(key)
		if err != nil {
			return err
		}
		planned.region = region.Id
	}
	s.faults.plan(planned)
	return nil
}

func (s *standin) set(which *bool, word string) error {
	if word != "on" && word != "off" {
		return errors.New("on or off is needed")
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	*which = word == "on"
	return nil
}

func (s *standin) counts(key string) (string, error) {
	var of uint64
	if key != "" {
		region, _, err := s.region(key)
		if err != nil {
			return "", err
		}
		of = region.Id
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	counted := s.faults.counts
	if of != 0 {
		counted = s.faults.regions[of]
	}
	var words []string
	for call, n := range counted {
		words = append(words, fmt.Sprintf("%s=%d", call, n))
	}
	return strings.Join(words, " "), nil
}
