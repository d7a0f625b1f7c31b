package storetest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lumcast/headroom"
)

// oracle is the rules once more, written as plainly as can be and without the help of what they check: maps and loops, one writer, nothing kept but in memory.
type oracle struct {
	limits  map[string]map[string]int64 // by plan and meter
	horizon time.Duration
	plans   map[string]string // stored, by subject
	books   map[headroom.Key]*book
}

// book is what is known of one subject and meter.
type book struct {
	monday     time.Time // of the week that it stands in; zero if nothing was charged yet
	used       int64
	past       map[time.Time]int64 // by Monday
	ids        map[string]charged
	young, old time.Time // labels of the two generations of ids
}

// charged is what is remembered of an id.
type charged struct {
	cost     int64
	recorded bool
	monday   time.Time
	label    time.Time
}

// mondayOf is the start of the week that holds t. Day 0 of Unix time was a Thursday.
func mondayOf(t time.Time) time.Time {
	days := t.Unix() / 86400
	if t.Unix()%86400 < 0 {
		days--
	}
	since := (days + 3) % 7
	if since < 0 {
		since += 7
	}
	return time.Unix((days-since)*86400, 0).UTC()
}

// weekOf is the week that begins at monday. It belongs to the year of its Thursday.
func weekOf(monday time.Time) headroom.Window {
	thursday := monday.Add(3 * day)
	key := fmt.Sprintf("%04d-W%02d", thursday.Year(), (thursday.YearDay()-1)/7+1)
	return headroom.Window{Key: key, Start: monday, End: monday.Add(week)}
}

func (o *oracle) book(k headroom.Key) *book {
	if o.books[k] == nil {
		o.books[k] = &book{past: map[time.Time]int64{}, ids: map[string]charged{}}
	}
	return o.books[k]
}

// plan is the subject's stored plan, else the caller's, else the default; limit is what it allows.
func (o *oracle) plan(k headroom.Key, callers string) (name string, limit int64) {
	name = "free"
	if callers != "" {
		name = callers
	}
	if stored := o.plans[k.Subject]; stored != "" {
		name = stored
	}
	limit, limited := o.limits[name][k.Meter]
	if !limited {
		limit = math.MaxInt64
	}
	return name, limit
}

// turn moves a book to now: a new week begins, or weeks of the future are taken back. It reports false if what is taken back cannot be added up.
func (b book) turn(now time.Time) (book, bool) {
	b.past = maps.Clone(b.past)
	monday := mondayOf(now)
	switch {
	case b.monday.IsZero():
		b.monday = monday
	case !now.Before(b.monday.Add(week)):
		if b.used > 0 {
			b.past[b.monday] = b.used
		}
		b.monday, b.used = monday, 0
	case b.monday.Sub(now) > 5*time.Minute:
		for m, units := range b.past {
			if !m.Before(monday) {
				if b.used > math.MaxInt64-units {
					return b, false
				}
				b.used += units
				delete(b.past, m)
			}
		}
		b.monday = monday
	}
	for len(b.past) > 52 {
		delete(b.past, slices.MinFunc(slices.Collect(maps.Keys(b.past)), time.Time.Compare))
	}
	return b, true
}

