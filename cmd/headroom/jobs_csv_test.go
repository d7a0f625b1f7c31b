package main

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var namesLine = regexp.MustCompile(`(:|line )[0-9]+`)

// FuzzReadJobs holds that a file of any form gives a message for each row, with what a reader of
// CSV finds in it, or an error that names the line.
func FuzzReadJobs(f *testing.F) {
	const header = "jobId,userId,voiceQuality,durationSeconds"
	f.Add(header + "\na,alice,neural,900\nb,bob,standard,0.5\n")
	f.Add(header + ",\xc3\na,alice,neural,900,\xa9\n") // which together are a letter
	f.Add(header + ",attempt,title\na,alice,neural,900,2,\"a, \"\"b\"\"\nc\"\n")
	f.Add("title,title," + header + "\nx,y,a,alice,neural,1\n")
	f.Add(header + "\na,alice,neural,1e400\n")
	f.Add(header + "\na,alice,neural,NaN\n")
	f.Add(header + "\na,alice,neural\n")
	f.Add(header + ",headroom\na,alice,neural,1,x\n")
	f.Add(header + ",attempt\na,alice,neural,1,99999999999999999999\n")
	f.Add("\ufeff" + header + "\r\na,\"al\nice\",neural,-1\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		bodies, err := readJobs("-", strings.NewReader(text))
		rows, bad := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			if _, rest, _ := strings.Cut(text, "\n"); bodies != nil || !strings.Contains(err.Error(), "header") && (rest == "" || !namesLine.MatchString(err.Error())) {
				t.Errorf("%v in %q", err, text)
			}
			return
		}
		if bad != nil || len(bodies) != len(rows)-1 {
			t.Fatalf("%d messages of %d rows, %v", len(bodies), len(rows), bad)
		}
		for n, body := range bodies {
			var message map[string]any
			if err := json.Unmarshal(body, &message); err != nil {
				t.Fatal(err)
			}
			for i, name := range rows[0] {
				name = strings.TrimPrefix(name, "\ufeff")
				want := any(rows[n+1][i])
				switch name {
				case "durationSeconds":
					seconds, err := strconv.ParseFloat(rows[n+1][i], 64)
					if err != nil || math.IsInf(seconds, 0) {
						t.Fatalf("row %d was taken", n+1)
					}
					want = seconds
				case "attempt":
					if attempt, err := strconv.Atoi(rows[n+1][i]); err != nil || attempt < 1 {
						t.Fatalf("row %d was taken", n+1)
					} else if want = float64(attempt); attempt == 1 {
						want = nil
					}
				}
				if message[name] != want {
					t.Errorf("%q is %v, want %v", name, message[name], want)
				}
			}
		}
	})
}
