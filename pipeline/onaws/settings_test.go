package onaws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// env is an environment that has what is needed, and pairs of a name and a value.
func env(pairs ...string) func(string) string {
	pairs = append(pairs, "HEADROOM_TABLE", "users", "HEADROOM_JOBS", "jobs", "HEADROOM_STATE_MACHINE", machine)
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestTheEnvironmentSetsTheOptions(t *testing.T) {
	s, err := onaws.FromEnv(env())
	if err != nil || s.Options.Hold != 0 || s.Options.Refuse || s.Options.Clock != nil || s.Users != "users" || s.Jobs != "jobs" || s.StateMachine != machine {
		t.Errorf("%+v, %v", s, err)
	}
	file := filepath.Join(t.TempDir(), "headroom.yaml")
	if err := os.WriteFile(file, []byte("default_plan: studio\nplans:\n  studio:\n    limits: [{meter: slots, units: 500}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = onaws.FromEnv(env("HEADROOM_MODE", "hold", "HEADROOM_OVER", "refuse", "HEADROOM_PLAN", "studio", "HEADROOM_NAMESPACE", "N", "HEADROOM_TEST_CLOCK", "2026-05-31T23:59:00Z",
		"HEADROOM_OLDER_THAN", "2h", "HEADROOM_DESCRIBES", "2.5", "HEADROOM_WORKERS", "4", "HEADROOM_SHARDS", "64", "HEADROOM_KEEP", "720h", "HEADROOM_CALL_TIMEOUT", "3s", "HEADROOM_FORMAT", "1", "HEADROOM_CONFIG", file, "HEADROOM_LEDGER", "l"))
	o := s.Options
	if err != nil || o.Hold != onaws.DefaultHold || !o.Refuse || o.Plan != "studio" || o.Namespace != "N" || !o.Clock().Equal(time.Date(2026, 5, 31, 23, 59, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", s, err)
	}
	if r := s.Reconcile; r.OlderThan != 2*time.Hour || r.Describes != 2.5 || r.Workers != 4 || s.Shards != 64 || s.Keep != 720*time.Hour || s.CallTimeout != 3*time.Second || s.Format != 1 || s.Ledger != "l" {
		t.Errorf("%+v", s)
	}
	stack, err := onaws.New(aws.Config{Region: "eu-central-1"}, s)
	if err != nil || stack.Config.Catalog.Default() != "studio" || stack.Jobs.Shards != 64 || stack.Jobs.Keep != 720*time.Hour {
		t.Errorf("%+v, %v", stack, err)
	}
	if s, err = onaws.FromEnv(env("HEADROOM_MODE", "hold", "HEADROOM_HOLD", "45m")); err != nil || s.Options.Hold != 45*time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = onaws.FromEnv(env("HEADROOM_HOLD", "45m")); err != nil || s.Options.Hold != 0 {
		t.Errorf("a hold by preflight: %+v, %v", s, err)
	}
	if stack, err = onaws.New(aws.Config{}, s); err != nil || stack.Settings.Reconcile.OlderThan != onaws.DefaultOlderThan || stack.Jobs.Keep != onaws.DefaultKeep {
		t.Errorf("%+v, %v", stack, err)
	}
}

func TestAWrongEnvironmentIsAnErrorAtTheStart(t *testing.T) {
	for _, c := range [][]string{
		{"HEADROOM_MODE", "holds"}, {"HEADROOM_OVER", "yes"}, {"HEADROOM_MODE", "hold", "HEADROOM_HOLD", "3"}, {"HEADROOM_MODE", "hold", "HEADROOM_HOLD", "-3h"}, {"HEADROOM_TEST_CLOCK", "now"},
		{"HEADROOM_OLDER_THAN", "soon"}, {"HEADROOM_SHARDS", "65"}, {"HEADROOM_SHARDS", "0"}, {"HEADROOM_WORKERS", "-1"}, {"HEADROOM_FORMAT", "3"}, {"HEADROOM_FORMAT", "0"}, {"HEADROOM_DESCRIBES", "0"}, {"HEADROOM_DESCRIBES", "NaN"}, {"HEADROOM_KEEP", "for ever"},
		{"HEADROOM_CALL_TIMEOUT", "1ms"}, {"HEADROOM_CONFIG", "/nowhere.yaml"}, {"HEADROOM_TABLE", ""}, {"HEADROOM_JOBS", ""}, {"HEADROOM_STATE_MACHINE", ""},
	} {
		if _, err := onaws.FromEnv(env(c...)); !errors.Is(err, headroom.Invalid) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if _, err := onaws.New(aws.Config{}, onaws.Settings{Users: "u", Jobs: "j", StateMachine: machine, Config: "plans: 3"}); err == nil {
		t.Error("a configuration that cannot be read is taken")
	}
}

// TestAnErrorTellsTheStateMachineWhetherToRepeat names the types that its Retry reads.
func TestAnErrorTellsTheStateMachineWhetherToRepeat(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind string
	}{
		{headroom.Invalid, onaws.ErrorPermanent}, {headroom.Conflict, onaws.ErrorPermanent}, {headroom.TooOld, onaws.ErrorPermanent}, {headroom.NotFound, onaws.ErrorPermanent}, {headroom.Unreadable, onaws.ErrorTemporary},
		{headroom.Throttled, onaws.ErrorTemporary}, {headroom.Unavailable, onaws.ErrorTemporary}, {headroom.OutcomeUnknown, onaws.ErrorTemporary}, {headroom.Rejected, onaws.ErrorTemporary},
		{headroom.Contended, onaws.ErrorTemporary}, {errors.New("of another kind"), onaws.ErrorTemporary},
	} {
		handle := onaws.Handler(func(context.Context, int) (int, error) { return 0, c.err })
		_, err := handle(t.Context(), 1)
		// Lambda's runtime takes the type from this very value, not from one that wraps it.
		if told, ok := err.(messages.InvokeResponse_Error); !ok || told.Type != c.kind || told.Message != c.err.Error() {
			t.Errorf("%v: %#v, want %s", c.err, err, c.kind)
		}
	}
	if out, err := onaws.Handler(func(_ context.Context, n int) (int, error) { return n + 1, nil })(t.Context(), 1); out != 2 || err != nil {
		t.Error(out, err)
	}
}

func TestALogLineNamesItsRequest(t *testing.T) {
	var out bytes.Buffer
	log := onaws.Logger(&out).With("a", 1)
	log.InfoContext(lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "r-17"}), "job")
	log.InfoContext(t.Context(), "job")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || line["request"] != "r-17" || line["a"] != 1.0 {
		t.Error(lines, err)
	}
	if strings.Contains(lines[1], "request") {
		t.Error(lines[1])
	}
	// Who wraps the handler hears of a line that could not be written.
	if err := onaws.Logger(full{}).Handler().Handle(t.Context(), slog.Record{}); !errors.Is(err, errFull) {
		t.Errorf("a line that was not written: %v", err)
	}
}

