package storetest_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lumcast/headroom"
)

// fault is one way in which a store is broken.
type fault struct {
	name   string
	part   string   // of the suite, that is to find it
	prints []string // what the first rule that fails has to print of it
	spoil  func(s *faulty)
}

// faults are ways in which a store can be broken, about in the order in which an author may come
// upon them.
var faults = []fault{
	{"an unknown key is an error", "contract", []string{"Load of a key that nobody has written", "no such key"}, func(s *faulty) {
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			v, err := s.Store.Load(ctx, q)
			if err == nil && len(v.State.Counters) == 0 {
				return v, headroom.Errorf(headroom.NotFound, nil, "no such key")
			}
			return v, err
		}
	}},
	{
		"the caller's time does not count", "contract", []string{"want the time that the query gives"},
		asks(func(_ *faulty, q *headroom.Query) { q.Now = time.Time{} }),
	},
	{"the time is the host's", "contract", []string{"want the clock's"}, shows(func(v *headroom.View) { v.Now = time.Now() })},
	{
		"acknowledges and forgets, now and then",
		"contract",
		[]string{"Commit says that the change is made, and then Load shows"},
		func(s *faulty) {
			var n atomic.Int64
			s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
				v, err := s.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now})
				if err != nil || !holds(c, v) || n.Add(1)%20 != 0 {
					return s.Store.Commit(ctx, c)
				}
				v.State = c.Apply(v.State)
				return v, true, nil
			}
		},
	},
	{"counts in floating-point numbers", "contract", []string{"want: count of \"week\" is 9007199254740993"}, shows(func(v *headroom.View) {
		v.State.Counters = maps.Clone(v.State.Counters)
		for name, c := range v.State.Counters {
			c.Count = int64(float64(c.Count))
			v.State.Counters[name] = c
		}
	})},
	{
		"the count may be any", "contract", []string{"Commit checks the count", `a guard is not met: count of "week" is 30, want 0 to 29`},
		steps(func(s *headroom.Step, _ headroom.Counter) { s.Max = math.MaxInt64 }),
	},
	{
		"the count may be less", "contract",
		[]string{"Commit checks the count", "less counted than the change wants", "a guard is not met: count of"},
		steps(func(s *headroom.Step, _ headroom.Counter) { s.Min = math.MinInt64 }),
	},
	{
		"the window may be any", "contract", []string{"Commit checks the window", `a guard is not met: window of "week" is none`},
		steps(func(s *headroom.Step, c headroom.Counter) { s.From = c.Window }),
	},
	{
		"a window is known by its start",
		"contract",
		[]string{"a charge to a window that ends later"},
		steps(func(s *headroom.Step, c headroom.Counter) {
			if !c.Window.IsZero() && s.From.Start.Equal(c.Window.Start) {
				s.From.End, s.To.End = c.Window.End, c.Window.End
			}
		}),
	},
	{
		"the plan may be any", "contract", []string{"Commit checks the plan", `a guard is not met: plan is "", want "free"`},
		writes(func(c *headroom.Change, v headroom.View) { c.Plan = v.State.Plan }),
	},
	{
		"no plan is as good as any", "contract", []string{"no plan is stored, one is asked for", `a guard is not met: plan is "", want "free"`},
		writes(func(c *headroom.Change, _ headroom.View) { c.PlanOrNone = true }),
	},
	{
		"a plan is wanted", "contract",
		[]string{"Commit refused the change, though every guard is met", `plan "free" or none`},
		writes(func(c *headroom.Change, _ headroom.View) { c.PlanOrNone = false }),
	},
	{"a plan is not taken away", "contract", []string{"SetPlan is for all meters of one subject", `after SetPlan ""`}, func(s *faulty) {
		s.setPlan = func(ctx context.Context, subject, plan string) error {
			if plan == "" {
				return nil
			}
			return s.Store.SetPlan(ctx, subject, plan)
		}
	}},
	{"a plan is everybody's", "contract", []string{"SetPlan gave another subject the plan"}, func(s *faulty) {
		var mu sync.Mutex
		last := ""
		s.setPlan = func(ctx context.Context, subject, plan string) error {
			mu.Lock()
			defer mu.Unlock()
			last = plan
			return s.Store.SetPlan(ctx, subject, plan)
		}
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			v, err := s.Store.Load(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			v.State.Plan = last
			return v, err
		}
	}},
	{"ids are found whatever their case", "contract", []string{`Load is asked for ["ID"]`}, func(s *faulty) {
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			asked := q.IDs
			q.IDs = slices.Clone(q.IDs)
			for i, id := range q.IDs {
				q.IDs[i] = strings.ToLower(id)
			}
			v, err := s.Store.Load(ctx, q)
			for i, id := range q.IDs {
				if r, ok := v.Records[id]; ok {
					v.Records[asked[i]] = r
				}
			}
			return v, err
		}
	}},
	{
		"the first id is found", "contract", []string{"Load brings the records that are asked for"},
		asks(func(_ *faulty, q *headroom.Query) { q.IDs = q.IDs[:min(1, len(q.IDs))] }),
	},
	{
		"a record may be any",
		"contract",
		[]string{"Commit checks every record", `a guard is not met: record "a" is d30@week:1937520000, want none`},
		writes(func(c *headroom.Change, v headroom.View) {
			for i, r := range c.Records {
				if have, ok := v.Records[r.ID]; ok {
					c.Records[i].Was = &have
				}
			}
		}),
	},
	{
		"records are compared by kind and cost",
		"contract",
		[]string{"where the thresholds that were crossed differ"},
		writes(func(c *headroom.Change, v headroom.View) {
			for i, r := range c.Records {
				if have, ok := v.Records[r.ID]; ok && r.Was != nil && have.Kind == r.Was.Kind && have.Cost == r.Was.Cost {
					c.Records[i].Was = &have
				}
			}
		}),
	},
	{
		"thresholds are not kept",
		"contract",
		[]string{"a record comes back as it was", "want: record \"rich\""},
		writes(func(c *headroom.Change, _ headroom.View) {
			for i, r := range c.Records {
				if r.Is != nil && r.Is.Crossed != nil {
					is := *r.Is
					is.Crossed = nil
					c.Records[i].Is = &is
				}
			}
		}),
	},
	{
		"parts of a change are made one by one",
		"contract",
		[]string{"Commit says that the change is refused, and then Load shows"},
		func(s *faulty) {
			s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
				for len(c.Steps) > 1 {
					one := c
					one.Steps, one.Records, one.Grants, one.Debts = c.Steps[:1], nil, nil, nil
					c.Steps = c.Steps[1:]
					v, made, err := s.Store.Commit(ctx, one)
					if err != nil || !made {
						return v, made, err
					}
					c.Epoch, c.Rotate = v.State.Epoch, time.Time{}
				}
				return s.Store.Commit(ctx, c)
			}
		},
	},
	{"writes the count that it read", "contract", []string{"Commit checks and writes in one step", "and 25 of them fit"}, func(s *faulty) {
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			read, err := s.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now})
			if err != nil || !holds(c, read) {
				return read, false, err
			}
			runtime.Gosched()
			now, err := s.Store.Load(ctx, headroom.Query{Key: c.Key})
			c.Steps = slices.Clone(c.Steps)
			for i, step := range c.Steps {
				c.Steps[i].Min, c.Steps[i].Max = math.MinInt64, math.MaxInt64
				c.Steps[i].Add += read.State.Counters[step.Limit].Count - now.State.Counters[step.Limit].Count
			}
			if err != nil {
				return now, false, err
			}
			return s.Store.Commit(ctx, c)
		}
	}},
	{
		"reads, then writes without a guard",
		"contract",
		[]string{"Commit checks and writes in one step", "and 25 of them fit"},
		func(s *faulty) {
			s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
				v, err := s.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now})
				if err != nil || !holds(c, v) {
					return v, false, err
				}
				runtime.Gosched()
				c.Steps = slices.Clone(c.Steps)
				for i := range c.Steps {
					c.Steps[i].Min, c.Steps[i].Max = math.MinInt64, math.MaxInt64
				}
				return s.Store.Commit(ctx, c)
			}
		},
	},
	{"a view is the store's own map", "contract", []string{"has changed with a later Commit"}, func(s *faulty) {
		var mu sync.Mutex
		shared := map[headroom.Key]map[string]headroom.Counter{}
		share := func(key headroom.Key, v headroom.View) headroom.View {
			mu.Lock()
			defer mu.Unlock()
			if shared[key] == nil {
				shared[key] = map[string]headroom.Counter{}
			}
			clear(shared[key])
			maps.Copy(shared[key], v.State.Counters)
			v.State.Counters = shared[key]
			return v
		}
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			v, err := s.Store.Load(ctx, q)
			return share(q.Key, v), err
		}
	}},
	{
		"returns the view from before the change",
		"contract",
		[]string{"Commit says that the change is made, and returns a view with"},
		func(s *faulty) {
			s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
				v, err := s.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now})
				if err != nil {
					return v, false, err
				}
				_, made, err := s.Store.Commit(ctx, c)
				return v, made, err
			}
		},
	},
	{"a refusal shows nothing", "contract", []string{"Commit says that the change is refused, and returns a view with"}, func(s *faulty) {
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			v, made, err := s.Store.Commit(ctx, c)
			if !made {
				v = headroom.View{Now: v.Now}
			}
			return v, made, err
		}
	}},
	{"turns no week", "contract", []string{"want: count of"}, steps(func(s *headroom.Step, _ headroom.Counter) {
		if s.Opens && !s.From.IsZero() {
			s.Opens, s.To = false, s.From
		}
	})},
	{
		"keeps no totals",
		"contract",
		[]string{"Commit follows windows and keeps their totals", "want: total of"},
		shows(func(v *headroom.View) {
			v.State.Counters = maps.Clone(v.State.Counters)
			for name, c := range v.State.Counters {
				c.Past = nil
				v.State.Counters[name] = c
			}
		}),
	},
	{"a total may be any", "contract", []string{"Commit checks the totals that it corrects", "a guard is not met: "}, func(s *faulty) {
		steps(func(s *headroom.Step, c headroom.Counter) {
			for i, f := range s.Fold {
				for _, t := range c.Past {
					if t.Start.Equal(f.Start) {
						s.Fold = slices.Clone(s.Fold)
						s.Fold[i].Units = t.Units
					}
				}
			}
		})(s)
	}},
	{
		"what is carried over is not kept",
		"contract",
		[]string{"Commit keeps what a window carried over", "and 25 carried over"},
		shows(func(v *headroom.View) {
			v.State.Counters = maps.Clone(v.State.Counters)
			for name, c := range v.State.Counters {
				c.Carried = 0
				v.State.Counters[name] = c
			}
		}),
	},
	{
		"what was carried over may be any",
		"contract",
		[]string{"a charge that says that nothing is", "a guard is not met: ", "want 0"},
		steps(func(s *headroom.Step, c headroom.Counter) {
			if s.From.Start.Equal(s.To.Start) {
				s.Carried = c.Carried
			}
		}),
	},
	{
		"the generation of ids may be any", "contract",
		[]string{"ids age", "takes another generation for the present one", "younger generation of ids is"},
		writes(func(c *headroom.Change, v headroom.View) { c.Epoch = v.State.Epoch }),
	},
	{"ids are never forgotten", "contract", []string{"ids age", "after a third generation"}, func(s *faulty) {
		var mu sync.Mutex
		known := map[string]headroom.Record{}
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			v, err := s.Store.Load(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			for _, id := range q.IDs {
				if r, ok := v.Records[id]; ok {
					known[q.Key.Subject+id] = r
				} else if r, ok := known[q.Key.Subject+id]; ok && !v.State.EpochBefore.IsZero() {
					v.Records[id] = r
				}
			}
			return v, err
		}
	}},
	{
		"ids are forgotten with the first new generation",
		"contract",
		[]string{"ids age", "after a second generation"},
		shows(func(v *headroom.View) {
			if !v.State.EpochBefore.IsZero() {
				v.Records = without(v.Records, func(id string, r headroom.Record) bool { return id == "old" })
			}
		}),
	},
	{"holds are never forgotten", "contract", []string{"ids age", "record \"ended\" is h4"}, func(s *faulty) {
		var mu sync.Mutex
		known := map[string]headroom.Record{}
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			v, err := s.Store.Load(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			for _, id := range q.IDs {
				if r, ok := v.Records[id]; ok && r.Kind == headroom.KindHold {
					known[q.Key.Subject+" "+id] = r
				} else if r, ok := known[q.Key.Subject+" "+id]; ok && err == nil {
					v.Records[id] = r
				}
			}
			return v, err
		}
	}},
	{"buckets are not kept", "contract", []string{"bucket"}, shows(func(v *headroom.View) { v.State.Buckets = nil })},
	{
		"a bucket may have any units", "contract", []string{"Commit checks every bucket of a change", "a guard is not met: "},
		buckets(func(b *headroom.BucketStep, have headroom.Bucket, there bool) {
			if there && b.There {
				b.Min, b.Max = have.Units, have.Units
			}
		}),
	},
	{
		"a bucket is made that should be there", "contract", []string{"Commit checks every bucket of a change", "is not there"},
		buckets(func(b *headroom.BucketStep, _ headroom.Bucket, there bool) {
			if !there && b.Add >= 0 {
				b.There = false
			}
		}),
	},
	{
		"a bucket says nothing of the window in which it counts", "contract", []string{"Commit checks every bucket of a change", ", in "},
		buckets(func(b *headroom.BucketStep, _ headroom.Bucket, _ bool) { b.In = time.Time{} }),
	},
	{
		"there may be any number of holds", "contract", []string{"adds to a bucket whatever else was added", "there would be"},
		writes(func(c *headroom.Change, _ headroom.View) { c.MostHolds = 0 }),
	},
	{
		"nothing says what was cleared away", "contract", []string{"a bucket that was cleared away is not made again", "are swept up to"},
		shows(func(v *headroom.View) { v.State.Swept = time.Time{} }),
	},
	{
		"a sweep may follow any other", "contract", []string{"a bucket that was cleared away is not made again", "are swept up to"},
		writes(func(c *headroom.Change, v headroom.View) { c.Swept = v.State.Swept }),
	},
	{
		"the series of buckets may be any", "contract", []string{"a bucket that was cleared away is not made again", "series of buckets is"},
		writes(func(c *headroom.Change, v headroom.View) { c.Series = v.State.Series }),
	},
	{
		"there is room for any number of debts", "contract",
		[]string{"debts have a place of their own", "as many as there can be, and one", "a guard is not met: ", "debts"},
		room(func(c *headroom.Change) int { n := len(c.Debts); c.Debts = c.Debts[:max(0, n-1)]; return n }),
	},
	{"a grant may be any", "contract", []string{"Commit checks every grant", `a guard is not met: grant "a" is 50 units`}, writes(func(c *headroom.Change, v headroom.View) {
		for i, g := range c.Grants {
			if have, ok := v.State.Grants[g.ID]; ok {
				c.Grants[i].Was = &have
			}
		}
	})},
	{
		"there may be other grants", "contract", []string{"that one grant is all, where two are", "a guard is not met: ", "2 grants, want 1"},
		writes(func(c *headroom.Change, _ headroom.View) { c.AllGrants = false }),
	},
	{
		"what was used of a grant is a guard",
		"contract",
		[]string{"Commit draws on a grant whatever else was drawn", "Commit refused the change, though every guard is met"},
		writes(func(c *headroom.Change, v headroom.View) {
			for i, g := range c.Grants {
				if have := v.State.Grants[g.ID]; g.Was != nil && g.Add > 0 && have.Used != g.Was.Used {
					c.Grants[i].Min = math.MaxInt64
				}
			}
		}),
	},
	{"a debt may be any", "contract", []string{"Commit checks every debt", `a guard is not met: debt "a" is 30`}, writes(func(c *headroom.Change, v headroom.View) {
		for i, d := range c.Debts {
			if have, ok := v.State.Debts[d.ID]; ok && d.Was != nil {
				c.Debts[i].Was = &have
			}
		}
	})},
	{
		"the list of those who owe is one page",
		"contract",
		[]string{"Owing lists every key that owes", "is not in the list"},
		func(s *faulty) {
			s.owing = func(ctx context.Context, after string, limit int) ([]headroom.Key, string, error) {
				keys, _, err := s.Store.Owing(ctx, after, limit)
				return keys, "", err
			}
		},
	},
	{"a key is joined from two names", "contract", []string{"keys, limits and ids stay apart", "is mixed up with another"}, keys(joined)},
	{
		"a subject is found whatever its case", "contract",
		[]string{"keys, limits and ids stay apart", "is mixed up with another"},
		keys(func(k headroom.Key) headroom.Key { k.Subject = strings.ToLower(k.Subject); return k }),
	},
	{"a cancelled call goes on", "contract", []string{"Commit of a cancelled context"}, func(s *faulty) {
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			return s.Store.Commit(context.WithoutCancel(ctx), c)
		}
	}},
	{"an error has no code", "contract", []string{"want a *headroom.Error"}, func(s *faulty) {
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			if v, err := s.Store.Load(ctx, q); err == nil {
				return v, nil
			}
			return headroom.View{}, errors.New("something went wrong")
		}
	}},
	{"forgets one meter", "contract", []string{"Forget removes all of one subject", `Load of meter "calls" shows`}, func(s *faulty) {
		s.forget = func(ctx context.Context, subject string, meters []string, progress func(int)) (int, error) {
			v, err := s.Store.Load(ctx, headroom.Query{Key: headroom.Key{Subject: subject, Meter: "calls"}})
			if err != nil {
				return 0, err
			}
			rows, err := s.Forgetter.Forget(ctx, subject, meters, progress)
			s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
				if q.Key.Subject == subject && q.Key.Meter == "calls" {
					return v, nil
				}
				return s.Store.Load(ctx, q)
			}
			return rows, err
		}
	}},
	{"is always contended", "contract", []string{"Commit failed: contended"}, func(s *faulty) {
		s.commit = func(context.Context, headroom.Change) (headroom.View, bool, error) {
			return headroom.View{}, false, headroom.Contended
		}
	}},
	{"is down one time in seven", "contract", []string{"Commit failed: unavailable"}, func(s *faulty) {
		var n atomic.Int64
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			if n.Add(1)%7 == 0 {
				return headroom.View{}, false, headroom.Unavailable
			}
			return s.Store.Commit(ctx, c)
		}
	}},
	{"shows what was there before", "contract", []string{"and then Load shows"}, func(s *faulty) {
		var mu sync.Mutex
		last := map[headroom.Key]headroom.View{}
		s.load = func(ctx context.Context, q headroom.Query) (headroom.View, error) {
			v, err := s.Store.Load(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			old, ok := last[q.Key]
			last[q.Key] = v
			if ok && err == nil && q.Now.IsZero() {
				v.State = old.State
			}
			return v, err
		}
	}},
	{
		"refuses where units are left, now and then",
		"contract",
		[]string{"Commit refused the change, though every guard is met"},
		func(s *faulty) {
			var n atomic.Int64
			s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
				if n.Add(1)%11 != 0 {
					return s.Store.Commit(ctx, c)
				}
				v, err := s.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now})
				return v, false, err
			}
		},
	},
	{
		"loses at its end what it wrote last",
		"contract",
		[]string{"what was acknowledged is there when the store is opened again", `want: record "last"`},
		func(s *faulty) {
			s.closed = func() {
				shows(func(v *headroom.View) {
					v.Records = without(v.Records, func(id string, _ headroom.Record) bool { return id == "last" })
				})(s)
			}
		},
	},

	// What no direct rule shows: it takes many operations, long names, or many writers.
	{"ids beyond the 150th are forgotten", "rules", []string{"hundreds of ids in one week", "repeat"}, func(s *faulty) {
		var mu sync.Mutex
		n := map[headroom.Key]int{}
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if n[c.Key]++; n[c.Key] > 150 {
				c.Records = nil
			}
			return s.Store.Commit(ctx, c)
		}
	}},
	{
		"totals beyond the tenth are lost",
		"rules",
		[]string{"more windows of the future than one write takes"},
		shows(func(v *headroom.View) {
			v.State.Counters = maps.Clone(v.State.Counters)
			for name, c := range v.State.Counters {
				c.Past = c.Past[:min(10, len(c.Past))]
				v.State.Counters[name] = c
			}
		}),
	},
	{"ids are cut at 200 bytes", "rules", []string{"the longest names"}, func(s *faulty) {
		cut := func(id string) string { return id[:min(len(id), 200)] }
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			c.Records = slices.Clone(c.Records)
			for i := range c.Records {
				c.Records[i].ID = cut(c.Records[i].ID)
			}
			return s.Store.Commit(ctx, c)
		}
	}},
	{"a crowd makes it forget", "concurrent", []string{"five hundred at once"}, func(s *faulty) {
		var under, n atomic.Int64
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			defer under.Add(-1)
			under.Add(1)
			runtime.Gosched()
			if under.Load() > 20 && n.Add(1) > 45 {
				if v, err := s.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now}); err == nil && holds(c, v) {
					v.State = c.Apply(v.State)
					return v, true, nil
				}
			}
			return s.Store.Commit(ctx, c)
		}
	}},
	{"several changes are made one by one", "contract", []string{"CommitAll makes all changes or none", "the second does not fit"}, func(s *faulty) {
		s.commitAll = func(ctx context.Context, changes []headroom.Change) (views []headroom.View, all bool, err error) {
			all = true
			for _, c := range changes {
				v, made, failed := s.Store.Commit(ctx, c)
				views, all, err = append(views, v), all && made, errors.Join(err, failed)
			}
			return views, all, err
		}
	}},
	{"several keys are loaded one by one", "contract", []string{"they are not of one moment"}, func(s *faulty) {
		s.loadAll = func(ctx context.Context, queries []headroom.Query) (views []headroom.View, err error) {
			for _, q := range queries {
				v, failed := s.Store.Load(ctx, q)
				views, err = append(views, v), errors.Join(err, failed)
				runtime.Gosched()
			}
			return views, err
		}
	}},
}

