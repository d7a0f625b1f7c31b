package onaws_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// states are all pairs of status and charge that a job comes through, and no record.
var states = []pipeline.Job{
	{},
	{Status: pipeline.Queued}, {Status: pipeline.Running}, {Status: pipeline.Succeeded, Charge: pipeline.ChargePending}, {Status: pipeline.Succeeded, Charge: pipeline.Charged},
	{Status: pipeline.Failed}, {Status: pipeline.OverQuota}, {Status: pipeline.Unpaid},
}

// in is a job in a state, with all that a record may have.
func in(state pipeline.Job, id string) pipeline.Job {
	if state.Status == "" {
		return pipeline.Job{}
	}
	return pipeline.Job{
		ID: id, UserID: "alice", Status: state.Status, Charge: state.Charge, Attempt: 2, Returns: 3,
		Class: "neural", Seconds: 899.25, Cost: 30, Plan: "free", Held: true, Operation: id + "\n2", Week: "2026-W23", Decision: "admitted", Reason: "no reason",
		RequestedAt: noon, StartedAt: noon.Add(time.Second), FinishedAt: noon.Add(time.Minute), UpdatedAt: noon.Add(time.Hour),
	}
}

// guarded are the five fields of which a job must not have changed, and how a job that has reads.
var guarded = map[string]func(*pipeline.Job){
	"UserID": func(j *pipeline.Job) { j.UserID = "bob" },
	"Status": func(j *pipeline.Job) {
		j.Status = map[bool]pipeline.Status{true: pipeline.Queued, false: pipeline.Running}[j.Status == pipeline.Running]
	},
	"Charge": func(j *pipeline.Job) {
		j.Charge = map[bool]pipeline.Charge{true: pipeline.Charged, false: pipeline.ChargePending}[j.Charge == pipeline.ChargePending]
	},
	"Attempt": func(j *pipeline.Job) { j.Attempt++ },
	"Returns": func(j *pipeline.Job) { j.Returns++ },
}

// TestAChangeReplacesOnlyWhatItSaw goes from each state to each other: when the record is as it was
// seen it changes, and when one of the five guarded fields is another it stays.
func TestAChangeReplacesOnlyWhatItSaw(t *testing.T) {
	jobs := open(t, "dynoxide")
	for n, from := range states {
		for m, to := range states[1:] {
			replaced(t, jobs, fmt.Sprintf("job-%d-%d", n, m), from, to)
		}
	}
}

// others are records that differ from one in what is guarded, and none.
func others(stays pipeline.Job) map[string]pipeline.Job {
	all := map[string]pipeline.Job{"no record": {}}
	for field, change := range guarded {
		other := stays
		change(&other)
		all[field] = other
	}
	old := stays
	old.Attempt, old.Returns = 0, 0
	all["Attempt of an old record"] = old
	return all
}

// replaced changes the record of a job from one state to another.
func replaced(t *testing.T, jobs *onaws.Jobs, id string, from, to pipeline.Job) {
	t.Helper()
	swap := func(what string, was, is pipeline.Job, want bool) {
		t.Helper()
		if done, err := jobs.Swap(t.Context(), was, is); err != nil || done != want {
			t.Errorf("from %v to %v, %s: %v, %v, want %v", from.Status, to.Status, what, done, err, want)
		}
	}
	reads := func(want pipeline.Job) {
		t.Helper()
		if j, found, err := jobs.Get(t.Context(), id); err != nil || !found || j != want {
			t.Errorf("from %v to %v: %+v, %v, %v, want %+v", from.Status, to.Status, j, found, err, want)
		}
	}
	stays, is := in(from, id), in(to, id)
	is.Attempt, is.UpdatedAt = 3, noon.Add(2*time.Hour)
	if from.Status == "" { // another was faster
		stays = in(states[1], id)
	}
	swap("as it was", pipeline.Job{}, stays, true)
	for field, other := range others(stays) {
		swap("with another "+field, other, is, false)
	}
	reads(stays)
	// What is no guard does not matter: another may have written a reason.
	seen := pipeline.Job{ID: id, UserID: stays.UserID, Status: stays.Status, Charge: stays.Charge, Attempt: stays.Attempt, Returns: stays.Returns}
	swap("as it was seen", seen, is, true)
	reads(is)
	swap("again, which is late", stays, is, false)
}

