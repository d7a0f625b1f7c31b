// Package embedded keeps state in one directory of the host. It is durable, it serves many
// goroutines of one process, and nothing else has to run. Its engine is Pebble, a log-structured
// key-value store.
//
// Durable: what a call has acknowledged survives a killed process and a power cut. So does whatever
// an answer shows, even if it is the change of another caller.
//
// Shared syncs: a commit reads, checks its guard and applies its change under the lock of its
// subject, which takes some microseconds. Subjects share a fixed number of locks. The commit then
// waits for the disk without the lock. One sync of the log takes all that was applied by then, so
// no writer waits for the sync of another. The log is written in order. Whoever has seen a change
// that is still on its way waits for that change, and has then waited for all before it.
//
// Small writes: a deduction writes one row for the state and one for the operation's id. The length
// of the history does not matter: it has a row of its own, which is written when a window turns.
// Ids lie in the order of their generations, so that a whole old generation can be dropped at once
// (sweep.go). The ids of a subject that does nothing for three of the longest horizons go with
// them. The format is described in format.go.
//
// The clock is the host's. The store remembers the highest reading by which it wrote. If the clock
// lies more than headroom.ClockTolerance behind that, nothing is decided until AcceptClock
// (clock.go).
//
// A failed write stops the store, not the process: say, the disk is full or broken, or the
// directory was made read-only. Calls under way end in OutcomeUnknown, later ones in Unavailable,
// and the directory stays as it is at that moment. Mend the cause and open the store again: all
// that was acknowledged is there (disk.go). A disk that neither fails nor answers makes writers
// wait, past their deadlines, because they cannot know the outcome.
//
// Damage is the error Unreadable, and nothing is changed: a file is missing, cut short or has a
// wrong byte, or a directory was copied without its empty files (damage.go). Where there is no
// error, all that was acknowledged is there without the damaged file. One kind of damage cannot be
// noticed, because a power cut could have left the same: a log (*.log) is missing, or the end of
// the newest log is cut off or damaged. A store that was closed has nothing in its logs, and loses
// nothing by that.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

// Options are the settings of a Store. The zero value is a good one.
type Options struct {
	Clock func() time.Time // the host's clock. Nil: time.Now
	// Format is the format that is written: 1 is that of the release before, which knows no debts, and
	// 2 is the newest. Zero: 2. As long as both releases may open the store, it must be 1.
	Format int
	// Logger gets faults of the disk and of the engine, as errors. Nil: they are only returned.
	Logger *slog.Logger

	fs       vfs.FS // the file system, for tests. Nil: the host's
	memTable uint64 // bytes of recent writes that are kept in memory, for tests. Zero: memTableSize
}

// stripes is how many locks the subjects share. Two subjects on one lock wait for each other while
// one of them reads and applies, some microseconds, and never for a sync.
const stripes = 512

// Store is a headroom.Store in a directory. Open makes one.
type Store struct {
	dir    string
	db     *pebble.DB
	write  func(*pebble.Batch) error // applies a batch, and does not wait until it is on disk
	disk   *disk
	clock  clock
	closed atomic.Bool
	wrote  atomic.Bool // something, since it was opened
	older  bool        // programs that know no debts open the store too

	seed    maphash.Seed
	stripes [stripes]stripe
}

// stripe guards the rows of the subjects that fall to it. To read them and to apply a change is one
// step under its lock. The sync comes after the lock is free.
type stripe struct {
	mu   sync.RWMutex
	last pending // the last one that was applied under the lock; nil: none yet
}

// pending is a change on its way to the disk. It is closed when the change is there, or when the
// store has failed.
type pending chan struct{}

var (
	_ headroom.Store  = (*Store)(nil)
	_ headroom.Joiner = (*Store)(nil)
)

// Load implements headroom.Store. Its errors are ClockUntrusted if the clock cannot be trusted and
// q brings no time of its own, Unreadable if what is stored cannot be read, and Unavailable if the
// store is closed or has stopped after a failed write. What it shows has reached the disk, even if
// q.Weak is set.
func (s *Store) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	views, err := s.LoadAll(ctx, []headroom.Query{q})
	if err != nil {
		return headroom.View{}, err
	}
	return views[0], nil
}

// Commit implements headroom.Store. Besides the errors of Load it fails with OutcomeUnknown if the
// disk failed while the change was on its way. Once the change is applied, Commit waits for the
// disk even if ctx ends.
func (s *Store) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	views, done, err := s.CommitAll(ctx, []headroom.Change{c})
	if err != nil {
		return headroom.View{}, false, err
	}
	return views[0], done, nil
}

