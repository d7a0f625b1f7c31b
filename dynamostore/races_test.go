package dynamostore_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/dynamostore"
)

// TestWhatHappensInBetweenIsNoticed: a deduction's write depends on what was true when it was
// decided. Before each of its requests in turn somebody else changes just that.
func TestWhatHappensInBetweenIsNoticed(t *testing.T) {
	for _, test := range []struct {
		name   string
		begin  func(r *rig)
		happen func(other *rig)
		// Of a deduction of 60 with the id "job".
		reason headroom.Reason
		replay bool
		used   int64
	}{
		{"the plan is lowered", func(r *rig) { r.plan("pro"); r.admit("u", "before", 190, 190) }, func(o *rig) { o.plan("free") }, headroom.ReasonOverLimit, false, 190},
		{"the plan is removed", func(r *rig) { r.plan("pro"); r.admit("u", "before", 190, 190) }, func(o *rig) { o.plan("") }, headroom.ReasonOverLimit, false, 190},
		{"the plan is raised", func(r *rig) { r.admit("u", "before", 190, 190) }, func(o *rig) { o.plan("pro") }, headroom.ReasonAdmitted, false, 250},
		{"the rest is charged", func(r *rig) { r.admit("u", "before", 130, 130) }, func(o *rig) { o.deduct("u", "rest", 70) }, headroom.ReasonOverLimit, false, 200},
		{"a part is charged", func(r *rig) { r.admit("u", "before", 100, 100) }, func(o *rig) { o.deduct("u", "part", 10) }, headroom.ReasonAdmitted, false, 170},
		{"the same is charged", func(r *rig) { r.admit("u", "before", 100, 100) }, func(o *rig) { o.deduct("u", "job", 60) }, headroom.ReasonAdmitted, true, 160},
		{"the same is charged, as the very first", func(*rig) {}, func(o *rig) { o.deduct("u", "job", 60) }, headroom.ReasonAdmitted, true, 60},
		{"the seed charges the rest", func(r *rig) { r.admit("u", "before", 130, 130) }, func(o *rig) { o.seedDeducts("u", "2031-W22", 70, 200) }, headroom.ReasonOverLimit, false, 200},
		{"the seed makes the item", func(*rig) {}, func(o *rig) { o.seedDeducts("u", "2031-W22", 70, 200) }, headroom.ReasonAdmitted, false, 130},
		{"the seed makes the item, at its limit", func(*rig) {}, func(o *rig) { o.seedDeducts("u", "2031-W22", 150, 200) }, headroom.ReasonOverLimit, false, 150},
		{"the seed turns the week", func(r *rig) { r.admit("u", "before", 130, 130); r.at(monday) }, func(o *rig) { o.seedDeducts("u", "2031-W23", 10, 200) }, headroom.ReasonAdmitted, false, 70},
		{"the seed turns the week, to its limit", func(r *rig) { r.admit("u", "before", 130, 130); r.at(monday) }, func(o *rig) { o.seedDeducts("u", "2031-W23", 200, 200) }, headroom.ReasonOverLimit, false, 200},
		{"another turns the week", func(r *rig) { r.admit("u", "before", 130, 130); r.at(monday) }, func(o *rig) { o.deduct("u", "other", 70) }, headroom.ReasonAdmitted, false, 130},
		{"another turns the week on the seed's item", func(r *rig) {
			r.put(attributes{"userId": s("u"), "quotaWeek": s("2031-W22"), "quotaCount": n(130)})
			r.at(monday)
		}, func(o *rig) { o.deduct("u", "other", 70) }, headroom.ReasonAdmitted, false, 130},
		{"ids age", func(r *rig) { r.admit("u", "job", 60, 60); r.at(tuesday.Add(headroom.DefaultHorizon)) }, func(o *rig) { o.deduct("u", "other", 70) }, headroom.ReasonAdmitted, true, 70},
		{"the application takes a name of ours", func(*rig) {}, func(o *rig) {
			o.put(attributes{"userId": s("u"), "quotaOps": &types.AttributeValueMemberM{Value: attributes{"calls": n(7)}}})
		}, "", false, 0},
		{"somebody takes the history away", func(r *rig) { r.admit("u", "before", 130, 130); r.at(monday) }, func(o *rig) { o.takesAway("quotaPast") }, "", false, 0},
		{"somebody takes the young ids away", func(r *rig) { r.admit("u", "before", 130, 130) }, func(o *rig) { o.takesAway("quotaOps") }, "", false, 0},
		{"somebody takes the old ids away", func(r *rig) { r.admit("u", "before", 130, 130) }, func(o *rig) { o.takesAway("quotaOpsBefore") }, "", false, 0},
		{"somebody takes the holds away", func(r *rig) { r.admit("u", "before", 130, 130) }, func(o *rig) { o.takesAway("quotaHolds") }, "", false, 0},
		{"a newer program writes the item", func(r *rig) { r.admit("u", "before", 100, 100) }, func(o *rig) {
			item := o.item("u")
			item["quotaFormat"] = n(dynamostore.NewestFormat + 1)
			o.put(item)
		}, "", false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			each(t, func(t *testing.T, engine string) {
				for nth := 1; ; nth++ {
					r := newRig(t, engine, under(plans(t)))
					test.begin(r)
					other := r.another(under(plans(t)))
					happened := false
					r.wire.reset(func(x *exchange) (*http.Response, error) {
						if x.n == nth {
							happened = true
							test.happen(other)
						}
						return x.pass()
					})
					d, err := r.deduct("u", "job", 60)
					if !happened {
						if nth == 1 {
							t.Fatal("no request was sent")
						}
						return
					}
					if test.reason == "" {
						r.fails(d, err, headroom.Unreadable, "item of")
					} else if err != nil || d.Reason != test.reason || d.Replay != test.replay || d.Used != test.used {
						t.Fatalf("before request %d: %+v, %v", nth, d, err)
					}
					r.wire.reset(nil)
					if test.reason == headroom.ReasonAdmitted {
						r.replay("u", "job", 60, test.used)
						if got := r.count("u"); got != test.used {
							t.Fatalf("%d is stored, want %d", got, test.used)
						}
					}
				}
			})
		})
	}
}

