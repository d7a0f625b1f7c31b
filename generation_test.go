package headroom

import (
	"math/rand/v2"
	"testing"
	"time"
)

func (k rules) epoch(t time.Time) time.Time { return epoch(t, DefaultHorizon) }

func TestGenerationsAreWholeHorizonsAndTellThem(t *testing.T) {
	times := []time.Time{tuesday, time.Unix(0, 0), time.Unix(0, 1), time.Unix(0, -1), time.Unix(-1, 0), time.Date(1969, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	for _, horizon := range []time.Duration{time.Minute, time.Hour, 36 * time.Hour, DefaultHorizon, 32 * day, 367 * day, MaxHorizon} {
		for _, at := range times {
			label, seconds := epoch(at, horizon), int64(horizon/time.Second)
			mark := label.Unix() - floorDiv(label.Unix(), 60)*60
			if label.After(at) || !label.Add(horizon).After(at) || floorDiv(label.Unix(), seconds)*seconds != label.Unix()-mark || label.Location() != time.UTC {
				t.Errorf("the generation of %s with a horizon of %s is %s", at, horizon, label)
			}
			says := horizonOf[mark]
			if says < horizon || horizon >= time.Hour && says > horizon*5/4 || horizon == DefaultHorizon && mark != 0 {
				t.Errorf("the label %s tells a horizon of %s: want %s, or a quarter more at most", label, says, horizon)
			}
		}
	}
}

func TestIdsLiveAsLongAsWasPromisedWhenTheHorizonChanges(t *testing.T) {
	type id struct{ label, until time.Time }
	horizons := []time.Duration{time.Hour, 36 * time.Hour, 7 * day, DefaultHorizon, 16 * day, 30 * day, 32 * day, 60 * day, 367 * day}
	changes := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		h := horizons[random.IntN(len(horizons))]
		now := tuesday
		var s State
		var ids []id
		for range 6 {
			turns := 0
			for range 60 {
				now = now.Add(time.Duration(random.Int64N(int64(h) / 8)).Truncate(time.Second))
				if random.IntN(12) == 0 {
					now = now.Add(time.Duration(random.Int64N(int64(3 * h))).Truncate(time.Second))
				}
				if label, due := s.rotation(now, h); due {
					if !label.After(s.Epoch) || label.After(now) {
						t.Fatalf("a generation of %s follows on that of %s at %s", label, s.Epoch, now)
					}
					s.EpochBefore, s.Epoch = s.Epoch, label
					turns++
				}
				for _, id := range ids {
					if !now.After(id.until) && !id.label.Equal(s.Epoch) && !id.label.Equal(s.EpochBefore) {
						t.Fatalf("seed %d: at %s an id is forgotten that was to be remembered until %s", seed, now, id.until)
					}
				}
				ids = append(ids, id{s.Epoch, now.Add(h)})
				if got := s.Horizon(h); got < h || got > 367*day*5/4 {
					t.Fatalf("ids are said to be remembered for %s", got)
				}
			}
			// Two generations by the present horizon have begun: from here on another may follow.
			for n := 0; n < 3; now = now.Add(h / 4) {
				if label, due := s.rotation(now, h); due {
					s.EpochBefore, s.Epoch = s.Epoch, label
					n++
				}
				ids = append(ids, id{s.Epoch, now.Add(h)})
			}
			if !s.Epoch.Equal(epoch(now.Add(-h/4), h)) {
				t.Fatalf("seed %d: generations do not come back to those of the horizon", seed)
			}
			changes++
			h = horizons[random.IntN(len(horizons))]
		}
	}
	t.Logf("%d changes of a horizon", changes)
}
