package onaws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/internal/enginetest"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// TestTheDefaultsAreThoseOfTheDocs in numbers: a change is one of the template and the docs too.
func TestTheDefaultsAreThoseOfTheDocs(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"hold", onaws.DefaultHold.String(), "6h0m0s"}, {"age of a job that is looked at", onaws.DefaultOlderThan.String(), "1h30m0s"},
		{"bound of a call", onaws.DefaultCallTimeout.String(), "5s"}, {"days that a job stays", fmt.Sprint(onaws.DefaultKeep.Hours() / 24), "90"},
		{"shards", fmt.Sprint(onaws.DefaultShards), "8"}, {"most shards", fmt.Sprint(onaws.MaxShards), "64"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

// TestAFinishedJobOutlastsEveryLateDelivery: it stays for the longest horizon and the 32 days in
// which a message comes back, unless a setting says otherwise.
func TestAFinishedJobOutlastsEveryLateDelivery(t *testing.T) {
	const (
		day   = 24 * time.Hour
		plans = "plans:\n  free:\n    limits: [{meter: slots, units: 5}, {meter: calls, units: 6}]\n"
	)
	for _, c := range []struct {
		config string
		keep   time.Duration
		want   time.Duration
	}{
		{"", 0, 90 * day}, {"horizon: 57d", 0, 90 * day}, {"horizon: 58d", 0, 90 * day}, {"horizon: 59d", 0, 91 * day}, {"horizon: 200d", 0, 232 * day}, {"horizon: 200d", 40 * day, 40 * day},
		{"meters: {calls: {remember: 20d}, slots: {remember: 100d}}\n" + plans, 0, 132 * day}, {"meters: {calls: {remember: 100d}, slots: {remember: 20d}}\n" + plans, 0, 132 * day},
	} {
		stack, err := onaws.New(aws.Config{}, settings(func(s *onaws.Settings) { s.Config, s.Keep = c.config, c.keep }))
		if err != nil || stack.Jobs.Keep != c.want {
			t.Errorf("%q, %s: %v, %v, want %v", c.config, c.keep, stack.Jobs.Keep, err, c.want)
		}
	}
}

// settings are those that are needed, with a change.
func settings(change func(*onaws.Settings)) onaws.Settings {
	s := onaws.Settings{Users: "users", Jobs: "jobs", StateMachine: machine, Options: pipeline.Options{Logger: slog.New(slog.DiscardHandler)}}
	change(&s)
	return s
}

// TestAStackIsNotMadeOfWhatIsWrong: each part says so at the start, not at the first message.
func TestAStackIsNotMadeOfWhatIsWrong(t *testing.T) {
	limits := "default_plan: a\nplans:\n  a:\n    limits:\n"
	for i := range 60 {
		limits += fmt.Sprintf("    - {meter: slots, name: l%d, units: 5}\n", i)
	}
	for name, change := range map[string]func(*onaws.Settings){
		"no table of users": func(s *onaws.Settings) { s.Users = "" }, "no table of jobs": func(s *onaws.Settings) { s.Jobs = "" }, "no state machine": func(s *onaws.Settings) { s.StateMachine = "" },
		"a configuration": func(s *onaws.Settings) { s.Config = "plans: 3" }, "a format": func(s *onaws.Settings) { s.Format = 3 },
		"more limits than fit": func(s *onaws.Settings) { s.Config = limits }, "a hold": func(s *onaws.Settings) { s.Options.Hold = time.Millisecond }, "a meter": func(s *onaws.Settings) { s.Options.Meter = "nobody's" },
	} {
		if stack, err := onaws.New(aws.Config{}, settings(change)); err == nil || stack != nil {
			t.Errorf("%s: %v, %v", name, stack, err)
		} else if strings.Contains(err.Error(), "a pipeline needs") {
			t.Errorf("%s is told of as a part that is missing: %v", name, err)
		}
	}
}

// TestEachWarningOfTheConfigurationIsLogged, not only the first.
func TestEachWarningOfTheConfigurationIsLogged(t *testing.T) {
	var out bytes.Buffer
	const config = "default_plan: a\nhorizon: 1d\nplans:\n  a:\n    limits: [{meter: slots, units: 5}, {meter: minutes, units: 5}]\n"
	if _, err := onaws.New(aws.Config{}, settings(func(s *onaws.Settings) { s.Config, s.Options.Logger = config, onaws.Logger(&out) })); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `"level":"WARN"`); n != 2 || !strings.Contains(out.String(), `meter \"minutes\"`) {
		t.Errorf("%d warnings: %s", n, out.String())
	}
}

