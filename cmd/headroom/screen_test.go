package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// evil has what steers a terminal: ESC, CSI in one character, text from right to left, a byte to
// delete, a line of another alphabet's, and a tag.
const evil = "a\x1b[31m\u009bb\u202ec\u2066\x7f\r\u2028\U000e0041"

// wantUnsteered expects nothing but what can be shown, lines and columns.
func wantUnsteered(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && (!strconv.IsPrint(r) || r == '\ufffd') {
			t.Errorf("%s: %+q reaches the terminal in %+q", what, r, text)
			return
		}
	}
}

// TestNoNameSteersATerminal is case 69: in flags, arguments, files, the configuration, CSV and
// JSON.
func TestNoNameSteersATerminal(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	store := "embedded:" + filepath.Join(dir, "store")
	quoted, _ := json.Marshal(evil)
	wrong := file("wrong.json", `{"plans":{"`+evil+`":{}}}`)
	right := file("right.json", `{"defaultPlan":`+string(quoted)+`,"plans":{`+string(quoted)+`:{"limits":{"slots":{"week":200}}}}}`)
	log := file("log.csv", "time,subject,meter,cost,operation\n2026-06-01T10:00:00Z,"+evil+",slots,3,"+evil+"\n"+evil+","+evil+"\n")
	list := file("jobs.csv", "jobId,userId,voiceQuality,durationSeconds\n"+evil+","+evil+","+evil+","+evil+"\n")
	for _, args := range [][]string{
		{evil}, {"usage", evil}, {"deduct", evil, "3", "--operation", evil}, {"deduct", evil, "4", "--operation", evil}, {"preflight", evil, evil},
		{"hold", evil, "1", "--operation", "h" + evil}, {"extend", evil, "--operation", evil}, {"release", evil, "--operation", evil}, {"settle", evil, "1", "--operation", evil},
		{"refund", evil, "--operation", evil, "--id", "x" + evil}, {"grant", evil, "5", "--id", evil}, {"explain", evil}, {"history", evil}, {"usage"},
		{"usage", "x", "--" + evil}, {"usage", "x", "--meter", evil}, {"usage", "x", "--config", evil}, {"usage", "x", "--config", wrong}, {"usage", "x", "--config", right},
		{"plans", "check", wrong}, {"plans", "check", right}, {"plans", "check", "--config", right}, {"usage", "x", "--store", evil}, {"usage", "x", "--store", "embedded:" + wrong + "/" + evil},
		{"replay", evil}, {"replay", log}, {"whatif", evil}, {"whatif", log}, {"send", list}, {"send", "--csv", list}, {"week", evil}, {"cost", evil, evil}, {"clock", evil},
		{"jobs", evil}, {"jobs", "list", "--status", evil}, {"jobs", "close", evil}, {"reconcile", "--mode", evil}, {"forget", evil}, {"forget", evil, "--yes"}, {"help", evil},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			var out, failed bytes.Buffer
			all := append(append([]string{}, args...), more...)
			run(all, strings.NewReader(evil), &out, &failed, func(name string) string {
				return map[string]string{"HOME": dir, "HEADROOM_STORE": store}[name]
			})
			wantUnsteered(t, strings.Join(all, " "), out.String()+failed.String())
			if out.Len()+failed.Len() == 0 {
				t.Errorf("%q says nothing", all)
			}
		}
	}
}

// TestJSONSaysTheSameOnAScreen: what is escaped there is read as it was, however it was cut on the
// way.
func TestJSONSaysTheSameOnAScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{to: &out}
	text, err := json.Marshal(evil + "日本 ü 👨‍👩‍👧 \ufeff")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range text {
		if n, err := s.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	wantUnsteered(t, "JSON", out.String())
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != evil+"日本 ü 👨‍👩‍👧 \ufeff" {
		t.Errorf("%+q, %v", got, err)
	}
	if !strings.Contains(out.String(), "日本 ü ") {
		t.Error("what can be shown is escaped: " + out.String())
	}
	out.Reset()
	io.WriteString(s, "a\xffb")
	if out.String() != `a\xffb` {
		t.Errorf("%q", out.String())
	}
}
