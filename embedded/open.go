package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/lumcast/headroom"
)

// engineFormat is the format of Pebble's own files.
const engineFormat = pebble.FormatValueSeparation

// Sizes in bytes. Together they bound the memory of a store at about 160 MB, however many subjects
// it has. A store that is written little needs a few MB.
const (
	// Recent writes, in each of two tables, which grow as they fill. Half of it costs a third more
	// processor time under a long load.
	memTableSize = 64 << 20
	cacheSize    = 32 << 20 // blocks read from disk
)

// newestFormat is the greatest number that Options.Format may have.
const newestFormat = 2

// Open opens the store in dir, and makes it if there is none. One process may have it open, once.
// Everybody else gets Locked. The other errors are:
//
//   - Invalid: there is no directory, or no such format
//   - Rejected: the directory cannot be read or written
//   - Unreadable: the directory holds something else, a newer format, or damaged files
//   - Unavailable: the disk fails or is full
func Open(dir string, opts Options) (*Store, error) {
	if dir == "" {
		return nil, headroom.Errorf(headroom.Invalid, nil, "a store needs a directory")
	}
	if opts.Format < 0 || opts.Format > newestFormat {
		return nil, headroom.Errorf(headroom.Invalid, nil, "format %d: want 1 to %d, or 0 for the newest", opts.Format, newestFormat)
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.fs == nil {
		var err error
		if dir, err = resolve(dir); err != nil {
			return nil, refused(dir, err)
		}
		opts.fs = vfs.Default
	}
	s := &Store{dir: dir, older: opts.Format == 1, disk: &disk{FS: opts.fs, dir: dir, log: opts.Logger}, clock: clock{read: opts.Clock}, seed: maphash.MakeSeed()}
	err := s.disk.undamaged()
	if err != nil {
		// Another process that has the store may be about to change what was looked at.
		if c, held := s.disk.Lock(opts.fs.PathJoin(dir, "LOCK")); errors.As(held, new(lockHeld)) {
			err = held
		} else if held == nil {
			_ = c.Close()
		}
		return nil, refused(dir, err)
	}
	final := format(opts.fs, dir) == engineFormat
	if s.db, err = pebble.Open(dir, s.engine(opts)); err == nil {
		s.write = func(b *pebble.Batch) error { return s.db.ApplyNoSyncWait(b, pebble.Sync) }
		if err = s.begin(final); err != nil || s.disk.failure() != nil {
			_ = s.db.Close()
		}
	} else if newer(opts.fs, dir) {
		err = errors.Join(errNewer, err)
	}
	if err = cmp.Or(s.disk.failure(), err); err != nil {
		return nil, refused(dir, err)
	}
	return s, nil
}

// engine returns Pebble's options.
func (s *Store) engine(opts Options) *pebble.Options {
	o := &pebble.Options{
		FS:                 s.disk,
		FormatMajorVersion: engineFormat,
		MemTableSize:       cmp.Or(opts.memTable, memTableSize),
		CacheSize:          cacheSize,
		Logger:             engineLog{s.disk},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { engineLog{s.disk}.Errorf("%v", err) },
			DataCorruption:  func(i pebble.DataCorruptionInfo) { engineLog{s.disk}.Errorf("%s is damaged: %v", i.Path, i.Details) },
		},
	}
	// An operation that was not charged before is in no file. The filters tell that for most files.
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// engineLog is where Pebble logs to. Its news are dropped. Its errors are passed on until the store
// has stopped: what it finds in a frozen directory is no surprise. Its fatal errors stop the store
// and not the process.
type engineLog struct{ disk *disk }

func (engineLog) Infof(string, ...any) {}

func (l engineLog) Errorf(format string, args ...any) {
	if l.disk.failure() == nil {
		l.disk.log.Error("headroom: the embedded store's engine", "dir", l.disk.dir, "error", fmt.Sprintf(format, args...))
	}
}

func (l engineLog) Fatalf(format string, args ...any) {
	l.disk.fail("engine", fmt.Errorf(format, args...))
}

// begin reads what belongs to the store as a whole, or writes it if the store is new. final says
// that the engine's files had their final format before they were opened.
func (s *Store) begin(final bool) error {
	var number uint64
	known, err := s.get([]byte{tableFormat}, func(row []byte) (err error) {
		number, err = decodeFormat(row)
		return err
	})
	if err != nil {
		return err
	}
	if !known {
		return s.create()
	}
	if number != storeFormat {
		return fmt.Errorf("%w: it has format %d, this program knows format %d", errNewer, number, storeFormat)
	}
	if !final {
		if err := s.put([]byte{tableFormat}, encodeFormat(number)); err != nil {
			return err
		}
	}
	_, err = s.get([]byte{tableClock}, func(row []byte) (err error) {
		s.clock.kept, s.clock.horizon, err = decodeClock(row)
		return err
	})
	if err != nil {
		return err
	}
	s.clock.mark = s.clock.kept
	labels, err := s.labels(byClock)
	if err == nil && len(labels) > 0 {
		s.clock.newest = labels[len(labels)-1]
	}
	return cmp.Or(err, s.sweep())
}

// create writes the format into an empty database. One with rows in it is somebody else's.
func (s *Store) create() error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	foreign := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if foreign {
		return errForeign
	}
	return s.put([]byte{tableFormat}, encodeFormat(storeFormat))
}

