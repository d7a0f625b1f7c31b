package onaws_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/pipeline"
)

// TestNoDurationIsBeyondTheJobTable is case 58 on DynamoDB, whose numbers are from 1e-130 to 1e126:
// a strange duration is neither a message that comes back for ever nor work that is never charged.
func TestNoDurationIsBeyondTheJobTable(t *testing.T) {
	jobs := open(t, "dynoxide")
	now := time.Date(2031, 5, 27, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	engine, err := headroom.New(memstore.New(clock), headroom.DefaultCatalog(), headroom.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	var x started
	p, err := pipeline.New(engine, headroom.DefaultCatalog(), jobs, &x, pipeline.Options{Clock: clock, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		seconds string
		status  pipeline.Status
		reason  string
	}{
		{"1e-200", pipeline.Running, ""}, {"4e-324", pipeline.Running, ""}, {"1e-130", pipeline.Running, ""}, {"1e-99", pipeline.Running, ""},
		{"-1e-99", pipeline.Failed, "durationSeconds is -1e-99"}, {"1e300", pipeline.Failed, "durationSeconds is 1e+300"}, {"-1e300", pipeline.Failed, "durationSeconds is -1e+300"},
	} {
		id := fmt.Sprint("request-", i)
		for range 2 { // the second is a repeat of the queue
			body := fmt.Sprintf(`{"jobId":%q,"userId":"alice","voiceQuality":"standard","durationSeconds":%s}`, id, c.seconds)
			failed, err := p.Consume(t.Context(), pipeline.Batch{Records: []pipeline.Delivery{{MessageID: "m", Body: body}}})
			if err != nil || len(failed.Items) != 0 {
				t.Errorf("%s seconds asked for: %v, %v", c.seconds, failed, err)
			}
		}
		if j, _, err := jobs.Get(t.Context(), id); err != nil || j.Status != c.status || !strings.HasPrefix(j.Reason, c.reason) {
			t.Errorf("%s seconds asked for: %+v, %v", c.seconds, j, err)
		}
		id = fmt.Sprint("result-", i)
		r, err := p.Callback(t.Context(), fmt.Appendf(nil, `{"execution":"x","status":"SUCCEEDED","input":{"jobId":%q,"userId":%q,"voiceQuality":"standard","durationSeconds":60},"result":{"durationSeconds":%s}}`, id, id, c.seconds))
		if err != nil || r.Charge != pipeline.Charged || r.Cost != 1 {
			t.Errorf("%s seconds done: %+v, %v", c.seconds, r, err)
		}
	}
}
