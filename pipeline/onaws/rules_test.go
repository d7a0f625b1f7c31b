package onaws_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// TestTheRulesAreThoseOfTheSettings, each of them.
func TestTheRulesAreThoseOfTheSettings(t *testing.T) {
	if r := (onaws.Settings{}).Rules(); r != (onaws.Rules{Over: "record"}) {
		t.Errorf("nothing is set: %+v", r)
	}
	s := onaws.Settings{Config: "c", Format: 1, Options: pipeline.Options{Hold: 90 * time.Minute, Refuse: true, Plan: "studio", Meter: "minutes"}}
	if r := s.Rules(); r != (onaws.Rules{Hold: "1h30m0s", Over: "refuse", Plan: "studio", Meter: "minutes", Config: "c", Format: 1}) {
		t.Errorf("%+v", r)
	}
}

// TestRulesThatAreTheSameAreNotWrittenAgain: a function that runs each quarter of an hour writes
// once.
func TestRulesThatAreTheSameAreNotWrittenAgain(t *testing.T) {
	jobs, n := through(t)
	for i, r := range []onaws.Rules{{Over: "record"}, {Over: "record"}, {Over: "refuse"}, {Over: "refuse"}, {Over: "record"}} {
		if err := jobs.SetRules(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if written := len(n.of("UpdateItem")); written != 1+i/2 {
			t.Errorf("after %d calls: written %d times", i+1, written)
		}
		if got, found, err := jobs.Rules(t.Context()); err != nil || !found || got != r {
			t.Errorf("%+v, %v, %v, want %+v", got, found, err, r)
		}
	}
}

// TestDamagedRulesAreAnErrorAndAreReplaced.
func TestDamagedRulesAreAnErrorAndAreReplaced(t *testing.T) {
	pack := func(text string) []byte {
		var b bytes.Buffer
		zip := gzip.NewWriter(&b)
		if _, err := zip.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	whole := pack(`{"over":"record"}`)
	for name, value := range map[string][]byte{"no gzip": []byte("over: record"), "cut off": whole[:len(whole)-6], "no JSON": pack("over: record"), "another type": pack(`{"over":3}`)} {
		jobs := open(t, "dynoxide")
		put(t, jobs, map[string]types.AttributeValue{"jobId": &types.AttributeValueMemberS{Value: "\x01rules"}, "rules": &types.AttributeValueMemberB{Value: value}})
		if r, found, err := jobs.Rules(t.Context()); found || !errors.Is(err, headroom.Unreadable) {
			t.Errorf("%s: %+v, %v, %v", name, r, found, err)
		}
		if err := jobs.SetRules(t.Context(), onaws.Rules{Over: "refuse"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r, found, err := jobs.Rules(t.Context()); err != nil || !found || r.Over != "refuse" {
			t.Errorf("%s: %+v, %v, %v", name, r, found, err)
		}
	}
}

// TestRulesThatCannotBeReadAreNotCompared, on either side.
func TestRulesThatCannotBeReadAreNotCompared(t *testing.T) {
	good, bad := onaws.Rules{Over: "record"}, onaws.Rules{Over: "record", Config: "plans: 3"}
	for _, c := range [][2]onaws.Rules{{good, bad}, {bad, good}} {
		if what, err := c[0].Differ(c[1]); err == nil {
			t.Errorf("they differ in %q", what)
		}
	}
	// The same plans, of which another one is the default.
	const plans = "plans:\n  a:\n    limits: [{meter: slots, units: 5}]\n  b:\n    limits: [{meter: slots, units: 6}]\n"
	a, b := onaws.Rules{Over: "record", Config: "default_plan: a\n" + plans}, onaws.Rules{Over: "record", Config: "default_plan: b\n" + plans}
	if what, err := a.Differ(b); err != nil || what != "the plans" {
		t.Errorf("%q, %v", what, err)
	}
}

// TestAJobThatChangesWhileItsUserIsForgotten is judged by what it has become.
func TestAJobThatChangesWhileItsUserIsForgotten(t *testing.T) {
	again := in(states[2], "a")
	again.Attempt = 3
	bobs := in(states[5], "a")
	bobs.UserID = "bob"
	for _, c := range []struct {
		name  string
		is    pipeline.Job // what the first one has become
		reads bool         // and it can be read
		gone  int
		want  error
	}{
		{"opened again", again, true, 0, headroom.Conflict}, {"of another user by now", bobs, true, 1, nil}, {"not to be read", again, false, 0, headroom.Throttled},
	} {
		jobs, n := through(t)
		for _, id := range []string{"a", "b"} {
			if done, err := jobs.Swap(t.Context(), pipeline.Job{}, in(states[5], id)); err != nil || !done {
				t.Fatal(done, err)
			}
		}
		n.answer = func(q *request) (*http.Response, error) {
			if q.op == "DeleteItem" && reflect.DeepEqual(q.in["Key"], map[string]any{"jobId": map[string]any{"S": "a"}}) {
				n.mu.Lock()
				n.answer = func(q *request) (*http.Response, error) {
					if q.op == "GetItem" && !c.reads {
						return refuses("ThrottlingException")
					}
					return q.send()
				}
				n.mu.Unlock()
				if done, err := jobs.Swap(t.Context(), in(states[5], "a"), c.is); c.is.UserID == "alice" && (err != nil || !done) {
					t.Error(done, err)
				}
				if c.is.UserID != "alice" {
					put(t, jobs, map[string]types.AttributeValue{"jobId": &types.AttributeValueMemberS{Value: "a"}, "userId": &types.AttributeValueMemberS{Value: "bob"}, "status": &types.AttributeValueMemberS{Value: "failed"}})
				}
			}
			return q.send()
		}
		heard := 0
		gone, err := jobs.Forget(t.Context(), "alice", func(int) { heard++ })
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if c.want == nil && gone != 1 || heard != gone {
			t.Errorf("%s: %d are gone, %d heard of", c.name, gone, heard)
		}
		n.mu.Lock()
		n.answer = nil
		n.mu.Unlock()
		if j, found, err := jobs.Get(t.Context(), "a"); err != nil || !found || j.Status != c.is.Status {
			t.Errorf("%s: what has changed is gone: %+v, %v, %v", c.name, j, found, err)
		}
	}
	jobs := open(t, "dynoxide")
	if gone, err := jobs.Forget(t.Context(), "", nil); gone != 0 || !errors.Is(err, headroom.Invalid) {
		t.Errorf("nobody: %d, %v", gone, err)
	}
}

// TestStacksThatRememberIDsOtherwiseDiffer: how long, of all meters or of one, and whether a charge
// needs an id.
func TestStacksThatRememberIDsOtherwiseDiffer(t *testing.T) {
	const plans = "plans:\n  free:\n    limits: [{meter: slots, units: 5}, {meter: calls, units: 6}]\n"
	same := onaws.Rules{Config: plans}
	for config, differs := range map[string]bool{
		"horizon: 20d\n": true, "horizon: 15d\n": false,
		"meters: {calls: {remember: 20d}}\n": true, "meters: {calls: {remember: 15d}}\n": false,
		"meters: {calls: {remember: none}}\n": true,
	} {
		other := onaws.Rules{Config: config + plans}
		for _, c := range [][2]onaws.Rules{{same, other}, {other, same}} {
			what, err := c[0].Differ(c[1])
			if err != nil || (what == "how meters remember operation ids") != differs || !differs && what != "" {
				t.Errorf("%q: they differ in %q, %v", config, what, err)
			}
		}
	}
}
