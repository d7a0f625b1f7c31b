package headroom_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
	"github.com/lumcast/headroom/storetest"
)

// TestAStoreOfTextPassesTheSuite holds that a store which keeps nothing but the texts keeps
// everything.
func TestAStoreOfTextPassesTheSuite(t *testing.T) {
	h := storetest.Harness{
		Open:   func(_ testing.TB, clock func() time.Time) headroom.Store { return newTextStore(clock) },
		Checks: 30,
	}
	storetest.Run(t, h)
	storetest.Model(t, h)
}

// TestAChangeSurvivesItsText runs the suite on a store that gets every change as text, as over a
// network.
func TestAChangeSurvivesItsText(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(_ testing.TB, clock func() time.Time) headroom.Store {
			return byText{t, memstore.New(clock)}
		},
	})
}

type byText struct {
	t *testing.T
	*memstore.Store
}

func (s byText) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	text, err := c.MarshalText()
	if err != nil {
		return headroom.View{}, false, err
	}
	var read headroom.Change
	if err := read.UnmarshalText(text); err != nil {
		s.t.Errorf("%v in\n%s", err, text)
	}
	if again, _ := read.MarshalText(); !bytes.Equal(again, text) {
		s.t.Errorf("the change\n%sis read as\n%s", text, again)
	}
	return s.Store.Commit(ctx, read)
}

// everything is a state with a value in every field, and names of every kind.
func everything() headroom.State {
	monday := time.Date(2026, time.May, 25, 0, 0, 0, 0, time.UTC)
	week := headroom.ISOWeek(monday)
	strange := "a\x00\n\"\\ %\u2028 été 日本語"
	return headroom.State{
		Plan: "free+slots/week=500", Epoch: monday, EpochBefore: monday.AddDate(0, 0, -15),
		Counters: map[string]headroom.Counter{
			"week": {Window: week, Count: 171, Carried: 20, Partial: true, Past: []headroom.Total{
				{Start: monday.AddDate(0, 0, -7), Units: 150}, {Start: monday.AddDate(0, 0, -14), Unknown: true}}},
			"day": {},
		},
		Buckets: []headroom.Bucket{
			{BucketKey: headroom.BucketKey{Expires: monday}, Units: 2},
			{BucketKey: headroom.BucketKey{Grant: strange, Expires: monday, Series: 1}, Units: 10},
			{BucketKey: headroom.BucketKey{Limit: "week", Start: monday, Expires: monday, Series: 1}, Units: 20, In: monday.AddDate(0, 0, -7)},
		},
		Series: 2, Swept: monday,
		OldHolds: map[string]headroom.Record{strange: {Kind: headroom.KindHold, Cost: 30, Expires: monday,
			Windows: []headroom.ChargedWindow{{Limit: "week", Start: monday, Units: 20}}, Grants: []headroom.GrantUse{{ID: strange, Units: 10}}}},
		Grants: map[string]headroom.Grant{strange: {Units: 1 << 62, Used: 3, Expires: monday}, "never": {}},
		Debts:  map[string]headroom.Debt{strange: {To: strange, Cost: 30, Since: monday, Given: true}},
	}
}

func TestAStateSurvivesItsText(t *testing.T) {
	for _, s := range []headroom.State{{}, everything()} {
		text, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range text {
			if b != '\n' && (b < ' ' || b > '~') {
				t.Errorf("byte %d in\n%s", b, text)
			}
		}
		var read headroom.State
		if err := read.UnmarshalText(text); err != nil || !reflect.DeepEqual(read, s) {
			t.Errorf("%v: read %+v\nwant %+v\nfrom\n%s", err, read, s, text)
		}
	}
}

// TestTextOfANewerVersionIsRefused holds that a line which this program does not know is an error:
// to pass over it would lose what it says with the next write.
func TestTextOfANewerVersionIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "headroom state 2\n", "headroom change 1\n", "headroom state 1\nnew \"fact\"\n", "headroom state 1\nplan free\n",
		"headroom state 1\nplan \"free\" and more\n", "headroom state 1\nplan `free`\n", "headroom state 1\n\n",
		"headroom state 1\nhold \"a\" \"z30\"\n", "headroom state 1\nids 2026-05-25 before none\n", "headroom state 1\nplan \"free\"\"x\"\n",
	} {
		s := headroom.State{Plan: "as it was"}
		if err := s.UnmarshalText([]byte(text)); !errors.Is(err, headroom.Unreadable) || s.Plan != "as it was" {
			t.Errorf("%q: %v, %+v", text, err, s)
		}
		if text == "headroom change 1\n" {
			continue
		}
		var c headroom.Change
		if err := c.UnmarshalText([]byte(strings.Replace(text, "state", "change", 1))); !errors.Is(err, headroom.Unreadable) {
			t.Errorf("a change of %q: %v", text, err)
		}
	}
}

// FuzzText: what can be read at all is written as a text that reads the same.
func FuzzText(f *testing.F) {
	text, _ := everything().MarshalText()
	f.Add(string(text))
	f.Add("headroom change 1\nkey \"a\" \"b\"\nplan \"free\" or none\nids none\nhorizon 360h0m0s\nrecord \"a\" was none is \"d30\"\n" +
		"step \"week\" from none to \"2026-W22\" 2026-05-25T00:00:00Z 2026-06-01T00:00:00Z count 0 to any add 30 carried 5 opens\n" +
		"fold \"week\" 2026-05-18T00:00:00Z 5\ncorrect \"week\" 2026-05-11T00:00:00Z -5\n" +
		"grant \"g\" was 50 used 20 until none use 0 to 30 add 20 is none ends\nno other grants\ndebt \"a\" was none is \"30 @0 <b\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		type codec interface {
			MarshalText() ([]byte, error)
			UnmarshalText([]byte) error
		}
		for _, pair := range [][2]codec{{&headroom.State{}, &headroom.State{}}, {&headroom.Change{}, &headroom.Change{}}} {
			if pair[0].UnmarshalText([]byte(text)) != nil {
				continue
			}
			once, _ := pair[0].MarshalText()
			if err := pair[1].UnmarshalText(once); err != nil {
				t.Fatalf("%q is written as %q, which cannot be read: %v", text, once, err)
			}
			if twice, _ := pair[1].MarshalText(); !bytes.Equal(once, twice) {
				t.Fatalf("%q is written as\n%s, and then as\n%s", text, once, twice)
			}
		}
	})
}
