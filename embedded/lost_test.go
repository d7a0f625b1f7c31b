package embedded

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

// lostUsers each have been charged one unit, and lostUsers-1 is the last.
const lostUsers = 40

// Case 56: whatever file is lost, cut by a byte or has a byte turned, opening the store or reading
// it is an error, and with the file put right all is there, or all that was acknowledged is there.
// What a power cut may have left cannot be told from damage: a running store's log that is lost, or
// is damaged in its last record.
func TestDamageIsNoticedOrDoesNoHarm(t *testing.T) {
	for _, closed := range []bool{true, false} {
		mem := vfs.NewMem()
		s := openSmall(t, mem)
		e := engine(t, s, 200)
		for n := range lostUsers {
			if n == lostUsers/2 { // so that there are tables, and logs that were used before
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			deduct(t, e, fmt.Sprint("user", n), "op", 1)
		}
		if closed {
			closeStore(t, s)
		}
		good := files(t, mem)
		newest := ""
		for name := range good {
			if strings.HasSuffix(name, ".log") {
				newest = max(newest, name)
			}
		}
		outcomes := map[string]int{}
		try := func(what, name string, change func(map[string][]byte)) {
			bad := maps.Clone(good)
			change(bad)
			lost, err := outcome(t, bad, good)
			switch {
			case err != nil:
				outcomes["error"]++
			case lost == 0:
				outcomes["whole"]++
			case !closed && name == newest && (what == "missing" || what == "cut" || lost == 1):
				outcomes["not to be noticed"]++
			default:
				t.Errorf("closed %v, %s %s: %d of %d charges are lost without an error", closed, name, what, lost, lostUsers)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(good)) {
			content := good[name]
			try("missing", name, func(bad map[string][]byte) { delete(bad, name) })
			if len(content) == 0 {
				continue
			}
			try("cut", name, func(bad map[string][]byte) { bad[name] = content[:len(content)-1] })
			for at := 0; at < len(content); at += 1 + len(content)/60 {
				try(fmt.Sprint("turned at ", at), name, func(bad map[string][]byte) {
					turned := slices.Clone(content)
					turned[at] ^= 0x55
					bad[name] = turned
				})
			}
		}
		try("without its empty files", "copy", func(bad map[string][]byte) {
			maps.DeleteFunc(bad, func(_ string, content []byte) bool { return len(content) == 0 })
		})
		t.Logf("closed %v: %v", closed, outcomes)
	}
}

// outcome opens such files as a store, and returns how many of the charges are not there, or an
// error. Where opening them fails, all is there once the files are put right that differ from the
// good ones.
func outcome(t *testing.T, bad, good map[string][]byte) (lost int, err error) {
	t.Helper()
	mem := written(t, bad)
	s, err := Open("db", Options{Clock: (&hand{monday}).read, fs: mem})
	if err != nil {
		if !errors.Is(err, headroom.Unreadable) {
			t.Errorf("%v, want Unreadable", err)
		}
		mended := files(t, mem)
		for name, content := range good {
			if is, there := bad[name]; !there || string(is) != string(content) {
				mended[name] = content
			}
		}
		s, again := Open("db", Options{Clock: (&hand{monday}).read, fs: written(t, mended)})
		if again != nil {
			t.Errorf("after %v, with the files put right: %v", err, again)
			return 0, err
		}
		defer s.Close()
		if lost, again := charges(t, s); lost > 0 || again != nil {
			t.Errorf("after %v, with the files put right: %d charges are lost, %v", err, lost, again)
		}
		return 0, err
	}
	defer s.Close()
	return charges(t, s)
}

// charges counts the charges that are not there.
func charges(t *testing.T, s *Store) (lost int, err error) {
	for n := range lostUsers {
		v, err := s.Load(t.Context(), headroom.Query{Key: slots(fmt.Sprint("user", n)), IDs: []string{"op"}, Now: monday})
		if err != nil {
			return 0, err
		}
		if v.State.Counters["week"].Count != 1 || v.Records["op"].Cost != 1 {
			lost++
		}
	}
	return lost, nil
}

// A byte that is turned in the log right after the first charge hides none of the later ones.
func TestNewStoreNoticesDamageInItsFirstLog(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, mem, "db", (&hand{monday}).read)
	e := engine(t, s, 200)
	var at int
	for n := range 10 {
		deduct(t, e, "ann", fmt.Sprint(n), 1)
		if n == 0 {
			for name, content := range files(t, mem) {
				if strings.HasSuffix(name, ".log") {
					at = max(at, len(strings.TrimRight(string(content), "\x00")))
				}
			}
		}
	}
	content, newest := files(t, mem), ""
	for name := range content {
		if strings.HasSuffix(name, ".log") {
			newest = max(newest, name)
		}
	}
	content[newest][at-5] ^= 0x55
	checkNotOpened(t, written(t, content), headroom.Unreadable, "cannot be read")
}
