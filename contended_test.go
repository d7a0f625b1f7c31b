package headroom_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

// shifting is a store in which others begin a new generation of ids before each write.
type shifting struct {
	*memstore.Store
	label *time.Time
}

func (s shifting) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	v, err := s.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs()})
	*s.label = s.label.Add(time.Minute)
	v.State.Epoch = *s.label
	return v, false, err
}

// TestContentionIsLoggedWithWhatWasNotMet: whoever looks into it finds which part of the guard the
// others keep changing.
func TestContentionIsLoggedWithWhatWasNotMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		label := time.Now()
		e, err := headroom.New(shifting{memstore.New(nil), &label}, headroom.DefaultCatalog(),
			headroom.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Deduct(t.Context(), headroom.Request{Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 1})
		if !errors.Is(err, headroom.Contended) {
			t.Fatalf("%v", err)
		}
		for _, want := range []string{"level=WARN", "subject=mira", "meter=slots", `unmet="label of the younger generation of ids is `} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, log.String())
			}
		}
	})
}
