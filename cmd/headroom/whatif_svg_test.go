package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/replay"
	"github.com/lumcast/headroom/whatif"
)

// drawing is what a test reads of a picture.
type drawing struct {
	width, height float64
	text          string
	elements      map[string]int
}

// read fails the test if the picture is not well-formed, or if a rectangle lies outside it.
func read(t *testing.T, svg []byte) drawing {
	t.Helper()
	d := drawing{elements: map[string]int{}}
	var text strings.Builder
	for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.StartElement:
			d.elements[token.Name.Local]++
			at := map[string]float64{}
			for _, a := range token.Attr {
				if n, err := strconv.ParseFloat(a.Value, 64); err == nil {
					at[a.Name.Local] = n
				}
			}
			switch token.Name.Local {
			case "svg":
				d.width, d.height = at["width"], at["height"]
			case "rect":
				if at["x"] < 0 || at["y"] < 0 || at["width"] < 0 || at["height"] < 0 || at["x"]+at["width"] > d.width || at["y"]+at["height"] > d.height {
					t.Errorf("a rectangle outside of %v x %v: %v", d.width, d.height, at)
				}
			}
		}
	}
	d.text = text.String()
	return d
}

func drawn(t *testing.T, c comparison) drawing {
	t.Helper()
	svg, err := c.svg()
	if err != nil {
		t.Fatal(err)
	}
	return read(t, svg)
}

// made is an outcome of so many weeks, whose first subject is refused units.
func made(name string, weeks int, charged, refused int64, subjects ...string) whatif.Outcome {
	o := whatif.Outcome{Name: name, About: "200 slots a week", Tally: replay.Tally{Rows: 2, Admitted: 1, Refused: 1, Charged: charged, RefusedUnits: refused}}
	for _, s := range subjects {
		o.Subjects = append(o.Subjects, replay.SubjectTally{Subject: s, Tally: o.Tally})
	}
	start := time.Date(2026, 5, 25, 0, 0, 0, 0, time.UTC)
	for i := range weeks {
		o.Weeks = append(o.Weeks, whatif.Week{Window: headroom.ISOWeek(start.AddDate(0, 0, 7*i)), Charged: charged, Refused: refused})
	}
	return o
}

func TestAPictureNamesWhatItShows(t *testing.T) {
	d := drawn(t, comparison{log: "usage.csv", meter: "slots", top: 5, outcomes: []whatif.Outcome{
		made("week-200", 3, 3000, 1000, "alice"), made("week-400", 3, 4000, 0, "alice"),
	}})
	for _, want := range []string{
		"What if? usage.csv under 2 configurations", "charged", "refused", "slots a week", "week of", "25 May", "8 Jun", "2026",
		"week-200", "25.0 % of the slots refused", "3,000 of 4,000 slots charged", "1 of 1 subject refused at least once", "0.0 % of the slots refused",
		"2,000", "4,000", "Hit hardest: slots refused", "1,000 of 4,000 (25.0 %)", "week of 1 June 2026: 3,000 slots charged, 1,000 refused",
	} {
		if !strings.Contains(d.text, want) {
			t.Errorf("%q is not in the picture:\n%s", want, d.text)
		}
	}
	if d.width != 860 || d.elements["title"] != 1+6 || d.elements["desc"] != 1 {
		t.Errorf("%v wide, elements %v", d.width, d.elements)
	}
}

// Subjects, meters and files are named by others.
func TestAPictureStandsAnyName(t *testing.T) {
	for _, name := range []string{
		`<script>alert(1)</script>`, `"><rect onload="x"/>`, "]]>&amp;'", "a\x00b\x01\x1b[31m", "\xff\xfe", "\ufffe\uffff", "\u202eevil", "長い名前のユーザー長い名前のユーザー",
		strings.Repeat("e\u0301", 500), "{{.Title}}", "</style>", strings.Repeat("x", 1024),
	} {
		d := drawn(t, comparison{log: name, meter: name, top: 1, outcomes: []whatif.Outcome{made(name, 1, 5, 5, name)}})
		if d.elements["script"] != 0 || d.elements["rect"] != 1+2+2+2 {
			t.Errorf("%q became elements: %v", name, d.elements)
		}
	}
}

func TestAPictureOfAnySize(t *testing.T) {
	for _, c := range []struct {
		weeks            int
		charged, refused int64
		top              int
	}{
		{1, 1, 0, 5}, {1, 0, 1, 0}, {1, 0, 0, 5}, {2, 7, 3, 5}, {53, 200, 1000, 5}, {260, 1, 1, 1},
		{3, math.MaxInt64, 0, 5}, {3, math.MaxInt64 - 5, 5, 5}, {3, 5e18, 4e18, 5},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			var outcomes []whatif.Outcome
			for i := range 6 {
				outcomes = append(outcomes, made(fmt.Sprint("plan-", i), c.weeks, c.charged, c.refused, "alice", "bob"))
			}
			d := drawn(t, comparison{log: "usage.csv", meter: "slots", top: c.top, outcomes: outcomes})
			if strings.Contains(d.text, "NaN") || strings.Contains(d.text, "Inf") || strings.Contains(d.text, "-,") {
				t.Error(d.text)
			}
		})
	}
}

func TestWhatHasNoRoomInAPictureIsAnError(t *testing.T) {
	for what, outcomes := range map[string][]whatif.Outcome{
		"there is nothing to draw: no row of the log was decided": {made("a", 0, 0, 0)},
		"the log spans 261 weeks: a picture has room for 260":     {made("a", 261, 1, 1, "alice")},
		"7 configurations: a picture has room for 6":              {made("a", 1, 1, 1), made("b", 1, 1, 1), made("c", 1, 1, 1), made("d", 1, 1, 1), made("e", 1, 1, 1), made("f", 1, 1, 1), made("g", 1, 1, 1)},
	} {
		_, err := comparison{log: "usage.csv", meter: "slots", top: 5, outcomes: outcomes}.svg()
		if !errors.Is(err, headroom.Invalid) || err.Error() != what {
			t.Errorf("got %v, want %s", err, what)
		}
	}
}
