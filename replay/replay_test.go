package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lumcast/headroom"
)

const header = "completed_at,subject,operation,quality,duration_seconds\n"

// fake decides by a function.
type fake func(context.Context, headroom.Request) (headroom.Decision, error)

func (f fake) Deduct(ctx context.Context, r headroom.Request) (headroom.Decision, error) {
	return f(ctx, r)
}

func admit(r headroom.Request) (headroom.Decision, error) {
	return headroom.Decision{Allowed: true, Reason: headroom.ReasonAdmitted, Cost: r.Cost, Window: headroom.ISOWeek(r.Now)}, nil
}

func lumcast(t *testing.T, workers int) Options {
	t.Helper()
	prices, err := headroom.DefaultCatalog().Prices("slots")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Meter: "slots", Prices: prices, Workers: workers}
}

func reader(t *testing.T, text string) *Reader {
	t.Helper()
	r, err := NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// manyRows has n rows of each of subjects subjects, one after the other.
func manyRows(subjects, n int) string {
	var b strings.Builder
	b.WriteString(header)
	for i := range n {
		for s := range subjects {
			fmt.Fprintf(&b, "2026-05-25T10:00:00Z,subject-%d,job-%d-%d,standard,60\n", s, s, i)
		}
	}
	return b.String()
}

func TestRowsOfASubjectKeepTheirOrder(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]string{}
	engine := fake(func(_ context.Context, r headroom.Request) (headroom.Decision, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Subject] = append(seen[r.Subject], r.Operation)
		return admit(r)
	})
	sum, err := Run(t.Context(), engine, reader(t, manyRows(20, 300)), lumcast(t, 7))
	if err != nil || sum.Admitted != 6000 || len(sum.Subjects) != 20 {
		t.Fatalf("%v, %+v", err, sum.Tally)
	}
	for s := range 20 {
		got := seen[fmt.Sprintf("subject-%d", s)]
		for i, operation := range got {
			if want := fmt.Sprintf("job-%d-%d", s, i); operation != want {
				t.Fatalf("row %d of subject %d is %s", i, s, operation)
			}
		}
		if len(got) != 300 {
			t.Errorf("%d rows of subject %d", len(got), s)
		}
	}
}

func TestAFailureThatPassesIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := map[string]int{}
		failures := []headroom.Code{headroom.OutcomeUnknown, headroom.Throttled, headroom.Contended, headroom.Unavailable}
		engine := fake(func(_ context.Context, r headroom.Request) (headroom.Decision, error) {
			try := tries[r.Operation]
			tries[r.Operation]++
			if try < len(failures) {
				return headroom.Decision{}, failures[try]
			}
			d, err := admit(r)
			d.Replay = true // the first try was charged after all
			return d, err
		})
		sum, err := Run(t.Context(), engine, reader(t, manyRows(1, 3)), lumcast(t, 1))
		if err != nil || sum.Rows != 3 || sum.Replayed != 3 || sum.Charged != 0 {
			t.Errorf("%v, %+v", err, sum.Tally)
		}
	})
}

func TestAFailureForGoodStops(t *testing.T) {
	for _, failure := range []headroom.Code{headroom.Unavailable, headroom.Rejected, headroom.ClockUntrusted} {
		synctest.Test(t, func(t *testing.T) {
			after := 0
			engine := fake(func(_ context.Context, r headroom.Request) (headroom.Decision, error) {
				if r.Operation == "job-0-5" {
					return headroom.Decision{}, failure
				}
				if r.Operation > "job-0-5" {
					after++
				}
				return admit(r)
			})
			sum, err := Run(t.Context(), engine, reader(t, manyRows(1, 9)), lumcast(t, 4))
			if !errors.Is(err, failure) || !strings.HasPrefix(err.Error(), "line 7: ") {
				t.Errorf("error %v, want %v of line 7", err, failure)
			}
			if sum.Rows != 5 || sum.Admitted != 5 || after != 0 {
				t.Errorf("%+v, %d rows after the one that failed", sum.Tally, after)
			}
		})
	}
}

func TestWhoCancelsGetsTheRowsUnderWay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := 0
	engine := fake(func(ctx context.Context, r headroom.Request) (headroom.Decision, error) {
		if r.Operation == "job-0-5" {
			cancel()
		}
		if err := ctx.Err(); err != nil {
			return headroom.Decision{}, err
		}
		return admit(r)
	})
	opts := lumcast(t, 1)
	opts.Done = func() { done++ }
	sum, err := Run(ctx, engine, reader(t, manyRows(1, 9)), opts)
	if !errors.Is(err, context.Canceled) || sum.Rows != 6 || sum.Admitted != 6 || done != 6 {
		t.Errorf("%v, %d done, %+v", err, done, sum.Tally)
	}
}

