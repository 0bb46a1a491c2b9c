package main

import (
	"sync"
	"time"
)

// A clock gives timestamps as the placement driver does: milliseconds, and a count within them.
type clock struct {
	mu       sync.Mutex
	physical int64
	logical  int64
	// How far the clock is put forward.
	ahead time.Duration
}

const logicalBits = 18

// next reserves count timestamps and returns the last.
func (c *clock) next(count int64) (physical, logical int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Add(c.ahead).UnixMilli()
	if now > c.physical {
		c.physical, c.logical = now, 0
	}
	if c.logical+count >= 1<<logicalBits {
		c.physical, c.logical = c.physical+1, 0
	}
	c.logical += count
	return c.physical, c.logical
}

func (c *clock) timestamp() uint64 {
	physical, logical := c.next(1)
	return uint64(physical)<<logicalBits + uint64(logical)
}

func (c *clock) forward(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}
