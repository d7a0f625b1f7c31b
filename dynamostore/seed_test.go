package dynamostore_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/enginetest"
)

// seed is a running testdata/seed.py.
type seed struct {
	t     *testing.T
	lines *bufio.Scanner
	in    *json.Encoder
}

func startSeed(t *testing.T, engine string) *seed {
	t.Helper()
	cmd := exec.Command(enginetest.Python(t), "testdata/seed.py", enginetest.Start(t, engine))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	s := &seed{t: t, lines: bufio.NewScanner(out), in: json.NewEncoder(in)}
	s.lines.Buffer(nil, 1<<20)
	if !s.lines.Scan() || s.lines.Text() != "ready" {
		t.Fatalf("seed.py said %q, %v", s.lines.Text(), s.lines.Err())
	}
	return s
}

// deduction is one that a writer asks for.
type deduction struct {
	subject string
	cost    int64
}

func (d deduction) MarshalJSON() ([]byte, error) { return json.Marshal([]any{d.subject, d.cost}) }

// together has eight writers of the seed's and eight of Headroom's deduct at the same time, and
// returns what each side says it charged to each subject, and the least cost that each side was
// refused.
func (s *seed) together(r *rig, week string, limit int64, writers [8][]deduction) (bySeed, byUs map[string]int64, seedRefused, weRefused int64) {
	s.t.Helper()
	if err := s.in.Encode(map[string]any{"table": r.opts.Table, "week": week, "limit": limit, "writers": writers}); err != nil {
		s.t.Fatal(err)
	}
	bySeed, byUs = map[string]int64{}, map[string]int64{}
	seedRefused, weRefused = math.MaxInt64, math.MaxInt64
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, costs := range writers {
		all.Go(func() {
			for j, c := range costs {
				d, err := r.deduct(c.subject, fmt.Sprintf("%s-%d-%d", week, i, j), c.cost)
				mu.Lock()
				switch {
				case err != nil || d.Replay:
					s.t.Errorf("%+v, %v", d, err)
				case d.Allowed:
					byUs[c.subject] += c.cost
				default:
					weRefused = min(weRefused, c.cost)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if !s.lines.Scan() {
		s.t.Fatalf("seed.py ended: %v", s.lines.Err())
	}
	var told [][]bool
	if err := json.Unmarshal(s.lines.Bytes(), &told); err != nil {
		s.t.Fatal(err)
	}
	for i, costs := range writers {
		for j, c := range costs {
			if told[i][j] {
				bySeed[c.subject] += c.cost
			} else {
				seedRefused = min(seedRefused, c.cost)
			}
		}
	}
	return bySeed, byUs, seedRefused, weRefused
}

// TestBesideTheSeedsOwnCode: the seed's program and Headroom write the same items at the same time.
func TestBesideTheSeedsOwnCode(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		python := startSeed(t, engine)

		// Within one week sums are exact, nothing is over the limit, and whoever is refused is refused
		// rightly.
		for _, test := range []struct {
			name  string
			limit int64
			item  attributes
		}{
			{"room for all, on an item of the seed's", 10_000, attributes{"userId": s("u"), "quotaWeek": s("2031-W22"), "quotaCount": n(3)}},
			{"room for some, on an item of ours", 200, nil},
		} {
			t.Run(test.name, func(t *testing.T) {
				limit := test.limit
				catalog, err := headroom.DefaultCatalog().WithUnits("slots", limit)
				if err != nil {
					t.Fatal(err)
				}
				r := newRig(t, engine, under(catalog))
				if test.item != nil {
					r.put(test.item)
				} else {
					r.admit("u", "before", 3, 3)
				}
				var writers [8][]deduction
				for i := range writers {
					for j := range 10 {
						writers[i] = append(writers[i], deduction{"u", []int64{1, 2, 3, 5, 8}[(i+j)%5]})
					}
				}
				bySeed, byUs, seedRefused, weRefused := python.together(r, "2031-W22", limit, writers)
				used := r.count("u")
				if used != 3+bySeed["u"]+byUs["u"] {
					t.Errorf("%d is stored, but 3, %d and %d were charged", used, bySeed["u"], byUs["u"])
				}
				if used > limit {
					t.Errorf("%d is over the limit of %d", used, limit)
				}
				if refused := min(seedRefused, weRefused); refused <= limit-used {
					t.Errorf("%d was refused though %d of %d are used", refused, used, limit)
				}
				if test.item != nil && (bySeed["u"] == 0 || byUs["u"] == 0) {
					t.Errorf("the seed charged %d and we %d: they did not meet", bySeed["u"], byUs["u"])
				}
				if got := r.used("u"); got != used {
					t.Errorf("usage says %d, %d is stored", got, used)
				}
			})
		}

		// The first write of a week, of subjects that nobody has seen, and of those with a week behind
		// them: exact too; but who loses that race to begin the week with the seed's code may be refused
		// though there is room.
		for _, before := range []int64{0, 150} {
			t.Run(fmt.Sprintf("the first of a week after %d", before), func(t *testing.T) {
				r := newRig(t, engine)
				var writers [8][]deduction
				const subjects = 6
				for k := range subjects {
					subject := fmt.Sprint("u-", k)
					if before > 0 {
						r.admit(subject, "before", before, before)
					}
					for i := range writers {
						writers[i] = append(writers[i], deduction{subject, 7})
					}
				}
				r.at(monday)
				bySeed, byUs, _, weRefused := python.together(r, "2031-W23", 200, writers)
				if weRefused != math.MaxInt64 {
					t.Errorf("%d was refused by us", weRefused)
				}
				for k := range subjects {
					subject := fmt.Sprint("u-", k)
					if used := r.count(subject); used != bySeed[subject]+byUs[subject] || byUs[subject] != 8*7 {
						t.Errorf("%s: %d is stored, but %d and %d were charged", subject, used, bySeed[subject], byUs[subject])
					}
					r.has(subject, "quotaWeek", s("2031-W23"))
					want := map[string]bool{"": true}
					if before > 0 {
						// Who turned the week decides whether its total is known.
						want = map[string]bool{"2031-W22 150": true, "2031-W22 ?": true}
						r.replay(subject, "before", before, bySeed[subject]+byUs[subject])
					}
					if got := r.history(subject); !want[got] {
						t.Errorf("%s: the history is %s", subject, got)
					}
				}
			})
		}
	})
}

// TestWhatTheSeedsTurnLoses: at the turn of a week the seed's code resets what it does not know.
// Headroom notices, says of exactly those windows that their totals are not known, and charges
// every id once all the same.
func TestWhatTheSeedsTurnLoses(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		for _, test := range []struct {
			name  string
			turns func(r *rig)
			used  int64  // before Headroom's next deduction
			past  string // the history, before that deduction and after it
			next  string // the history one week after it, the deduction being of 5
		}{
			{"forward", func(r *rig) {
				r.at(monday)
				r.seedDeducts("u", "2031-W23", 7, 200)
			}, 7, "2031-W22 ?, 2031-W21 20", "2031-W23 12, 2031-W22 ?, 2031-W21 20"},
			{"forward, and counts on", func(r *rig) {
				r.at(monday)
				r.seedDeducts("u", "2031-W23", 7, 200)
				r.seedDeducts("u", "2031-W23", 7, 200)
			}, 14, "2031-W22 ?, 2031-W21 20", "2031-W23 19, 2031-W22 ?, 2031-W21 20"},
			{"forward by weeks of which Headroom saw none", func(r *rig) {
				r.at(monday.Add(3 * week))
				r.seedDeducts("u", "2031-W26", 7, 200)
			}, 7, "2031-W25 ?, 2031-W24 ?, 2031-W23 ?, 2031-W22 ?, 2031-W21 20", "2031-W26 12, 2031-W25 ?, 2031-W24 ?, 2031-W23 ?, 2031-W22 ?, 2031-W21 20"},
			{"forward, and the next week comes", func(r *rig) {
				r.seedDeducts("u", "2031-W23", 7, 200)
				r.at(monday.Add(week))
			}, 0, "2031-W23 7, 2031-W22 ?, 2031-W21 20", "2031-W24 5, 2031-W23 7, 2031-W22 ?, 2031-W21 20"},
			{"back, since its clock is behind", func(r *rig) {
				r.at(monday)
				r.admit("u", "monday", 50, 50)
				r.seedDeducts("u", "2031-W22", 7, 200)
			}, 0, "2031-W22 ?, 2031-W21 20", "2031-W23 ?, 2031-W22 ?, 2031-W21 20"},
			{"into a year to come, since its clock is wrong", func(r *rig) {
				r.seedDeducts("u", "2032-W22", 7, 200)
			}, 7, "2031-W21 20", "2031-W22 ?, 2031-W21 20"},
			{"on an item that only it has written", func(r *rig) {
				r.put(attributes{"userId": s("u")})
				r.seedDeducts("u", "2031-W22", 9, 200)
				r.at(monday)
				r.seedDeducts("u", "2031-W23", 7, 200)
			}, 7, "", "2031-W23 12"},
		} {
			t.Run(test.name, func(t *testing.T) {
				r := newRig(t, engine)
				r.at(tuesday.Add(-week))
				r.admit("u", "first", 20, 20)
				r.at(tuesday)
				r.admit("u", "second", 40, 40)
				test.turns(r)
				if used := r.used("u"); used != test.used {
					t.Fatalf("%d used, want %d", used, test.used)
				}
				if got := r.history("u"); got != test.past {
					t.Fatalf("before a deduction the history is %s, want %s", got, test.past)
				}
				r.admit("u", "third", 5, test.used+5)
				if got := r.history("u"); got != test.past {
					t.Fatalf("after a deduction the history is %s, want %s", got, test.past)
				}
				used := test.used + 5
				if test.past != "" {
					if r.clock.Sub(tuesday.Add(-week)) <= headroom.DefaultHorizon {
						r.replay("u", "first", 20, used)
					}
					r.replay("u", "second", 40, used)
				}
				r.replay("u", "third", 5, used)
				r.at(r.clock.Add(week))
				r.admit("u", "fourth", 1, 1)
				if got := r.history("u"); got != test.next {
					t.Fatalf("a week later the history is %s, want %s", got, test.next)
				}
				r.replay("u", "third", 5, 1)
			})
		}
	})
}
