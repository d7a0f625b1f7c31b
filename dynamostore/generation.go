package dynamostore

import (
	"sync"
	"time"

	"github.com/lumcast/headroom"
)

// generation is how far the moving of ids has come on an item. Whoever finds it unchanged within
// one epoch knows that no id has left the item in between.
type generation struct {
	gen           int64
	epoch, before time.Time
	spilt         time.Time
}

func (it item) generation() generation {
	return generation{it.gen, it.state.Epoch, it.state.EpochBefore, it.spilt}
}

// under makes it an item of which only g is known.
func (it *item) under(g generation) {
	it.gen, it.state.Epoch, it.state.EpochBefore, it.spilt = g.gen, g.epoch, g.before, g.spilt
}

// mostGenerations bounds the memory that generations takes, to about 2 MB.
const mostGenerations = 10_000

// generations remembers for which keys the ledger holds ids. So the next deduction can look there
// first, and need not learn it from a failed write. What it remembers may be out of date: the guard
// of the write finds out.
type generations struct {
	mu sync.Mutex
	of map[headroom.Key]generation
}

// learn takes note of what an item says.
func (gs *generations) learn(it item) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if it.gen == 0 {
		delete(gs.of, it.key)
		return
	}
	if gs.of == nil {
		gs.of = map[headroom.Key]generation{}
	}
	if _, known := gs.of[it.key]; !known && len(gs.of) >= mostGenerations {
		for key := range gs.of { // any
			delete(gs.of, key)
			break
		}
	}
	gs.of[it.key] = it.generation()
}

// recall returns what is remembered of a key, if it is of this epoch.
func (gs *generations) recall(key headroom.Key, epoch time.Time) (generation, bool) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g, ok := gs.of[key]
	return g, ok && g.epoch.Equal(epoch)
}