// full is a disk on which there is no room.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

// hung is a network on which no answer comes.
type hung struct{}

func (hung) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestARequestThatHangsEnds bounds each request to AWS by a time of its own.
func TestARequestThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stack, err := onaws.New(aws.Config{Region: "eu-central-1", Credentials: keys, HTTPClient: &http.Client{Transport: hung{}}},
			onaws.Settings{Users: "users", Jobs: "jobs", StateMachine: machine, CallTimeout: 2 * time.Second, Options: pipeline.Options{Logger: slog.New(slog.DiscardHandler)}})
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func() error{
			"jobs": func() error { _, _, err := stack.Jobs.Get(t.Context(), "a"); return err },
			"quota": func() error {
				_, err := stack.Engine.Usage(t.Context(), headroom.UsageRequest{Subject: "a", Meter: "slots"})
				return err
			},
			"execution": func() error { _, _, err := stack.Executions.Describe(t.Context(), "a"); return err },
		} {
			began := time.Now()
			if err, took := call(), time.Since(began); !errors.Is(err, headroom.Unavailable) || took != 2*time.Second {
				t.Errorf("%s: %v after %s, want it after 2s", name, err, took)
			}
		}
		// A batch of ten is answered in Lambda's time, though nothing answers.
		var b pipeline.Batch
		for _, id := range "abcdefghij" {
			b.Records = append(b.Records, pipeline.Delivery{MessageID: string(id), Body: `{"jobId":"` + string(id) + `","userId":"u","voiceQuality":"neural","durationSeconds":60}`})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if out, err := stack.Pipeline.Consume(ctx, b); err != nil || len(out.Items) != 10 || ctx.Err() != nil {
			t.Error(out, err, ctx.Err())
		}
	})
}

// TestARequestLeavesNoTimerBehind: its bound ends with it, in a function that is called again and
// again.
func TestARequestLeavesNoTimerBehind(t *testing.T) {
	n := &network{answer: func(*request) (*http.Response, error) { return says(200, "{}") }}
	stack, err := onaws.New(n.sdk(), settings(func(*onaws.Settings) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := stack.Jobs.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if asked := n.of("GetItem"); len(asked) != 1 || !errors.Is(asked[0].ctx.Err(), context.Canceled) {
		t.Errorf("%d requests, the context of the first: %v", len(asked), asked[0].ctx.Err())
	}
}

// TestTheStackKeepsItsRules lets a person at a terminal find them.
func TestTheStackKeepsItsRules(t *testing.T) {
	jobs := open(t, "dynoxide")
	if r, found, err := jobs.Rules(t.Context()); err != nil || found {
		t.Error(r, found, err)
	}
	mine := onaws.Settings{Options: pipeline.Options{Hold: time.Hour, Refuse: true, Plan: "studio"}, Config: strings.Repeat("# many plans\n", 100_000)}.Rules()
	short := mine
	short.Config = "# few plans"
	for range 2 {
		if err := jobs.SetRules(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
	}
	if r, found, err := jobs.Rules(t.Context()); err != nil || !found || r != mine {
		t.Error(found, err)
	}
	for _, c := range []struct {
		change func(*onaws.Rules)
		want   string
	}{
		{func(*onaws.Rules) {}, ""},
		{func(r *onaws.Rules) { r.Config = "# the same in other words" }, ""},
		{func(r *onaws.Rules) { r.Meter = "slots" }, ""},
		{func(r *onaws.Rules) { r.Over = "record" }, "what happens"},
		{func(r *onaws.Rules) { r.Plan = "" }, "the plan of"},
		{func(r *onaws.Rules) { r.Meter = "minutes" }, "the meter"},
		{func(r *onaws.Rules) {
			r.Config = "default_plan: a\nplans:\n  a:\n    limits: [{meter: slots, units: 5}]\n"
		}, "the plans"},
		{func(r *onaws.Rules) { r.Config = "prices:\n  slots: {step: 60, rates: {standard: 7}}\n" }, "the prices"},
		{func(r *onaws.Rules) { r.Format = 1 }, "the format of items"},
		{func(r *onaws.Rules) { r.Config = "dynamodb: {attributes: {count: used}}\n" }, "the attributes"},
	} {
		other := short
		c.change(&other)
		if got, err := short.Differ(other); err != nil || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q, %v, want %q", got, err, c.want)
		}
	}
}