// holds reports whether the guard of a change is met.
func holds(c headroom.Change, v headroom.View) bool { return c.Unmet(v) == "" }

// room acknowledges a change for which there is no room, if it is of many parts, and leaves out
// what is too much. drop leaves out one more of what is bounded, and returns how many there were.
// buckets is a store that changes each step of a bucket before it commits.
func buckets(change func(b *headroom.BucketStep, have headroom.Bucket, there bool)) func(*faulty) {
	return writes(func(c *headroom.Change, v headroom.View) {
		c.Buckets = slices.Clone(c.Buckets)
		for i := range c.Buckets {
			b := &c.Buckets[i]
			at := slices.IndexFunc(v.State.Buckets, func(have headroom.Bucket) bool { return have.BucketKey == b.BucketKey })
			if at < 0 {
				change(b, headroom.Bucket{}, false)
			} else {
				change(b, v.State.Buckets[at], true)
			}
		}
	})
}

func room(drop func(c *headroom.Change) int) func(*faulty) {
	return func(s *faulty) {
		s.commit = func(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
			v, made, err := s.Store.Commit(ctx, c)
			for less := c; err == nil && !made && drop(&less) > 5; {
				v, made, err = s.Store.Commit(ctx, less)
			}
			return v, made, err
		}
	}
}