// TestAJobWithoutARecordIsNotChanged: one that time to live has deleted does not come back half.
func TestAJobWithoutARecordIsNotChanged(t *testing.T) {
	jobs := open(t, "dynoxide")
	for _, from := range states[1:] {
		if done, err := jobs.Swap(t.Context(), in(from, "a"), in(states[5], "a")); err != nil || done {
			t.Errorf("from %v: %v, %v", from.Status, done, err)
		}
	}
	if j, found, err := jobs.Get(t.Context(), "a"); err != nil || found {
		t.Error(j, found, err)
	}
}

// TestNoRecordMeansNoItem: one of the application's own that says nothing of the job is a record
// too.
func TestNoRecordMeansNoItem(t *testing.T) {
	jobs := open(t, "dynoxide")
	put(t, jobs, map[string]types.AttributeValue{"jobId": &types.AttributeValueMemberS{Value: "a"}, "title": &types.AttributeValueMemberS{Value: "Tides"}})
	if done, err := jobs.Swap(t.Context(), pipeline.Job{}, in(states[2], "a")); err != nil || done {
		t.Error(done, err)
	}
	if j, found, err := jobs.Get(t.Context(), "a"); err != nil || !found || j != (pipeline.Job{ID: "a"}) {
		t.Errorf("%+v, %v, %v", j, found, err)
	}
}

// TestEachFieldIsKeptAndGoesAlone writes each field of a record alone, and then leaves it out.
func TestEachFieldIsKeptAndGoesAlone(t *testing.T) {
	jobs := open(t, "dynoxide")
	bare := pipeline.Job{ID: "a", UserID: "alice", Status: pipeline.Running, Attempt: 1, UpdatedAt: noon}
	was := pipeline.Job{}
	full := reflect.ValueOf(in(states[3], "a"))
	for i := range full.NumField() {
		name := full.Type().Field(i).Name
		one := bare
		reflect.ValueOf(&one).Elem().Field(i).Set(full.Field(i))
		if name == "Charge" {
			one.Status = pipeline.Succeeded
		}
		for _, is := range []pipeline.Job{one, bare} {
			if done, err := jobs.Swap(t.Context(), was, is); err != nil || !done {
				t.Fatal(name, done, err)
			}
			was = is
			if j, found, err := jobs.Get(t.Context(), "a"); err != nil || !found || j != is {
				t.Errorf("%s: got\n%+v, %v, %v, want\n%+v", name, j, found, err, is)
			}
		}
	}
}

// TestAChargedJobOfNoCostSaysSo: 0 units that were charged are no missing cost.
func TestAChargedJobOfNoCostSaysSo(t *testing.T) {
	jobs := open(t, "dynoxide")
	for i, state := range states[1:] {
		j := in(state, fmt.Sprint("job-", i))
		j.Cost = 0
		if done, err := jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
			t.Fatal(done, err)
		}
		if cost, given := item(t, jobs, j.ID)["cost"].(*types.AttributeValueMemberN); given != (j.Charge != "") || given && cost.Value != "0" {
			t.Errorf("%v %v: a cost stands there: %v", j.Status, j.Charge, given)
		}
	}
}

