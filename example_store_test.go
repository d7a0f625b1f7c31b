package headroom_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lumcast/headroom"
)

// textStore is a store over a table with two columns of text, as one over an SQL database would be:
// a name and a value. It writes no format of its own. A database would take the place of the map,
// and a transaction that of the mutex.
type textStore struct {
	clock func() time.Time

	mu   sync.Mutex
	rows map[string]string
}

func newTextStore(clock func() time.Time) *textStore {
	return &textStore{clock: clock, rows: map[string]string{}}
}

// Names of rows: the plan of a subject, the state of a key, and the record of an id in a
// generation.
func planRow(subject string) string { return fmt.Sprintf("plan %+q", subject) }
func stateRow(k headroom.Key) string {
	return fmt.Sprintf("state %+q %+q", k.Subject, k.Meter)
}
func recordRow(k headroom.Key, generation time.Time, id string) string {
	return fmt.Sprintf("record %+q %+q %d %+q", k.Subject, k.Meter, generation.Unix(), id)
}

// Load implements headroom.Store.
func (s *textStore) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view(ctx, q.Key, q.IDs, q.Now)
}

// Commit implements headroom.Store.
func (s *textStore) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.view(ctx, c.Key, c.IDs(), c.Now)
	if err != nil || c.Unmet(v) != "" {
		return v, false, err
	}
	after := c.Apply(v.State)
	for _, r := range c.Records {
		for _, generation := range []time.Time{v.State.Epoch, v.State.EpochBefore} {
			delete(s.rows, recordRow(c.Key, generation, r.ID))
		}
		if r.Is != nil {
			s.rows[recordRow(c.Key, after.Epoch, r.ID)] = r.Is.String()
		}
	}
	if !c.Rotate.IsZero() { // what was the older generation is forgotten
		forgotten := strings.TrimSuffix(recordRow(c.Key, v.State.EpochBefore, ""), `""`)
		maps.DeleteFunc(s.rows, func(row, _ string) bool { return strings.HasPrefix(row, forgotten) })
	}
	after.Plan = "" // it is the subject's, and has a row of its own
	text, err := after.MarshalText()
	if err != nil {
		return headroom.View{}, false, err
	}
	s.rows[stateRow(c.Key)] = string(text)
	v, err = s.view(ctx, c.Key, c.IDs(), c.Now)
	return v, err == nil, err
}

// view reads what is stored.
func (s *textStore) view(ctx context.Context, key headroom.Key, ids []string, now time.Time) (headroom.View, error) {
	if err := ctx.Err(); err != nil {
		return headroom.View{}, headroom.Errorf(headroom.Unavailable, err, "nothing was written")
	}
	v := headroom.View{Records: map[string]headroom.Record{}, Now: now}
	if now.IsZero() {
		v.Now = s.clock()
	}
	if text, found := s.rows[stateRow(key)]; found {
		if err := v.State.UnmarshalText([]byte(text)); err != nil {
			return headroom.View{}, err
		}
	}
	v.State.Plan = s.rows[planRow(key.Subject)]
	for _, id := range ids {
		text := cmp.Or(s.rows[recordRow(key, v.State.Epoch, id)], s.rows[recordRow(key, v.State.EpochBefore, id)])
		if text != "" {
			record, err := headroom.ParseRecord(text)
			if err != nil {
				return headroom.View{}, err
			}
			v.Records[id] = record
		}
	}
	return v, nil
}

// SetPlan implements headroom.Store.
func (s *textStore) SetPlan(ctx context.Context, subject, plan string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return headroom.Errorf(headroom.Unavailable, err, "nothing was written")
	}
	s.rows[planRow(subject)] = plan
	return nil
}

// Owing implements headroom.Store. A database would keep an index of the states with a line of
// debt.
func (s *textStore) Owing(ctx context.Context, after string, limit int) (keys []headroom.Key, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, "", headroom.Errorf(headroom.Unavailable, err, "nothing was read")
	}
	for _, row := range slices.Sorted(maps.Keys(s.rows)) {
		var k headroom.Key
		if _, err := fmt.Sscanf(row, "state %q %q", &k.Subject, &k.Meter); err != nil || row <= after || !strings.Contains(s.rows[row], "\ndebt ") {
			continue
		}
		if len(keys) == limit {
			return keys, stateRow(keys[limit-1]), nil
		}
		keys = append(keys, k)
	}
	return keys, "", nil
}

// Close implements headroom.Store.
func (s *textStore) Close() error { return nil }

// A store that keeps text. State and Record write it and read it.
func ExampleStore() {
	monday := time.Date(2026, time.May, 25, 9, 0, 0, 0, time.UTC)
	store := newTextStore(func() time.Time { return monday })
	engine, err := headroom.New(store, headroom.DefaultCatalog(), headroom.Options{Clock: store.clock})
	if err != nil {
		panic(err)
	}
	request := headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 30}
	if _, err := engine.Hold(context.Background(), request, time.Hour); err != nil {
		panic(err)
	}
	fmt.Print(store.rows[stateRow(headroom.Key{Subject: "mira", Meter: "slots"})])
	// Output:
	// headroom state 1
	// ids 2026-05-22T00:00:00Z before none
	// counter "week" 30 in "2026-W22" 2026-05-25T00:00:00Z 2026-06-01T00:00:00Z
	// bucket of holds until 2026-05-25T10:00:00Z series 0 units 1
	// bucket of limit "week" 2026-05-25T00:00:00Z until 2026-05-25T10:00:00Z series 0 units 30
}
