package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheMessageSaysHowTheWorkEnds(t *testing.T) {
	for _, c := range []struct {
		event, failure string
		seconds        float64
	}{
		{`{"input":{"durationSeconds":900}}`, "", 900},
		{`{"input":{"durationSeconds":900,"work":{"durationSeconds":840}}}`, "", 840},
		{`{"input":{"durationSeconds":900,"work":{"fail":"NoVoice"}}}`, "as the message asked", 0},
		{`{"input":{"durationSeconds":900,"work":{"failTimes":1}},"retries":0}`, "the voice service is busy", 0},
		{`{"input":{"durationSeconds":900,"work":{"failTimes":1}},"retries":1}`, "", 900},
	} {
		var e event
		if err := json.Unmarshal([]byte(c.event), &e); err != nil {
			t.Fatal(err)
		}
		r, err := work(t.Context(), e)
		if err != nil && (c.failure == "" || !strings.Contains(err.Error(), c.failure)) || err == nil && c.failure != "" || r.DurationSeconds != c.seconds {
			t.Errorf("%s: %v, %v", c.event, r, err)
		}
	}
}
