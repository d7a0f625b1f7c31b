package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumcast/headroom"
)

// killedDir, when set, makes of the test binary the process that is killed: it deducts in this directory and prints each operation that was acknowledged.
const killedDir = "HEADROOM_TEST_KILLED_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		if err := deductUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const loadSubjects, loadWriters = 5, 16

func deductUntilKilled(dir string) error {
	s, err := Open(dir, Options{Clock: (&hand{monday}).read})
	if err != nil {
		return err
	}
	catalog, err := headroom.Lumcast().WithUnits("slots", 1<<40)
	if err != nil {
		return err
	}
	e, err := headroom.New(s, catalog, headroom.Options{Clock: s.clock.read})
	if err != nil {
		return err
	}
	return load(e, fmt.Sprint(os.Getpid()), func(subject, operation string) { fmt.Printf("%s %s\n", subject, operation) })
}

// load deducts with some writers until one fails, with ids that begin with prefix, and tells of each acknowledged operation.
func load(e *headroom.Engine, prefix string, acknowledged func(subject, operation string)) error {
	var wg sync.WaitGroup
	errs := make([]error, loadWriters)
	for w := range loadWriters {
		wg.Go(func() {
			for n := 0; errs[w] == nil; n++ {
				r := headroom.Request{Subject: fmt.Sprint("user", n%loadSubjects), Meter: "slots", Operation: fmt.Sprintf("%s-%d-%d", prefix, w, n), Cost: int64(1 + n%7)}
				if _, errs[w] = e.Deduct(context.Background(), r); errs[w] == nil {
					acknowledged(r.Subject, r.Operation)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func TestAcknowledgedDeductionsSurviveAKill(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, acknowledged := t.TempDir(), map[[2]string]bool{}
	for kill := range 10 {
		child := exec.Command(program)
		child.Env = append(os.Environ(), killedDir+"="+dir)
		var stderr strings.Builder
		child.Stderr = &stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// The first kill may hit the making of the store.
		after := rand.N(500) * min(kill, 1)
		lines := bufio.NewScanner(out)
		for n := 0; ; n++ {
			if n == after {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			if !lines.Scan() {
				break
			}
			if subject, operation, ok := strings.Cut(lines.Text(), " "); ok {
				acknowledged[[2]string{subject, operation}] = true
			}
		}
		if err := child.Wait(); err == nil || stderr.Len() > 0 {
			t.Fatalf("the child was not killed: %v, %s", err, stderr.String())
		}
		s := open(t, nil, dir, (&hand{monday}).read)
		checkThere(t, acknowledged, audit(t, s))
		closeStore(t, s)
	}
	if len(acknowledged) < 100 {
		t.Errorf("only %d acknowledged operations", len(acknowledged))
	}
	// The whole sent again charges nothing.
	s := open(t, nil, dir, (&hand{monday}).read)
	e := engine(t, s, 1<<40)
	for op := range acknowledged {
		v, err := s.Load(t.Context(), headroom.Query{Key: slots(op[0]), IDs: []string{op[1]}})
		if err != nil || len(v.Records) == 0 {
			t.Fatalf("%v: %+v, %v", op, v, err)
		}
		if d := deduct(t, e, op[0], op[1], v.Records[op[1]].Cost); !d.Replay {
			t.Fatalf("%v was charged twice: %+v", op, d)
		}
	}
}

func checkThere(t *testing.T, acknowledged, stored map[[2]string]bool) {
	t.Helper()
	for op := range acknowledged {
		if !stored[op] {
			t.Errorf("%v was acknowledged and is lost", op)
		}
	}
}

// A power cut loses what was not synced, or any part of it.
func TestAcknowledgedDeductionsSurviveAPowerCut(t *testing.T) {
	mem, acknowledged := vfs.NewCrashableMem(), map[[2]string]bool{}
	for cut := range 20 {
		s := openSmall(t, mem)
		checkThere(t, acknowledged, audit(t, s))
		var mu sync.Mutex
		var after *vfs.MemFS // what the power cut has left
		left := 1 + rand.N(1000)
		err := load(engine(t, s, 1<<40), fmt.Sprint(cut), func(subject, operation string) {
			mu.Lock()
			defer mu.Unlock()
			if after != nil {
				return
			}
			acknowledged[[2]string{subject, operation}] = true
			if left--; left == 0 {
				// The others are writing meanwhile.
				after = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rand.N(101), RNG: rand.New(rand.NewPCG(rand.Uint64(), 0))})
				s.disk.fail("test", errPowerCut)
			}
		})
		if !errors.Is(err, errPowerCut) {
			t.Fatal(err)
		}
		closeStore(t, s)
		mem = after
	}
}

var errPowerCut = errors.New("power cut")