// TestADurationBeyondNumbersIsLeftOut: DynamoDB refuses a number of 1e126 or more, and with it the
// record of why the job was refused.
func TestADurationBeyondNumbersIsLeftOut(t *testing.T) {
	jobs := open(t, "dynoxide")
	for i, c := range []struct{ seconds, want float64 }{{-1, -1}, {1e99, 1e99}, {-1e99, -1e99}, {1e100, 0}, {-1e100, 0}, {1e300, 0}, {-1e300, 0}, {0, 0}} {
		j := in(states[5], fmt.Sprint("job-", i))
		j.Seconds = c.seconds
		if done, err := jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
			t.Fatal(c.seconds, done, err)
		}
		if got, _, err := jobs.Get(t.Context(), j.ID); err != nil || got.Seconds != c.want {
			t.Errorf("%v: %v, %v", c.seconds, got.Seconds, err)
		}
		if _, given := item(t, jobs, j.ID)["durationSeconds"]; given != (c.want != 0) {
			t.Errorf("%v: a duration stands there: %v", c.seconds, given)
		}
	}
}

// TestARecordIsReadAsItIsNow: a job that was changed a moment ago is not decided on as it was.
func TestARecordIsReadAsItIsNow(t *testing.T) {
	jobs, n := through(t)
	if _, _, err := jobs.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Bookmark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := jobs.Rules(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads := n.of("GetItem")
	for _, q := range reads {
		if q.in["ConsistentRead"] != true || q.in["TableName"] != jobs.Table {
			t.Errorf("asked %v", q.in)
		}
	}
	if len(reads) != 3 {
		t.Errorf("%d reads", len(reads))
	}
}

// TestAFailedChangeTellsWhetherItWrote: it has an error in any case, and the next read tells.
func TestAFailedChangeTellsWhetherItWrote(t *testing.T) {
	for _, f := range faults {
		for n, from := range states[:3] {
			jobs, net := through(t)
			was, is := in(from, "a"), in(states[3], "a")
			if n > 0 {
				if done, err := jobs.Swap(t.Context(), pipeline.Job{}, was); err != nil || !done {
					t.Fatal(done, err)
				}
			}
			net.answer = func(q *request) (*http.Response, error) { return f.answer(q) }
			if done, err := jobs.Swap(t.Context(), was, is); done || !errors.Is(err, f.failure) {
				t.Errorf("%s: %v, %v, want %v", f.name, done, err, f.failure)
			}
			net.answer = nil
			if j, _, err := jobs.Get(t.Context(), "a"); err != nil || (j == is) != f.effect || !f.effect && j != was {
				t.Errorf("%s: %+v, %v", f.name, j, err)
			}
			// A repeat writes only if the first try did not.
			if done, err := jobs.Swap(t.Context(), was, is); err != nil || done == f.effect {
				t.Errorf("%s, again: %v, %v", f.name, done, err)
			}
			// A change that lost is told from one that failed.
			net.answer = func(*request) (*http.Response, error) { return refuses("ConditionalCheckFailedException") }
			if done, err := jobs.Swap(t.Context(), was, is); err != nil || done {
				t.Errorf("a change that lost: %v, %v", done, err)
			}
		}
	}
}

// TestADamagedRecordIsAnErrorThatNamesIt, wherever it is read.
func TestADamagedRecordIsAnErrorThatNamesIt(t *testing.T) {
	for attr, value := range map[string]types.AttributeValue{
		"requestedAt": &types.AttributeValueMemberS{Value: "yesterday"}, "startedAt": &types.AttributeValueMemberS{Value: "2026-13-01T00:00:00Z"},
		"finishedAt": &types.AttributeValueMemberS{Value: "1"}, "updatedAt": &types.AttributeValueMemberS{Value: "x"},
		"attempt": &types.AttributeValueMemberN{Value: "1.5"}, "returns": &types.AttributeValueMemberN{Value: "0.1"}, "cost": &types.AttributeValueMemberN{Value: "99999999999999999999"},
	} {
		jobs := open(t, "dynoxide")
		whole := in(states[2], "a")
		if done, err := jobs.Swap(t.Context(), pipeline.Job{}, whole); err != nil || !done {
			t.Fatal(done, err)
		}
		damaged := item(t, jobs, "a")
		damaged[attr] = value
		put(t, jobs, damaged)
		if _, found, err := jobs.Get(t.Context(), "a"); !found || !errors.Is(err, headroom.Unreadable) || !strings.Contains(err.Error(), attr) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%s: %v, %v", attr, found, err)
		}
		if err := jobs.List(t.Context(), pipeline.Filter{}, func(pipeline.Job) bool { t.Errorf("%s: a damaged job is listed", attr); return true }); !errors.Is(err, headroom.Unreadable) {
			t.Errorf("%s: %v", attr, err)
		}
		// It forgets nobody half.
		if n, err := jobs.Forget(t.Context(), "alice", nil); n != 0 || !errors.Is(err, headroom.Unreadable) {
			t.Errorf("%s: %d are forgotten, %v", attr, n, err)
		}
	}
	// An attribute of another type is the application's own, and says nothing.
	jobs := open(t, "dynoxide")
	put(t, jobs, map[string]types.AttributeValue{
		"jobId": &types.AttributeValueMemberS{Value: "a"}, "userId": &types.AttributeValueMemberN{Value: "7"}, "held": &types.AttributeValueMemberBOOL{Value: false},
		"cost": &types.AttributeValueMemberS{Value: "much"}, "status": &types.AttributeValueMemberS{Value: "queued"},
	})
	if j, found, err := jobs.Get(t.Context(), "a"); err != nil || !found || j != (pipeline.Job{ID: "a", Status: pipeline.Queued}) {
		t.Errorf("%+v, %v, %v", j, found, err)
	}
}

