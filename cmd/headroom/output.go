package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/lumcast/headroom"
)

// printJSON prints v on one line.
func (a *app) printJSON(v any) {
	out := json.NewEncoder(a.stdout)
	out.SetEscapeHTML(false)
	// Every v can be encoded. Only the writing can fail, and run notices that when it flushes.
	_ = out.Encode(v)
}

type jsonWindow struct {
	Key   string    `json:"key"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

func windowJSON(w headroom.Window) jsonWindow { return jsonWindow(w) }

// unlessUnlimited returns n, or nil if there is no limit.
func unlessUnlimited(n, limit int64) *int64 {
	if limit == headroom.Unlimited {
		return nil
	}
	return &n
}

// instant formats a time for a person.
func instant(t time.Time) string { return t.Format("Mon 2 Jan 2006 15:04 MST") }

// thousands formats n with a comma between thousands.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign, digits := digits[:len(digits)-len(strings.TrimPrefix(digits, "-"))], strings.TrimPrefix(digits, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// percent formats n as a share of all. It is "" if all is 0.
func percent(n, all int64) string {
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(all))
}

// bar draws n of all in width cells, exact to an eighth of a cell. It is full only if n is at least
// all, and empty only if n is 0.
func bar(n, all int64, width int) string {
	if all <= 0 || n >= all {
		if n <= 0 {
			return strings.Repeat("░", width)
		}
		return strings.Repeat("█", width)
	}
	eighths := int(float64(n) / float64(all) * float64(8*width))
	if n > 0 {
		eighths = min(max(eighths, 1), 8*width-1)
	}
	cells := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		cells += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return cells + strings.Repeat("░", width-uniseg.StringWidth(cells))
}

// printable makes text from elsewhere safe to show. It quotes text that could control a terminal.
func printable(text string) string {
	if !utf8.ValidString(text) {
		return strconv.Quote(text) // the loop below would see U+FFFD, which is printable
	}
	for _, r := range text {
		if !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// table prints rows in columns. align has a letter for each column: l aligns its cells to the left,
// r to the right.
func table(w *bufio.Writer, align string, rows [][]string) {
	widths := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], uniseg.StringWidth(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell))
			if align[i] == 'r' {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