// TestMessagesThatWaitGoBackByTheQueue, unless the caller has a way of its own.
func TestMessagesThatWaitGoBackByTheQueue(t *testing.T) {
	n := &network{answer: elsewhere}
	d := pipeline.Delivery{MessageID: "m", Body: "{}", Queue: "arn:aws:sqs:eu-central-1:123456789012:jobs"}
	stack, err := onaws.New(n.sdk(), settings(func(*onaws.Settings) {}))
	if err != nil {
		t.Fatal(err)
	}
	if err := stack.Settings.Options.Later(t.Context(), d, time.Second); err != nil || len(n.of("SendMessage")) != 1 {
		t.Errorf("%v, sent %d times", err, len(n.of("SendMessage")))
	}
	mine := errors.New("mine")
	stack, err = onaws.New(n.sdk(), settings(func(s *onaws.Settings) {
		s.Options.Later = func(context.Context, pipeline.Delivery, time.Duration) error { return mine }
	}))
	if err != nil || stack.Settings.Options.Later(t.Context(), d, time.Second) != mine {
		t.Error(err)
	}
}

// TestTheBoundsOfASettingAreExact: the last value that is taken, and the first that is not.
func TestTheBoundsOfASettingAreExact(t *testing.T) {
	for _, c := range []struct{ name, takes, refuses string }{
		{"HEADROOM_SHARDS", "1", "0"}, {"HEADROOM_SHARDS", "64", "65"}, {"HEADROOM_SHARDS", "8", "8.5"}, {"HEADROOM_WORKERS", "1", "0"}, {"HEADROOM_WORKERS", "1000", "1001"}, {"HEADROOM_WORKERS", "2", "two"},
		{"HEADROOM_FORMAT", "1", "0"}, {"HEADROOM_FORMAT", "2", "3"},
		{"HEADROOM_DESCRIBES", "0.001", "0"}, {"HEADROOM_DESCRIBES", "10", "-1"}, {"HEADROOM_DESCRIBES", "1", "one"}, {"HEADROOM_DESCRIBES", "1", "NaN"},
		{"HEADROOM_OLDER_THAN", "1s", "999ms"}, {"HEADROOM_KEEP", "1s", "999ms"}, {"HEADROOM_CALL_TIMEOUT", "1s", "999ms"}, {"HEADROOM_KEEP", "1h", "1"},
		{"HEADROOM_TEST_CLOCK", "2026-05-31T23:59:00Z", "2026-05-31"}, {"HEADROOM_MODE", "preflight", "Hold"}, {"HEADROOM_OVER", "record", "Refuse"},
	} {
		if _, err := onaws.FromEnv(env(c.name, c.takes)); err != nil {
			t.Errorf("%s %q: %v", c.name, c.takes, err)
		}
		if _, err := onaws.FromEnv(env(c.name, c.refuses)); !errors.Is(err, headroom.Invalid) || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.refuses) {
			t.Errorf("%s %q: %v", c.name, c.refuses, err)
		}
	}
	for _, name := range []string{"HEADROOM_TABLE", "HEADROOM_JOBS", "HEADROOM_STATE_MACHINE"} {
		if _, err := onaws.FromEnv(env(name, "")); !errors.Is(err, headroom.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("no %s: %v", name, err)
		}
	}
	missing := filepath.Join(t.TempDir(), "nobody.yaml")
	if _, err := onaws.FromEnv(env("HEADROOM_CONFIG", missing)); !errors.Is(err, headroom.Invalid) || strings.Count(err.Error(), missing) != 1 {
		t.Errorf("%v", err)
	}
	if s, err := onaws.FromEnv(env()); err != nil || s.Reconcile.OlderThan != 0 || s.Keep != 0 || s.CallTimeout != 0 || s.Shards != 0 || s.Format != 0 || s.Config != "" || s.Options.Logger == nil {
		t.Errorf("nothing is set: %+v, %v", s, err)
	}
}

// TestAFunctionIsWiredFromItsEnvironment, and says what is wrong with it.
func TestAFunctionIsWiredFromItsEnvironment(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if stack, err := onaws.Function(t.Context(), env("HEADROOM_SHARDS", "3")); err != nil || stack.Jobs.Shards != 3 {
		t.Errorf("%v, %v", stack, err)
	}
	if stack, err := onaws.Function(t.Context(), env("HEADROOM_MODE", "maybe")); !errors.Is(err, headroom.Invalid) || stack != nil {
		t.Errorf("%v, %v", stack, err)
	}
	t.Setenv("AWS_PROFILE", "nobody")
	if stack, err := onaws.Function(t.Context(), env()); !errors.Is(err, headroom.Invalid) || stack != nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v, %v", stack, err)
	}
}

