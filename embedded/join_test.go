package embedded

import (
	"strings"
	"testing"

	"github.com/lumcast/headroom"
)

// While the release before may open the store, a request of several meters is an error that says
// so, and nothing is written. Once the store writes the newest format, it is charged.
func TestFormatOneHasNoSeveralMeters(t *testing.T) {
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: []headroom.Limit{
		{Meter: "requests", Name: "week", Units: 10}, {Meter: "tokens", Name: "week", Units: 100},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := headroom.Request{Subject: "ann", Meter: "requests", Operation: "a", Cost: 1, More: []headroom.Amount{{Meter: "tokens", Cost: 30}}}
	dir := t.TempDir()
	for _, format := range []int{1, 2} {
		s, err := Open(dir, Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		e, err := headroom.New(s, c, headroom.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Deduct(t.Context(), call)
		refused := headroom.CodeOf(err) == headroom.Rejected && strings.Contains(err.Error(), "newest format")
		if format == 1 && !refused || format == 2 && (err != nil || !d.Allowed || d.Replay) {
			t.Errorf("in format %d: %+v, %v", format, d, err)
		}
		for i, meter := range []string{"requests", "tokens"} {
			u, err := e.Usage(t.Context(), headroom.UsageRequest{Subject: "ann", Meter: meter})
			if want := []int64{1, 30}[i] * int64(format-1); err != nil || u.Limits[0].Used != want {
				t.Errorf("in format %d, meter %q: %+v, %v: want %d used", format, meter, u, err, want)
			}
		}
		closeStore(t, s)
	}
}