// put writes the row into a table and begins a new log. The engine opened the first log before it
// had brought its files to their final format, without the marks by which damage in the midst of a
// log is noticed: nothing that was acknowledged lies in it.
func (s *Store) put(key, row []byte) error {
	if err := s.db.Set(key, row, pebble.Sync); err != nil {
		return err
	}
	return s.db.Flush()
}

var (
	errForeign = errors.New("the directory holds a Pebble database that is not Headroom's")
	errNewer   = errors.New("a newer version wrote it")
)

// newer reports whether the files in dir have a format that the engine of this program does not
// know. The engine's own error cannot be told from others.
func newer(fs vfs.FS, dir string) bool { return format(fs, dir) > engineFormat }

// format is the format of the engine's files in dir, 0 if nobody says.
func format(fs vfs.FS, dir string) pebble.FormatMajorVersion {
	text, err := atomicfs.ReadMarker(fs, dir, "format-version")
	if err != nil {
		return 0
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return pebble.FormatMajorVersion(number)
}

// refused is the error of a directory that cannot be opened.
func refused(dir string, err error) error {
	var held lockHeld
	var errno syscall.Errno
	switch {
	case errors.As(err, &held):
		return headroom.Errorf(headroom.Locked, err, "the store in %s is open in another process, or in this one: close it there, or ask the server that has it", dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return headroom.Errorf(headroom.Rejected, err, "the store's directory %s cannot be used: this user must be able to read and write it", dir)
	case vfs.IsNoSpaceError(err):
		return headroom.Errorf(headroom.Unavailable, err, "the disk of the store in %s is full", dir)
	case errors.Is(err, errNewer):
		return headroom.Errorf(headroom.Unreadable, err, "the store in %s needs a newer version of Headroom", dir)
	case errors.As(err, &errno) && !errors.Is(err, fs.ErrNotExist):
		return headroom.Errorf(headroom.Unavailable, err, "opening the store in %s", dir)
	}
	// The system had no objection, so it is what the files say.
	return headroom.Errorf(headroom.Unreadable, err, "the store in %s cannot be read", dir)
}

// resolve returns the one name of dir that two openers in one process would both find, whether or
// not it exists. The lock tells directories apart by name only.
func resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir, err
	}
	for parent := abs; ; parent = filepath.Dir(parent) {
		real, err := filepath.EvalSymlinks(parent)
		if err == nil {
			rest, err := filepath.Rel(parent, abs)
			return filepath.Join(real, rest), err
		}
		if !errors.Is(err, os.ErrNotExist) || parent == filepath.Dir(parent) {
			return abs, err
		}
	}
}
