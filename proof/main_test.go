package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lumcast/headroom/proof/report"
)

// TestAPartThatShowsNothingFails: go test passes where tests were renamed, skipped or not found.
// Such a part has shown nothing.
func TestAPartThatShowsNothingFails(t *testing.T) {
	adds := func(rows ...report.Row) func(*proof) error {
		return func(p *proof) error {
			for _, r := range rows {
				p.add(r)
			}
			return nil
		}
	}
	own := report.Row{Part: "fuzz", Name: "a target", Count: 1, Unit: "inputs"}
	for _, test := range []struct {
		name string
		run  func(*proof) error
		want string // of the error; "": none
	}{
		{"a row", adds(own), ""},
		{"no row", adds(), "no row was reported"},
		{"a row of another part", adds(report.Row{Part: "clocks", Name: "memstore", Count: 1, Unit: "sequences"}), "no row was reported"},
		{"a row of nothing", adds(own, report.Row{Part: "fuzz", Name: "another", Unit: "inputs"}), "another: 0 inputs"},
		{"a failure", func(*proof) error { return errors.New("it failed") }, "it failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &proof{ctx: context.Background(), out: &screen{}}
			err := p.do(part{"fuzz", test.run})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