// decide answers r at the time now, and charges it if write is set.
func (o *oracle) decide(r headroom.Request, now time.Time, write bool) (headroom.Decision, headroom.Code) {
	key := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	book := o.book(key)
	turned, sound := book.turn(now)
	closed := r.SkipClosed && book.monday.After(mondayOf(now))
	if closed {
		turned, sound = *book, true // it stays as it is
	}
	plan, limit := o.plan(key, r.Plan)
	decision := func(reason headroom.Reason) headroom.Decision {
		d := headroom.Decision{Reason: reason, Plan: plan, Cost: r.Cost, LimitName: "week", Used: turned.used, Limit: limit, Window: weekOf(turned.monday)}
		d.Allowed = reason == headroom.ReasonAdmitted || reason == headroom.ReasonRecorded
		if d.Used < limit {
			d.Remaining = limit - d.Used
		}
		return d
	}

	if known, ok := book.ids[r.Operation]; ok {
		if known.cost != r.Cost {
			return headroom.Decision{}, headroom.CodeConflict
		}
		if !sound {
			return headroom.Decision{}, headroom.CodeInvalid
		}
		d := decision(headroom.ReasonAdmitted)
		if known.recorded {
			d = decision(headroom.ReasonRecorded)
		}
		d.Replay, d.Window = true, weekOf(known.monday)
		return d, ""
	}
	if !r.Began.IsZero() && now.Sub(r.Began) > o.horizon {
		return headroom.Decision{}, headroom.CodeTooOld
	}
	if !sound {
		return headroom.Decision{}, headroom.CodeInvalid
	}
	if closed {
		return decision(headroom.ReasonClosed), ""
	}
	reason := headroom.ReasonAdmitted
	if r.Cost > 0 && r.Cost > limit-turned.used {
		switch {
		case r.Over == headroom.OverRecord:
			reason = headroom.ReasonRecorded
		case r.Cost > limit:
			return decision(headroom.ReasonNeverFits), ""
		default:
			return decision(headroom.ReasonOverLimit), ""
		}
	}
	if r.Cost > math.MaxInt64-turned.used {
		return headroom.Decision{}, headroom.CodeInvalid
	}
	if !write {
		return decision(reason), ""
	}

	turned.used += r.Cost
	if label := epoch(now, o.horizon); label.After(turned.young) {
		turned.old, turned.young = turned.young, label
	}
	for id, c := range turned.ids {
		if !c.label.Equal(turned.young) && !c.label.Equal(turned.old) {
			delete(turned.ids, id)
		}
	}
	turned.ids[r.Operation] = charged{r.Cost, reason == headroom.ReasonRecorded, turned.monday, turned.young}
	*book = turned
	return decision(reason), ""
}

// deduct is decide for a deduction by a host whose clock shows guess, on a store whose time is now.
// A deduction that the stored state bears out as the host guessed it is charged by the guess, in the week that is stored. What is different is found out, and decided by the store's time.
func (o *oracle) deduct(r headroom.Request, guess, now time.Time) (headroom.Decision, headroom.Code) {
	if guess != now && o.guessed(r, guess) {
		return o.decide(r, guess, true)
	}
	return o.decide(r, now, true)
}

func (o *oracle) guessed(r headroom.Request, guess time.Time) bool {
	key := headroom.Key{Subject: r.Subject, Meter: r.Meter}
	book := o.book(key)
	if _, known := book.ids[r.Operation]; known || !book.monday.Equal(mondayOf(guess)) || !book.young.Equal(epoch(guess, o.horizon)) {
		return false
	}
	if !r.Began.IsZero() && guess.Sub(r.Began) > o.horizon/2 {
		return false // the host asks before it writes
	}
	plan := "free"
	if r.Plan != "" {
		plan = r.Plan
	}
	stored := o.plans[r.Subject]
	limit, limited := o.limits[plan][r.Meter]
	if !limited {
		limit = math.MaxInt64
	}
	fits := r.Cost == 0 || r.Cost <= limit-book.used
	past := r.Over == headroom.OverRecord && r.Cost > limit && r.Cost <= math.MaxInt64-book.used
	return (stored == "" || stored == plan) && (fits || past)
}

// usage is what a subject has used at the time now.
func (o *oracle) usage(key headroom.Key, now time.Time) (headroom.Usage, headroom.Code) {
	turned, sound := o.book(key).turn(now)
	if !sound {
		return headroom.Usage{}, headroom.CodeInvalid
	}
	plan, limit := o.plan(key, "")
	l := headroom.LimitUsage{LimitState: headroom.LimitState{Name: "week", Window: weekOf(turned.monday), Used: turned.used, Limit: limit}}
	if l.Used < limit {
		l.Remaining = limit - l.Used
	}
	mondays := slices.SortedFunc(maps.Keys(turned.past), func(a, b time.Time) int { return b.Compare(a) })
	for _, m := range mondays {
		l.History = append(l.History, headroom.WindowTotal{Window: weekOf(m), Units: turned.past[m]})
	}
	return headroom.Usage{Subject: key.Subject, Meter: key.Meter, Plan: plan, Limits: []headroom.LimitUsage{l}}, ""
}