// TestAFunctionThatCannotStartSaysWhyAndEnds, with status 1, so that Lambda starts it anew.
func TestAFunctionThatCannotStartSaysWhyAndEnds(t *testing.T) {
	if os.Getenv("HEADROOM_TEST_FATAL") != "" {
		onaws.Fatal(errors.New("no table"))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAFunctionThatCannotStartSaysWhyAndEnds$")
	cmd.Env = append(os.Environ(), "HEADROOM_TEST_FATAL=1")
	out, err := cmd.Output()
	var exit *exec.ExitError
	var line struct{ Level, Error string }
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || json.Unmarshal(out, &line) != nil || line.Level != "ERROR" || line.Error != "no table" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestALineOfAGroupNamesItsRequest too.
func TestALineOfAGroupNamesItsRequest(t *testing.T) {
	var out bytes.Buffer
	onaws.Logger(&out).WithGroup("job").InfoContext(lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "r-17"}), "started", "id", "a")
	var line struct{ Job map[string]string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Job["id"] != "a" || line.Job["request"] != "r-17" {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// owing is a stack on an engine, with a network between and one job whose charge is pending.
func owing(t *testing.T) (*onaws.Stack, *network) {
	t.Helper()
	n := &network{}
	table, endpoint := open(t, "dynoxide").Table, enginetest.Start(t, "dynoxide")
	sdk := n.sdk()
	sdk.BaseEndpoint = &endpoint
	stack, err := onaws.New(sdk, settings(func(s *onaws.Settings) { s.Jobs, s.Users = table, table+"-users" }))
	if err != nil {
		t.Fatal(err)
	}
	if err := stack.Store.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-3 * time.Hour)
	if done, err := stack.Jobs.Swap(t.Context(), pipeline.Job{}, pipeline.Job{ID: "a", UserID: "alice", Status: pipeline.Succeeded, Charge: pipeline.ChargePending, Attempt: 1, Class: "standard", Seconds: 60, Cost: 1,
		Operation: "a", RequestedAt: at, FinishedAt: at, UpdatedAt: at}); err != nil || !done {
		t.Fatal(done, err)
	}
	return stack, n
}

// TestAFailureOfAPartOfReconcileIsToldAndStopsNoOther: of keeping the rules, of finishing what
// users owe, and of finishing jobs.
func TestAFailureOfAPartOfReconcileIsToldAndStopsNoOther(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  func(stack *onaws.Stack, q *request) bool
		charge bool
		kept   bool
	}{
		{"nothing", func(*onaws.Stack, *request) bool { return false }, true, true},
		{"the rules", func(s *onaws.Stack, q *request) bool {
			return q.op == "UpdateItem" && strings.Contains(fmt.Sprint(q.in), "#r:rules")
		}, true, false},
		{"debts", func(s *onaws.Stack, q *request) bool {
			return (q.op == "Query" || q.op == "Scan") && q.in["TableName"] != s.Jobs.Table
		}, true, true},
		{"jobs", func(s *onaws.Stack, q *request) bool { return q.op == "Query" && q.in["TableName"] == s.Jobs.Table }, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			stack, n := owing(t)
			failed := 0
			n.answer = func(q *request) (*http.Response, error) {
				if c.fails(stack, q) {
					failed++
					return refuses("AccessDeniedException")
				}
				return q.send()
			}
			r, err := stack.Reconcile(t.Context(), nil)
			if c.name == "nothing" && (err != nil || r.Finished != 1) || c.name != "nothing" && (!errors.Is(err, headroom.Rejected) || failed == 0) {
				t.Errorf("%+v, %v after %d failures", r, err, failed)
			}
			n.answer = nil
			if j, _, err := stack.Jobs.Get(t.Context(), "a"); err != nil || (j.Charge == pipeline.Charged) != c.charge {
				t.Errorf("%+v, %v", j, err)
			}
			if rules, found, err := stack.Jobs.Rules(t.Context()); err != nil || found != c.kept || found && rules != stack.Settings.Rules() {
				t.Errorf("%+v, %v, %v", rules, found, err)
			}
		})
	}
}

// TestDebtsTakeHalfTheTimeAtMost: jobs are finished though the table of debts hangs.
func TestDebtsTakeHalfTheTimeAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		stack, err := onaws.New(n.sdk(), settings(func(s *onaws.Settings) { s.CallTimeout = time.Hour }))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var jobs time.Duration
		n.answer = func(q *request) (*http.Response, error) {
			if q.in["TableName"] != "jobs" {
				<-q.ctx.Done()
				return nil, q.ctx.Err()
			}
			if q.op == "Query" && jobs == 0 {
				jobs = time.Since(began)
			}
			return says(200, `{}`)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if r, err := stack.Reconcile(ctx, nil); err != nil || !r.Debts.More || jobs != 5*time.Minute {
			t.Errorf("%+v, %v, and jobs after %s", r, err, jobs)
		}
	})
}
