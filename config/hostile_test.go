package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/lumcast/headroom/config"
)

// TestWhatIsNoTextIsRefused: an editor, or a copy that went wrong, can leave bytes that a parser of
// YAML makes nonsense of. The error says what is wrong, and where.
func TestWhatIsNoTextIsRefused(t *testing.T) {
	wide := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune("horizon: 15d\n")) {
		wide = append(wide, byte(unit), byte(unit>>8))
	}
	const encoding = "this is no text in UTF-8: save the file in that encoding"
	const deep = "more than 64 lists and mappings in one another"
	for _, c := range []struct {
		name, text, want string
	}{
		{"UTF-16", string(wide), "1:1: " + encoding},
		{"Latin-1", "horizon: 15d\nplans: {caf\xe9: {limits: []}}\n", "2:1: " + encoding},
		{"NUL", "horizon: 15d\n\x00\x00\x00", "2:1: " + encoding},
		{"lists in one line", "plans: " + strings.Repeat("[", 100_000), "1:1: " + deep},
		{"mappings over many lines", "plans:\n" + strings.Repeat(" {a:\n", 100_000), "66:1: " + deep},
		{"dashes", strings.Repeat("- ", 50_000), "1:1: " + deep},
		{"too long", strings.Repeat("#", 5<<20), "1:1: the file has more than 4 MiB"},
	} {
		_, err := config.Parse("c.yaml", []byte(c.text))
		if err == nil || err.Error() != "c.yaml:"+c.want {
			t.Errorf("%s: %v, want c.yaml:%s", c.name, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"a mark of the byte order":   "\ufeffhorizon: 15d\n",
		"brackets that open nothing": strings.Repeat("# [ see there\n", 100) + "horizon: '15d' # [\n",
	} {
		if _, err := config.Parse("c.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAFileWithoutEndIsReadToTheBound: the file is a pipe that never ends.
func TestAFileWithoutEndIsReadToTheBound(t *testing.T) {
	_, err := config.Load("/dev/zero")
	if err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Error(err)
	}
}

// TestExcerptOfALongLine shows what is around the mark, and not the whole line.
func TestExcerptOfALongLine(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for text, want := range map[string]string{
		"horizon: " + long: "    1 | horizon: " + long[:80] + " ...\n" + strings.Repeat(" ", 17) + "^",
		"plans: {" + long + ": 3, y: {limits: []}}": "    1 | ... " + long[:78] + ": 3, y: {limits: []}}\n" +
			strings.Repeat(" ", 92) + "^",
	} {
		_, err := config.Parse("c.yaml", []byte(text))
		var fault *config.Error
		if !errors.As(err, &fault) {
			t.Fatal(err)
		}
		if got := fault.Excerpt(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestReadingGrowsWithTheFile: twice as many plans, or limits of one plan, take about twice the
// work. What it allocates stands for the work.
func TestReadingGrowsWithTheFile(t *testing.T) {
	plans := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "  p%d: {limits: [{meter: slots, units: 1}]}\n", i)
		}
		return "default_plan: p0\nplans:\n" + text.String()
	}
	limits := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "      - {meter: slots, name: l%d, units: 1}\n", i)
		}
		return "plans:\n  free:\n    limits:\n" + text.String()
	}
	for name, file := range map[string]func(n int) string{"plans": plans, "limits": limits} {
		work := func(n int) float64 {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(file(n)), 0o600); err != nil {
				t.Fatal(err)
			}
			return testing.AllocsPerRun(1, func() {
				if _, err := config.Load(path); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := work(100), work(400); many > 6*few {
			t.Errorf("400 %s allocate %.0f times as much as 100", name, many/few)
		}
	}
}
