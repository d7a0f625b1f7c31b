package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// What the engine would not notice. A directory without the mark of its manifest is a new store to
// it, and it removes the tables that it finds. And it reads a manifest, the list of its tables and
// of the logs that they have made needless, up to the first byte that it cannot make out: the
// tables that came after are removed, and their logs are gone already.
//
// So whenever the engine is about to remove a file, the store first writes down how long the
// manifest is and what its bytes add up to, in a file of its own, and looks at both before it opens
// the engine again. What came into the manifest after that may be lost, by a power cut for
// instance: nothing has been removed since, so the tables before and the logs have it all.
//
// A release that knows nothing of this file may work on the directory in between. It begins a
// manifest of another name before it changes anything, and what is written down of the one before
// counts for nothing then.

// voucherFile holds the name of a manifest, its length in bytes and their sum, CRC-32C in
// hexadecimal.
const voucherFile = "headroom.manifest"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the length of what was written to a manifest, and its sum.
type sum struct {
	length int64
	crc    uint32
}

func (s *sum) write(p []byte) {
	if s != nil {
		s.length, s.crc = s.length+int64(len(p)), crc32.Update(s.crc, castagnoli, p)
	}
}

// voucher is what is known of the manifest that is being written.
type voucher struct {
	mu      sync.Mutex
	synced  string // what the file should say; empty as long as no manifest was written
	written string // what it says
}

// following takes note of f if it is a manifest, which is written from its beginning.
func (d *disk) following(f *file) *file {
	if strings.HasPrefix(d.FS.PathBase(f.name), "MANIFEST-") {
		f.sum = &sum{}
	}
	return f
}

// follow takes note that f, if it is a manifest, has reached the disk.
func (d *disk) follow(f *file) {
	if f.sum == nil {
		return
	}
	d.vouched.mu.Lock()
	defer d.vouched.mu.Unlock()
	d.vouched.synced = fmt.Sprintf("%s %d %08x\n", d.FS.PathBase(f.name), f.sum.length, f.sum.crc)
}

// vouch writes down what is known of the manifest. The disk stops if it cannot.
func (d *disk) vouch() {
	v := &d.vouched
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.synced == v.written || d.failure() != nil {
		return
	}
	if err := replace(d.FS, d.dir, voucherFile, []byte(v.synced)); err != nil {
		d.fail("write "+voucherFile, err)
		return
	}
	v.written = v.synced
}

// replace puts a file in the place of the one before, whole or not at all, and waits for the disk.
func replace(files vfs.FS, dir, name string, content []byte) error {
	path := files.PathJoin(dir, name)
	f, err := files.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := files.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// undamaged looks for damage that the engine would take for something else. It changes nothing.
func (d *disk) undamaged() error {
	names, err := d.FS.List(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	manifest, err := atomicfs.ReadMarker(d.FS, d.dir, "manifest")
	if err != nil {
		return err
	}
	if manifest != "" {
		return cmp.Or(d.checkManifest(manifest), d.checkNewestLog(names))
	}
	for _, name := range names {
		// A process that ends as it makes a store leaves its first manifest, unmarked, and no more.
		if kept(name) && name != "MANIFEST-000001" {
			return fmt.Errorf("the directory has %s, but no file marker.manifest.*, which is empty: it was lost, perhaps in a copy that left out empty files. Nothing was changed", name)
		}
	}
	return nil
}

// kept reports whether a file of the engine's by this name is one that holds data, or says what
// does.
func kept(name string) bool {
	for _, ending := range []string{".sst", ".blob", ".log"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "OPTIONS-")
}

func (d *disk) checkNewestLog(names []string) error {
	newest := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") && (len(name) > len(newest) || len(name) == len(newest) && name > newest) {
			newest = name
		}
	}
	if newest == "" {
		return nil
	}
	log, err := contentOf(d.FS, d.FS.PathJoin(d.dir, newest))
	if err != nil {
		return err
	}
	return checkLog(newest, log)
}

// checkManifest holds a manifest against what was written down of it.
func (d *disk) checkManifest(name string) error {
	said, err := contentOf(d.FS, d.FS.PathJoin(d.dir, voucherFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the release before wrote the store
	}
	if err != nil {
		return err
	}
	var of string
	var want, have sum
	if _, err := fmt.Sscanf(string(said), "%s %d %x\n", &of, &want.length, &want.crc); err != nil {
		return fmt.Errorf("%s is damaged: %w", voucherFile, err)
	}
	if of != name {
		return nil
	}
	content, err := contentOf(d.FS, d.FS.PathJoin(d.dir, name))
	if err != nil {
		return err
	}
	have.write(content[:min(int64(len(content)), max(0, want.length))])
	if have != want {
		return fmt.Errorf("%s is damaged: of the %d bytes that it had, %d are there, with the sum %08x instead of %08x. Nothing was changed", name, want.length, have.length, have.crc, want.crc)
	}
	return nil
}

func contentOf(files vfs.FS, path string) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	return content, errors.Join(err, f.Close())
}
