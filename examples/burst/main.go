// Command burst measures what a user gets from a burst of jobs, under each way of enforcing a
// limit. The user has used 180 of 200 units, and starts 50 jobs of 20 units at once.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

const (
	limit = 200
	spent = 180
	jobs  = 50
	cost  = 20
)

// way is one way of enforcing a limit. ask is called before the work of a job, and says whether to
// start it. done is called after the work.
type way struct {
	name string
	ask  func(context.Context, *headroom.Engine, headroom.Request) (headroom.Decision, error)
	done func(context.Context, *headroom.Engine, headroom.Request) (headroom.Decision, error)
	more int64 // how much more each job turns out to cost than was thought
}

var ways = []way{
	{name: "preflight, refuse at the end", ask: preflight, done: deduct(headroom.RefuseOverLimit)},
	{name: "preflight, record at the end", ask: preflight, done: deduct(headroom.RecordOverLimit)},
	{name: "hold, settle at the end", ask: hold, done: settle},
	{name: "hold, each job costs 5 more than held", ask: hold, done: settle, more: 5},
}

func preflight(ctx context.Context, e *headroom.Engine, r headroom.Request) (headroom.Decision, error) {
	return e.Preflight(ctx, r)
}

func deduct(over headroom.Policy,
) func(context.Context, *headroom.Engine, headroom.Request) (headroom.Decision, error) {
	return func(ctx context.Context, e *headroom.Engine, r headroom.Request) (headroom.Decision, error) {
		r.Over = over
		return e.Deduct(ctx, r)
	}
}

func hold(ctx context.Context, e *headroom.Engine, r headroom.Request) (headroom.Decision, error) {
	return e.Hold(ctx, r, time.Hour)
}

func settle(ctx context.Context, e *headroom.Engine, r headroom.Request) (headroom.Decision, error) {
	r.Over = headroom.RecordOverLimit // the work is done
	return e.Settle(ctx, r)
}

// result says what became of a burst.
type result struct {
	name    string
	refused int   // jobs refused before their work
	worked  int64 // units of work that was done
	charged int64
	unpaid  int   // jobs whose work was done and not charged
	used    int64 // how much of the limit is used in the end
}

// free returns how many units the user got beyond the limit.
func (r result) free() int64 { return r.worked + spent - limit }

// burst starts all jobs at once. Work takes minutes and asking takes milliseconds, so no job ends
// before all have asked.
func burst(ctx context.Context, w way) (result, error) {
	// The time is fixed, since a burst over the end of a week would count in the new week.
	clock := func() time.Time { return time.Date(2026, time.May, 28, 12, 0, 0, 0, time.UTC) }
	engine, err := headroom.New(memstore.New(clock), headroom.DefaultCatalog(), headroom.Options{Clock: clock})
	if err != nil {
		return result{}, err
	}
	user := headroom.Request{Subject: "alice", Meter: "slots", Operation: "before", Cost: spent}
	if _, err := engine.Deduct(ctx, user); err != nil {
		return result{}, err
	}

	r := result{name: w.name}
	var (
		mu      sync.Mutex
		asked   sync.WaitGroup
		running sync.WaitGroup
		failed  error
	)
	asked.Add(jobs)
	for i := range jobs {
		running.Go(func() {
			job := headroom.Request{
				Subject: user.Subject, Meter: user.Meter,
				Operation: fmt.Sprintf("job-%d", i), Cost: cost,
			}
			start, err := w.ask(ctx, engine, job)
			asked.Done()
			asked.Wait()
			job.Cost += w.more
			var end headroom.Decision
			if err == nil && start.Allowed {
				end, err = w.done(ctx, engine, job)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = err
			case !start.Allowed:
				r.refused++
			default:
				r.worked += job.Cost
				if end.Allowed {
					r.charged += job.Cost
				} else {
					r.unpaid++
				}
			}
		})
	}
	running.Wait()
	if failed != nil {
		return r, failed
	}
	usage, err := engine.Usage(ctx, headroom.UsageRequest{Subject: user.Subject, Meter: user.Meter})
	if err != nil {
		return r, err
	}
	r.used = usage.Limits[0].Used
	return r, nil
}

// measure runs the burst under each way.
func measure(ctx context.Context) ([]result, error) {
	var results []result
	for _, w := range ways {
		r, err := burst(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// table formats the results in Markdown.
func table(results []result) string {
	var b strings.Builder
	b.WriteString("| | jobs refused before the work | units worked | units charged | jobs unpaid | " +
		"used in the end, of 200 | units beyond the limit |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d |\n", r.name,
			r.refused, r.worked, r.charged, r.unpaid, r.used, r.free())
	}
	return b.String()
}

func main() {
	results, err := measure(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "burst:", err)
		os.Exit(1)
	}
	fmt.Print(table(results))
}
