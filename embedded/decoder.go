package embedded

import (
	"encoding/binary"
	"time"
)

// decoder reads a row. After a read that fails, bad is set and every further read gives zeros.
type decoder struct {
	rest []byte
	bad  bool
}

func newDecoder(row []byte) *decoder {
	d := &decoder{rest: row}
	if d.byte() != rowVersion {
		d.bad = true
	}
	return d
}

// done reports whether the row was read without fault and to its end.
func (d *decoder) done() error {
	if d.bad || len(d.rest) != 0 {
		return errDamaged
	}
	return nil
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) flag() bool {
	b := d.byte()
	if b > 1 {
		d.bad = true
	}
	return b == 1
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if d.take(uint64(max(n, 0))); n <= 0 || d.bad {
		d.bad = true
		return 0
	}
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	if d.take(uint64(max(n, 0))); n <= 0 || d.bad {
		d.bad = true
		return 0
	}
	return v
}

// natural reads a signed number that nothing writes below 0. The guard of a change would never hold
// for such a number.
func (d *decoder) natural() int64 {
	v := d.signed()
	if v < 0 {
		d.bad = true
	}
	return v
}

func (d *decoder) name() string { return string(d.take(d.number())) }

func (d *decoder) time() time.Time {
	seconds, nanoseconds := d.signed(), d.number()
	if nanoseconds >= 1e9 {
		d.bad = true
	}
	if d.bad {
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds)).UTC()
}

func (d *decoder) generation() generation {
	g := generation{kind: d.byte()}
	switch g.kind {
	case noGeneration:
	case byClock, byCaller:
		g.label = d.time()
	default:
		d.bad = true
	}
	return g
}
