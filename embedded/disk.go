package embedded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk stands between Pebble and the file system, because Pebble does not outlive a failed write.
// If its write-ahead log cannot be written, it panics under its own locks. If a log file cannot be
// created, as on a full disk, it ends in a runtime error that no program can recover from. Here the
// first failed write freezes the directory instead: from then on nothing on disk changes. Pebble is
// told that all is well, and goes on in memory only. The store sees the failure before it
// acknowledges anything, and acknowledges nothing after it. What is on disk is what a crash at that
// moment would have left.
type disk struct {
	vfs.FS
	dir string // of the store, for the log
	log *slog.Logger

	failed atomic.Pointer[failure]

	vouched voucher
}

// failure is why the directory was frozen, and the file system that has taken its place.
type failure struct {
	err error
	mem *vfs.MemFS
}

// lockHeld is the failure to lock a directory that another has locked.
type lockHeld struct{ cause error }

func (e lockHeld) Error() string { return e.cause.Error() }

// failure returns why writing has stopped, or nil.
func (d *disk) failure() error {
	if f := d.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// fail freezes the directory if err is not nil. Only the first failure counts.
func (d *disk) fail(what string, err error) {
	if err == nil {
		return
	}
	if path := (*fs.PathError)(nil); !errors.As(err, &path) {
		err = fmt.Errorf("%s: %w", what, err)
	}
	if d.failed.CompareAndSwap(nil, &failure{err: err, mem: vfs.NewMem()}) {
		d.log.Error("headroom: the embedded store has stopped", "dir", d.dir, "error", err)
	}
}

// memory returns the file system that has taken the place of a frozen directory, with the folder of
// name in it, or nil if nothing failed.
func (d *disk) memory(name string) *vfs.MemFS {
	f := d.failed.Load()
	if f == nil {
		return nil
	}
	// MemFS fails on no folder that can be named.
	_ = f.mem.MkdirAll(d.FS.PathDir(name), 0o700)
	return f.mem
}

func (d *disk) Unwrap() vfs.FS { return d.FS }

func (d *disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(d.FS.PathBase(name), "marker.manifest.") {
		d.vouch()
	}
	if mem := d.memory(name); mem != nil {
		return mem.Create(name, category)
	}
	f, err := d.FS.Create(name, category)
	return d.opened(name, category, "create "+name, f, err)
}

func (d *disk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	d.vouch()
	if mem := d.memory(newname); mem != nil {
		return mem.Create(newname, category)
	}
	f, err := d.FS.ReuseForWrite(oldname, newname, category)
	return d.opened(newname, category, "reuse "+oldname, f, err)
}

func (d *disk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if mem := d.memory(name); mem != nil {
		return mem.OpenReadWrite(name, category, opts...)
	}
	f, err := d.FS.OpenReadWrite(name, category, opts...)
	return d.opened(name, category, "open "+name, f, err)
}

// opened wraps a file that was opened for writing. If opening it has just frozen the directory, it
// gives one in memory.
func (d *disk) opened(name string, category vfs.DiskWriteCategory, what string, f vfs.File, err error) (vfs.File, error) {
	if err == nil {
		return d.following(&file{File: f, disk: d, name: name}), nil
	}
	d.fail(what, err)
	return d.memory(name).Create(name, category)
}

func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if mem := d.memory(name); mem != nil {
		if f, err := mem.Open(name, opts...); err == nil {
			return f, nil
		}
	}
	return d.FS.Open(name, opts...)
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) Stat(name string) (vfs.FileInfo, error) {
	if mem := d.memory(name); mem != nil {
		if info, err := mem.Stat(name); err == nil {
			return info, nil
		}
	}
	return d.FS.Stat(name)
}

func (d *disk) Remove(name string) error {
	d.vouch()
	if mem := d.memory(name); mem != nil {
		_ = mem.Remove(name) // it may be one of the frozen files
		return nil
	}
	return d.FS.Remove(name)
}

func (d *disk) Rename(oldname, newname string) error {
	if mem := d.memory(newname); mem != nil {
		_ = mem.Rename(oldname, newname) // it may be one of the frozen files
		return nil
	}
	d.fail("rename "+oldname, d.FS.Rename(oldname, newname))
	return nil
}

// MkdirAll keeps others out of the folders that it makes: names of subjects are nobody's business.
func (d *disk) MkdirAll(dir string, perm os.FileMode) error {
	if err := d.failure(); err != nil {
		return err
	}
	return d.FS.MkdirAll(dir, perm&0o700)
}

func (d *disk) Link(oldname, newname string) error {
	if err := d.failure(); err != nil {
		return err
	}
	return d.FS.Link(oldname, newname)
}

func (d *disk) RemoveAll(name string) error {
	if err := d.failure(); err != nil {
		return err
	}
	return d.FS.RemoveAll(name)
}

// Lock tells a lock that another holds from a lock file that cannot be written, and from a file
// system without locks.
func (d *disk) Lock(name string) (io.Closer, error) {
	c, err := d.FS.Lock(name)
	path := (*fs.PathError)(nil)
	if err == nil || errors.As(err, &path) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK) {
		return c, err
	}
	return nil, lockHeld{err}
}

// file is a file or folder that Pebble writes to.
type file struct {
	vfs.File
	disk *disk
	name string
	sum  *sum // of what was written to a manifest; nil for others
}

func (f *file) Write(p []byte) (int, error) {
	if f.disk.failure() == nil {
		f.sum.write(p) // first: a file system may leave anything in p
		_, err := f.File.Write(p)
		f.disk.fail("write "+f.name, err)
	}
	return len(p), nil
}

func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	if f.disk.failure() == nil {
		_, err := f.File.WriteAt(p, offset)
		f.disk.fail("write "+f.name, err)
	}
	return len(p), nil
}

func (f *file) Sync() error {
	if f.disk.failure() == nil {
		f.disk.fail("sync "+f.name, f.File.Sync())
		f.disk.follow(f)
	}
	return nil
}

func (f *file) SyncData() error {
	if f.disk.failure() == nil {
		f.disk.fail("sync "+f.name, f.File.SyncData())
		f.disk.follow(f)
	}
	return nil
}

func (f *file) SyncTo(length int64) (fullSync bool, err error) {
	if f.disk.failure() == nil {
		fullSync, err = f.File.SyncTo(length)
		f.disk.fail("sync "+f.name, err)
	}
	return fullSync && err == nil, nil
}

// Preallocate is a wish: where it fails, the write that needs the space will tell.
func (f *file) Preallocate(offset, length int64) error {
	if f.disk.failure() == nil {
		_ = f.File.Preallocate(offset, length)
	}
	return nil
}

func (f *file) Close() error {
	if err := f.File.Close(); f.disk.failure() == nil {
		f.disk.fail("close "+f.name, err)
	}
	return nil
}