// SetPlan implements headroom.Store. It fails as Commit does.
func (s *Store) SetPlan(ctx context.Context, subject, plan string) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	b := s.db.NewBatch()
	var err error
	if plan == "" {
		err = b.Delete(planKey(subject), nil)
	} else {
		err = b.Set(planKey(subject), []byte(plan), nil)
	}
	st := s.stripe(subject)
	st.mu.Lock()
	if err == nil {
		err = s.write(b)
	}
	on := make(pending)
	st.last = on
	st.mu.Unlock()
	s.wrote.Store(true)
	return s.sync(b, on, err)
}

// Owing implements headroom.Store. It lists exactly who owes.
func (s *Store) Owing(ctx context.Context, after string, limit int) (keys []headroom.Key, next string, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, "", err
	}
	from := []byte{tableDebts}
	if after != "" {
		from = append([]byte(after), 0) // the key that comes next to it
	}
	err = s.each(from, []byte{tableDebts + 1}, func(row []byte) (more bool, err error) {
		if len(keys) == limit {
			next = string(debtsKey(keys[limit-1]))
			return false, nil
		}
		key, err := debtor(row)
		keys = append(keys, key)
		return true, err
	})
	if err != nil {
		return nil, "", cmp.Or(s.stopped(), error(headroom.Errorf(headroom.Unreadable, err, "the list of debts of the store in %s cannot be read", s.dir)))
	}
	return keys, next, nil
}

// each calls f with the keys from one to before another, until f asks for no more.
func (s *Store) each(from, to []byte, f func(key []byte) (more bool, err error)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	more := true
	for ok := it.First(); ok && more && err == nil; ok = it.Next() {
		more, err = f(it.Key())
	}
	return errors.Join(err, it.Error(), it.Close())
}

// Close implements headroom.Store. Everything acknowledged is on disk already. A store that has
// stopped after a failed write closes without a further error.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var flushed error
	if s.wrote.Load() && s.disk.failure() == nil {
		flushed = s.db.Flush() // of a table no damage goes unnoticed, of a log that of its end does
	}
	if err := errors.Join(flushed, s.db.Close()); err != nil && s.disk.failure() == nil {
		return headroom.Errorf(headroom.Unavailable, err, "the store in %s did not close cleanly; what was acknowledged is on disk", s.dir)
	}
	return nil
}

func (s *Store) stripe(subject string) *stripe { return &s.stripes[s.stripeOf(subject)] }

func (s *Store) stripeOf(subject string) uint64 { return maphash.String(s.seed, subject) % stripes }

// usable reports why nothing can be asked of the store.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return headroom.Errorf(headroom.Unavailable, err, "nothing was written")
	}
	if s.closed.Load() {
		return headroom.Errorf(headroom.Unavailable, nil, "the store in %s is closed; nothing was written", s.dir)
	}
	return s.stopped()
}

func (s *Store) stopped() error {
	if err := s.disk.failure(); err != nil {
		return headroom.Errorf(headroom.Unavailable, err, "the store in %s has stopped, because a write failed; nothing was written. Mend the cause, then open the store again: all that was acknowledged is there", s.dir)
	}
	return nil
}

// settled waits until what was read under the locks of stripes has reached the disk. last are the
// last changes of the stripes at that time. The log is written in order, so all before them is
// there too.
func (s *Store) settled(ctx context.Context, last []pending) error {
	for _, on := range last {
		if on == nil {
			continue
		}
		select {
		case <-on: // even if ctx is done too
		default:
			select {
			case <-on:
			case <-ctx.Done():
				return headroom.Errorf(headroom.Unavailable, ctx.Err(), "gave up waiting for the disk; nothing was written")
			}
		}
	}
	return s.stopped()
}

// sync waits until an applied batch has reached the disk, and tells those who wait for its change.
// err is what applying it gave.
func (s *Store) sync(b *pebble.Batch, on pending, err error) error {
	defer close(on)
	// After a failure the batch may belong to nobody. To wait for it could take for ever, and it
	// must not be used again.
	if err == nil && s.disk.failure() == nil {
		err = b.SyncWait()
		_ = b.Close() // it only goes back to a pool
	}
	if err = cmp.Or(s.disk.failure(), err); err != nil {
		s.disk.fail("commit", err)
		return headroom.Errorf(headroom.OutcomeUnknown, err, "the store in %s failed while writing: repeat the same operation id once it is open again", s.dir)
	}
	return nil
}
