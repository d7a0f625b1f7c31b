package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/whatif"
)

// A picture has room for no more than this.
const (
	maxWeeks    = 260
	maxOutcomes = 6
)

//go:embed whatif.svg.tmpl
var pictureText string

// svg draws the comparison. Each outcome has a plot with a bar for each week, which shows what was
// charged and what was refused. All plots have the same scale. Below them are the subjects that are
// hit hardest. The picture is 860 wide, as wide as a README. It has its own background, and follows
// the reader's preference for light or dark.
func (c comparison) svg() ([]byte, error) {
	p, err := c.layout()
	if err != nil {
		return nil, err
	}
	// html/template escapes each name for the place where it stands, be it text or an attribute. What
	// it writes is also well-formed XML.
	t, err := template.New("picture").Parse(pictureText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Lengths, in user units of the picture.
const (
	width      = 860
	margin     = 28
	plotLeft   = margin + 66 // room for the numbers of the axis and its name
	plotRight  = width - margin
	plotHeight = 104
	panelGap   = 80 // from the foot of one plot to the head of the next
	hitsTop    = 104
	hitLine    = 19
	barLeft    = 250
	barRight   = width - 208 // room for the figures
)

type picture struct {
	Width, Height           int
	Title, Subtitle, About  string
	LegendLeft, LegendRight int
	AxisName                string
	PlotLeft, PlotRight     int
	Panels                  []panel
	Dates                   []date
	DatesAt, YearsAt        int
	HitsTitle               string
	HitsAt, NamesRight      int
	Hits                    []hit
}

// The background leaves half a unit free on each side, so that its edge is sharp.
func (p picture) GroundWidth() int  { return p.Width - 1 }
func (p picture) GroundHeight() int { return p.Height - 1 }

// panel shows one outcome.
type panel struct {
	Name, About  string
	Refused      string // the share of the work
	Figures      string
	NameAt       int
	FiguresAt    int
	Middle, Foot int // y of the name of the axis, and of the foot of the plot
	Ticks        []tick
	Bars         []weekBar
}

type tick struct {
	Y, TextY px
	Text     string
}

type weekBar struct {
	X, Width                               px
	ChargedY, Charged, RefusedY, RefusedBy px
	About                                  string
}

type date struct {
	X          px
	Text, Year string
}

type hit struct {
	Name  string
	Y     int
	Lines []hitBar
}

type hitBar struct {
	Name                   string
	TextY, Y               int
	Left, Charged, Refused px // where the bar begins, and how long its two parts are
	RefusedLeft, FiguresAt px
	Figures                string
}

// px is a length. It is written with one decimal place, since more would only make the file longer.
type px float64

func (p px) String() string { return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64) }

func (c comparison) layout() (picture, error) {
	weeks, course := whatif.Course(c.outcomes)
	switch {
	case len(weeks) == 0:
		return picture{}, usageError("there is nothing to draw: no row of the log was decided")
	case len(weeks) > maxWeeks:
		return picture{}, usageError("the log spans %d weeks: a picture has room for %d", len(weeks), maxWeeks)
	case len(c.outcomes) > maxOutcomes:
		return picture{}, usageError("%d configurations: a picture has room for %d", len(c.outcomes), maxOutcomes)
	}
	unit := shown(c.meter, 24)
	first, last := weeks[0].Start, weeks[len(weeks)-1].End.AddDate(0, 0, -1)
	p := picture{
		Width: width, PlotLeft: plotLeft, PlotRight: plotRight,
		Title: "What if? " + shown(c.log, 40) + " under " + count(int64(len(c.outcomes)), "configuration"),
		Subtitle: fmt.Sprintf("%s of %s in %s, %s to %s", count(c.outcomes[0].Rows, "row"),
			count(int64(len(c.outcomes[0].Subjects)), "subject"), count(int64(len(weeks)), "week"),
			first.Format("2 January 2006"), last.Format("2 January 2006")),
		AxisName: unit + " a week", LegendLeft: plotRight - 150, LegendRight: plotRight - 66, NamesRight: barLeft - 10,
	}
	var most int64
	for _, by := range course {
		for _, w := range by {
			most = max(most, w.Asked())
		}
	}
	top, step := scale(most)
	y := 140
	var about []string
	for i, o := range c.outcomes {
		p.Panels = append(p.Panels, c.panel(o, course[i], unit, y, top, step))
		about = append(about, fmt.Sprintf("%s: %s", p.Panels[i].Name, p.Panels[i].Figures))
		y += plotHeight + panelGap
	}
	y -= panelGap
	p.About = strings.Join(about, ". ")
	p.Dates, p.DatesAt, p.YearsAt = dates(weeks), y+18, y+33
	p.Height = y + 52
	c.hits(&p, unit, y)
	return p, nil
}

// panel draws one outcome, week by week. Its plot reaches from y to y + plotHeight. top is the
// number at its upper edge.
func (c comparison) panel(o whatif.Outcome, course []whatif.Week, unit string, y int, top, step float64) panel {
	p := panel{
		Name: shown(o.Name, 32), NameAt: y - 32, FiguresAt: y - 14, Middle: y + plotHeight/2, Foot: y + plotHeight,
		Refused: fmt.Sprintf("%s of the %s refused", refusedShare(o.RefusedUnits, o.Asked()), unit),
		Figures: fmt.Sprintf("%s of %s %s charged; %s of %s refused; %s of %s refused at least once",
			thousands(o.Charged), thousands(o.Asked()), unit, refusedShare(o.Refused, o.Rows), count(o.Rows, "row"),
			thousands(int64(o.SubjectsRefused())), count(int64(len(o.Subjects)), "subject")),
	}
	// The name and the share are on the same line, and take their room first.
	p.About = shown(o.About, 74-uniseg.StringWidth(p.Name))
	height := func(n float64) px { return px(n / top * plotHeight) }
	foot := px(y + plotHeight)
	for n := 0.0; n <= top; n += step {
		at := foot - height(n)
		p.Ticks = append(p.Ticks, tick{Y: at, TextY: at + 4, Text: number(n)})
	}
	slot := px(plotRight-plotLeft) / px(len(course))
	wide := min(slot*0.76, 64)
	for i, w := range course {
		charged, refused := height(float64(w.Charged)), height(float64(w.Refused))
		p.Bars = append(p.Bars, weekBar{
			X: plotLeft + px(i)*slot + (slot-wide)/2, Width: wide,
			ChargedY: foot - charged, Charged: charged, RefusedY: foot - charged - refused, RefusedBy: refused,
			About: fmt.Sprintf("week of %s: %s %s charged, %s refused",
				w.Window.Start.Format("2 January 2006"), thousands(w.Charged), unit, thousands(w.Refused)),
		})
	}
	return p
}

// number formats a whole number. The end of an axis can be too large for an int64.
func number(n float64) string {
	if n < math.MaxInt64 {
		return thousands(int64(n))
	}
	return strconv.FormatFloat(n, 'g', 3, 64)
}

// dates returns the dates of as many weeks as there is room for. Where a new year begins, it has
// the year too.
func dates(weeks []headroom.Window) (all []date) {
	slot := px(plotRight-plotLeft) / px(len(weeks))
	every := int(math.Ceil(float64(48 / slot)))
	year := 0
	for i := 0; i < len(weeks); i += every {
		start := weeks[i].Start
		d := date{X: plotLeft + (px(i)+0.5)*slot, Text: start.Format("2 Jan")}
		if start.Year() != year {
			year = start.Year()
			d.Year = strconv.Itoa(year)
		}
		all = append(all, d)
	}
	return all
}

// hits draws the subjects that are hit hardest, below y.
func (c comparison) hits(p *picture, unit string, y int) {
	hardest := whatif.Hardest(c.outcomes, c.top)
	if len(hardest) == 0 {
		return
	}
	p.HitsTitle = "Hit hardest: " + unit + " refused, of what each subject asked for"
	p.HitsAt = y + hitsTop - 22
	var most int64
	for _, h := range hardest {
		for _, t := range h.By {
			most = max(most, t.Asked())
		}
	}
	long := func(n int64) px { return px(float64(n) / float64(most) * (barRight - barLeft)) }
	at := y + hitsTop
	for _, h := range hardest {
		group := hit{Name: shown(h.Subject, 14), Y: at + 12}
		for i, t := range h.By {
			charged, refused := long(t.Charged), long(t.RefusedUnits)
			group.Lines = append(group.Lines, hitBar{
				Name: shown(c.outcomes[i].Name, 18), TextY: at + 12, Y: at + 2,
				Left: barLeft, Charged: charged, RefusedLeft: barLeft + charged, Refused: refused,
				FiguresAt: barLeft + charged + refused + 8,
				Figures: fmt.Sprintf("%s of %s (%s)",
					thousands(t.RefusedUnits), thousands(t.Asked()), refusedShare(t.RefusedUnits, t.Asked())),
			})
			at += hitLine
		}
		p.Hits = append(p.Hits, group)
		at += 9
	}
	p.Height = at + 16
}

// scale returns a round number that is at least most, and a round step that divides it into 2 to 5
// parts.
func scale(most int64) (top, step float64) {
	rough := float64(max(most, 1)) / 3
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step = 10 * power
	for _, n := range []float64{1, 2, 5} {
		if n*power >= rough {
			step = n * power
			break
		}
	}
	step = max(step, 1)
	return math.Ceil(float64(max(most, 1))/step) * step, step
}

// shown makes a name from elsewhere safe to draw. It is at most so many cells wide, and has no
// character that XML forbids.
func shown(name string, most int) string {
	name = printable(name)
	if uniseg.StringWidth(name) <= most {
		return name
	}
	var b strings.Builder
	for rest := uniseg.NewGraphemes(name); rest.Next() && uniseg.StringWidth(b.String()+rest.Str()) < most; {
		b.WriteString(rest.Str())
	}
	return b.String() + "…"
}

// refusedShare formats the share of what was asked for that was refused.
func refusedShare(refused, asked int64) string { return cmp.Or(percent(refused, asked), "0.0 %") }
