package dynamostore

import (
	"strconv"
	"strings"

	"github.com/lumcast/headroom"
)

// A record that took the place of another one has a mark: " ~" and its version, which says how
// often the record of that id was rewritten. A record without a mark has version 0.
//
// Name and version together make the sort key in the ledger. So a late copy of an earlier version
// hides no later one.
//
// In format 1 the mark is " ~" alone, and a record that has it does not move. Here that is version
// 1, because the ledger can only have version 0 of it.
const versionMark = " ~"

// unmarked returns the text of a record without its mark, and its version.
func unmarked(text string) (record string, version int64) {
	record, mark, found := strings.Cut(text, versionMark)
	if !found {
		return text, 0
	}
	if mark == "" {
		return record, 1 // format 1
	}
	version, err := strconv.ParseInt(mark, 10, 64)
	if err != nil || version < 1 || version > mostVersion {
		return text, 0 // which is not a record
	}
	return record, version
}

// marked returns the text of a record with the mark of its version.
func marked(record string, version int64) string {
	if version == 0 {
		return record
	}
	return record + versionMark + strconv.FormatInt(version, 10)
}

// version returns the version of a text that an item or the ledger has for an id.
func version(text string) int64 {
	record, version := unmarked(text)
	if version == 0 {
		if r, err := headroom.ParseRecord(record); err == nil && r.Kind == headroom.KindHold && r.Held != 0 {
			return 1 // format 1 gave no mark to a hold that was taken again after its release
		}
	}
	return version
}

// moves reports whether a record that stands in the item with this text may go to the ledger.
func (it item) moves(text string) bool {
	return it.format != formatOne || !strings.HasSuffix(text, versionMark)
}