// takesAway takes an attribute from the item of the subject u.
func (r *rig) takesAway(name string) {
	item := r.item("u")
	delete(item, name)
	r.put(item)
}

// plan stores a plan for the subject u.
func (r *rig) plan(name string) {
	r.Helper()
	if err := r.engine.SetPlan(r.Context(), "u", name); err != nil {
		r.Fatal(err)
	}
}

// TestTwoWhoMoveIDsAtOnce: case 6. What the one has not seen the other must not remove unnoticed,
// or somebody who looked into the ledger in between would charge it again.
func TestTwoWhoMoveIDsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		first := newRig(t, engine)
		// Up to the last id that does not make the item full.
		var before attributes
		for i := 0; len(first.ledger()) == 0; i++ {
			before = first.item("u")
			first.admit("u", fmt.Sprintf("full-%05d", i), 1, int64(i+1))
		}
		first.put(before)

		// Each of two makes the item full, or fuller by the step at which somebody else is to move the
		// ids, and stops before it copies those that it has seen.
		type mover struct {
			*rig
			last      string // its id that made the item full
			full, run chan struct{}
			done      chan struct{}
		}
		start := func(prefix string) *mover {
			m := &mover{first.another(), "", make(chan struct{}), make(chan struct{}), make(chan struct{})}
			m.wire.reset(func(x *exchange) (*http.Response, error) {
				if x.op == "BatchWriteItem" {
					close(m.full)
					<-m.run
				}
				return x.pass()
			})
			go func() {
				defer close(m.done)
				for i := range 40 {
					m.last = fmt.Sprint(prefix, i)
					if _, err := m.deduct("u", m.last, 1); err != nil {
						t.Error(err)
					}
					select {
					case <-m.full:
						return
					default:
					}
				}
				t.Error("the ids do not move")
				close(m.full)
			}()
			<-m.full
			return m
		}
		finish := func(m *mover) {
			close(m.run)
			<-m.done
		}
		early := start("a-early-")
		late := start("a-late-") // has seen ids of its own, which the early one has not
		used := first.count("u")
		finish(early)
		first.has("u", "quotaGen", n(1))
		if _, there := first.item("u")["quotaOps"].(*types.AttributeValueMemberM).Value[late.last]; !there {
			t.Fatal("an id was removed that was not copied")
		}

		// A third knows how far the moving has come, does not find the late id in the ledger, and is
		// about to charge it. Now the late one goes on.
		third := first.another()
		third.admit("u", "third", 1, used+1)
		third.wire.reset(func(x *exchange) (*http.Response, error) {
			if x.op == "UpdateItem" && x.n == 2 {
				finish(late)
			}
			return x.pass()
		})
		third.replay("u", late.last, 1, used+1)
		if sent := third.wire.requests(); sent[0] != "Query" {
			t.Fatalf("sent %q: the ledger was not looked at first", sent)
		}
	})
}
