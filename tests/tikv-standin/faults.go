package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// faults counts calls and breaks the chosen ones.
type faults struct {
	mu     sync.Mutex
	counts calls
	// Those of each region.
	regions map[uint64]calls
	planned []*fault
	// Whether a prewrite may commit at once.
	onePC bool
	// Whether a repeated prewrite of a committed transaction is answered with its commit.
	repeat bool
	// Calls that wait for release.
	held []*heldCall
}

// calls counts calls by name.
type calls map[string]int

// A fault applies to the next calls of one name.
type fault struct {
	kind  string // "lose": do it, lose the answer; "refuse": do not do it; "delay", "hold": wait first
	call  string
	left  int
	delay time.Duration
	// Only calls to this region, if not zero.
	region uint64
	// Of a call that the fault holds.
	held *heldCall
}

// A heldCall has arrived, and is not done before it is let go.
type heldCall struct {
	// As the fault names it.
	name       string
	goOn, done chan struct{}
}

func newFaults() *faults {
	return &faults{counts: calls{}, regions: map[uint64]calls{}, onePC: true, repeat: true}
}

func (f *faults) plan(planned *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.planned = append(f.planned, planned)
}

// reset forgets planned faults and counts. Calls that are held stay so.
func (f *faults) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts, f.regions, f.planned, f.onePC, f.repeat = calls{}, map[uint64]calls{}, nil, true, true
}

// release holds no more calls of one name, or of any, lets those that are held go on, and returns when they
// are done.
func (f *faults) release(name string) {
	isMeant := func(call string) bool { return name == "" || name == call }
	f.mu.Lock()
	var held, kept []*heldCall
	for _, call := range f.held {
		if isMeant(call.name) {
			held = append(held, call)
		} else {
			kept = append(kept, call)
		}
	}
	f.held = kept
	f.planned = slices.DeleteFunc(f.planned, func(planned *fault) bool {
		return planned.kind == "hold" && isMeant(planned.call)
	})
	f.mu.Unlock()
	for _, call := range held {
		close(call.goOn)
	}
	for _, call := range held {
		<-call.done
	}
}

func (f *faults) count(call string, region uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[call]++
	if region != 0 {
		if f.regions[region] == nil {
			f.regions[region] = calls{}
		}
		f.regions[region][call]++
	}
}

// take returns the faults that apply to this call, each used once more.
func (f *faults) take(call string, onePC bool, region uint64) (taken []fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, planned := range f.planned {
		named := planned.call == call || onePC && planned.call == "OnePC"
		if named && planned.left > 0 && (planned.region == 0 || planned.region == region) {
			planned.left--
			used := *planned
			if used.kind == "hold" {
				used.held = &heldCall{name: used.call, goOn: make(chan struct{}), done: make(chan struct{})}
				f.held = append(f.held, used.held)
			}
			taken = append(taken, used)
		}
	}
	return taken
}

// intercept counts the call, applies the planned faults, and turns a panic of the mock into an error. A
// call that has arrived is done, also if its client has gone meanwhile.
func (f *faults) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	call := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	ctx = context.WithoutCancel(ctx)
	defer func() {
		if panicked := recover(); panicked != nil {
			answer, err = nil, status.Error(codes.Internal, fmt.Sprint(panicked))
		}
	}()
	var region uint64
	if r, ok := req.(interface{ GetContext() *kvrpcpb.Context }); ok {
		region = r.GetContext().GetRegionId()
	}
	f.count(call, region)
	prewrite, _ := req.(*kvrpcpb.PrewriteRequest)
	done, lose, err := f.meet(call, prewrite.GetTryOnePc(), region)
	defer done()
	if err != nil {
		return nil, err
	}
	answer, err = handle(ctx, req)
	if lose {
		return nil, status.Error(codes.Unavailable, "answer lost by the control port")
	}
	return answer, err
}

// meet applies the planned faults to a call that has arrived: it may wait, be refused, or lose its answer.
// The caller calls done once the call is done.
func (f *faults) meet(call string, onePC bool, region uint64) (done func(), lose bool, err error) {
	var held []chan struct{}
	done = func() {
		for _, waiting := range held {
			close(waiting)
		}
	}
	for _, fault := range f.take(call, onePC, region) {
		switch fault.kind {
		case "delay":
			time.Sleep(fault.delay)
		case "hold":
			<-fault.held.goOn
			held = append(held, fault.held.done)
		case "refuse":
			err = status.Error(codes.Unavailable, "refused by the control port")
		case "lose":
			lose = true
		}
	}
	return done, lose, err
}