// TestAListReadsEveryPage, skips what is no job, and ends when it is told to.
func TestAListReadsEveryPage(t *testing.T) {
	jobs, n := through(t)
	n.page = 3
	if err := errors.Join(jobs.SetBookmark(t.Context(), pipeline.Opened{Since: noon, ID: "b"}), jobs.SetRules(t.Context(), onaws.Rules{Over: "record"})); err != nil {
		t.Fatal(err)
	}
	const all = 20
	for i := range all {
		j := in(states[1+i%7], fmt.Sprint("job-", i))
		if i%2 == 1 {
			j.UserID = "bob"
		}
		if done, err := jobs.Swap(t.Context(), pipeline.Job{}, j); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	count := func(f pipeline.Filter, most int) (n int) {
		if err := jobs.List(t.Context(), f, func(j pipeline.Job) bool {
			if n++; f.UserID != "" && j.UserID != f.UserID || f.Status != "" && j.Status != f.Status {
				t.Errorf("%+v: %+v", f, j)
			}
			return n < most
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		filter     pipeline.Filter
		most, want int
	}{
		{pipeline.Filter{}, 100, all}, {pipeline.Filter{}, 7, 7}, {pipeline.Filter{UserID: "alice"}, 100, 10}, {pipeline.Filter{Status: pipeline.Queued}, 100, 3},
		{pipeline.Filter{UserID: "bob", Status: pipeline.Queued}, 100, 1}, {pipeline.Filter{UserID: "carol"}, 100, 0}, {pipeline.Filter{}, 1, 1},
	} {
		if n := count(c.filter, c.most); n != c.want {
			t.Errorf("%+v, at most %d: %d, want %d", c.filter, c.most, n, c.want)
		}
	}
}

// item is a job's, as it is kept.
func item(t *testing.T, jobs *onaws.Jobs, id string) map[string]types.AttributeValue {
	t.Helper()
	out, err := jobs.Client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &jobs.Table, Key: map[string]types.AttributeValue{"jobId": &types.AttributeValueMemberS{Value: id}}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func put(t *testing.T, jobs *onaws.Jobs, item map[string]types.AttributeValue) {
	t.Helper()
	if _, err := jobs.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &jobs.Table, Item: item}); err != nil {
		t.Fatal(err)
	}
}