func TestBadRowsAreSkipped(t *testing.T) {
	var bad []int
	opts := lumcast(t, 3)
	opts.Bad = func(row *BadRow) { bad = append(bad, row.Line) }
	engine := fake(func(_ context.Context, r headroom.Request) (headroom.Decision, error) {
		switch r.Subject {
		case "conflict":
			return headroom.Decision{}, headroom.Conflict
		case "old":
			return headroom.Decision{}, headroom.TooOld
		}
		return admit(r)
	})
	text := header + strings.Join([]string{
		"2026-05-25T10:00:00Z,a,job-1,standard,60",
		"2026-05-25T10:00:00Z,conflict,job-1,standard,60",
		"2026-05-25T10:00:00Z,old,job-1,standard,60",
		"2026-05-25T10:00:00Z,a,job-2,gold,60",
		"",
		strings.Repeat("x", maxLine+1),
		`2026-05-25T10:00:00Z,"a,job-3,standard,60`,
		"2026-05-25T10:00:00Z,a,job-4,standard,60",
	}, "\n")
	sum, err := Run(t.Context(), engine, reader(t, text), opts)
	slices.Sort(bad)
	if err != nil || sum.Rows != 7 || sum.Errors != 5 || sum.Admitted != 2 || !slices.Equal(bad, []int{3, 4, 5, 7, 8}) {
		t.Errorf("%v, %+v, bad lines %v", err, sum.Tally, bad)
	}
}

func TestALogThatEndsTooSoonIsAnError(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, manyRows(50, 100)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cut := zipped.Bytes()[:zipped.Len()/2]
	log, err := NewReader(bytes.NewReader(cut))
	if err != nil {
		t.Fatal(err)
	}
	engine := fake(func(_ context.Context, r headroom.Request) (headroom.Decision, error) { return admit(r) })
	if _, err = Run(t.Context(), engine, log, lumcast(t, 2)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if _, err := NewReader(bytes.NewReader(zipped.Bytes()[:5])); err == nil {
		t.Error("half a header of gzip was read")
	}
}

func TestSumsDoNotOverflow(t *testing.T) {
	var all Tally
	for range 3 {
		all.count(headroom.Decision{Allowed: true, Cost: math.MaxInt64 - 1})
		all.count(headroom.Decision{Cost: math.MaxInt64 - 1})
	}
	if all.Charged != math.MaxInt64 || all.RefusedUnits != math.MaxInt64 || all.Asked() != math.MaxInt64 {
		t.Errorf("%+v", all)
	}
}

func TestNoWorkers(t *testing.T) {
	if _, err := Run(t.Context(), nil, reader(t, header), Options{Workers: -1}); !errors.Is(err, headroom.Invalid) {
		t.Errorf("got %v", err)
	}
}

// FuzzReader holds that no text makes the reader panic or stop: it gives a row or names a bad one
// for every line that is not empty. What it reads is what a reader of CSV makes of the line, and
// costs something or is an error.
func FuzzReader(f *testing.F) {
	f.Add(header + "2026-05-25T10:00:00Z,a,job-1,standard,60\r\n\r\nx\n")
	f.Add("\ufeffduration_seconds,\"subject\",operation,quality,completed_at\n1,\"a\"\"b\",c,d,2026-05-25T10:00:00+14:00")
	f.Add(header + "\"\n\"\n,,,,\n")
	f.Add(header + "2026-05-25T10:00:00Z,a,b,standard,1e400\n2026-05-25T10:00:00Z,a,b,neural,9007199254740993\n2026-05-25T10:00:00Z,a,b,standard,NaN\n2026-05-25T10:00:00Z,a,b,standard,-0x1p-2\n")
	prices, err := headroom.DefaultCatalog().Prices("slots")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		log, err := NewReader(strings.NewReader(text))
		if err != nil {
			return
		}
		zipped, lines := strings.HasPrefix(text, "\x1f\x8b"), strings.Split(text, "\n")
		names := fieldsOf(strings.TrimPrefix(lines[0], "\ufeff"))
		for i := 0; !zipped && len(names) == 0; i++ { // empty lines before the header
			names = fieldsOf(strings.TrimPrefix(lines[i], "\ufeff"))
		}
		last := 0
		for {
			row, err := log.Next()
			var bad *BadRow
			switch {
			case err == io.EOF:
				return
			case errors.As(err, &bad):
				row.Line = bad.Line
			case err != nil && !zipped:
				t.Fatalf("after line %d: %v", last, err)
			case err != nil:
				return
			}
			if row.Line <= last {
				t.Fatalf("line %d after line %d", row.Line, last)
			}
			if last = row.Line; bad != nil || zipped {
				continue
			}
			want := map[string]string{}
			for i, value := range fieldsOf(lines[row.Line-1]) {
				want[strings.TrimSpace(names[i])] = value
			}
			quantity, err := strconv.ParseFloat(want["duration_seconds"], 64)
			if err != nil || row.Subject != want["subject"] || row.Operation != want["operation"] || row.Class != want["quality"] || row.Quantity != quantity && quantity == quantity {
				t.Fatalf("%+v, %v, want %q", row, err, want)
			}
			if cost, err := prices.Cost(row.Class, row.Quantity); err == nil && cost < 0 {
				t.Fatalf("%+v costs %d", row, cost)
			}
		}
	})
}

// fieldsOf reads a line with nothing but encoding/csv.
func fieldsOf(line string) []string {
	fields, _ := csv.NewReader(strings.NewReader(strings.TrimRight(line, "\r"))).Read()
	return fields
}
