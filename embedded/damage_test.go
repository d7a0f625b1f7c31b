package embedded

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

// A file that is cut short or has a byte turned gives Unreadable where the engine's checks find it,
// and a panic nowhere.
func TestDamagedFilesAreAnError(t *testing.T) {
	mem := vfs.NewMem()
	for range 3 {
		s := openSmall(t, mem)
		e := engine(t, s, 1<<40)
		for n := range 300 {
			deduct(t, e, fmt.Sprint("user", n%7), fmt.Sprint(n), 1)
		}
		closeStore(t, s)
	}
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		good := read(t, mem, name)
		for i := 0; i < len(good); i += 1 + len(good)/50 {
			for kind, bad := range map[string][]byte{"cut": good[:i], "turned": append(append(append([]byte(nil), good[:i]...), good[i]^0x55), good[i+1:]...)} {
				damaged := vfs.NewMem()
				for _, other := range names {
					if other == name {
						write(t, damaged, name, bad)
					} else {
						write(t, damaged, other, read(t, mem, other))
					}
				}
				s, err := Open("db", Options{fs: damaged})
				if err != nil {
					if !errors.Is(err, headroom.Unreadable) {
						t.Errorf("%s %s at %d: %v", name, kind, i, err)
					}
					continue
				}
				for n := range 7 {
					_, err := s.Load(t.Context(), headroom.Query{Key: slots(fmt.Sprint("user", n)), IDs: []string{fmt.Sprint(n)}, Now: monday})
					if err != nil && !errors.Is(err, headroom.Unreadable) {
						t.Errorf("%s %s at %d: load: %v", name, kind, i, err)
					}
				}
				_ = s.Close()
			}
		}
	}
}

func read(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open("db/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	if err := fs.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("db/"+name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append([]byte(nil), b...)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
