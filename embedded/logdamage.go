package embedded

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// The engine takes the first byte of its newest log that it cannot make out for the end, unless a
// later block of 32 KB says that more had reached the disk. The same is asked here of the chunks of
// the same block.
//
// A chunk, as package record of the engine writes it: checksum (4 bytes, the masked CRC-32C of what
// comes after the length), length of the data (2), type (1, from 9 to 12), number of the log (4),
// how many bytes of the log were on disk (8), data. Numbers are little end first. No chunk crosses
// the end of a block.
const (
	logBlock  = 32 << 10
	logHeader = 4 + 2 + 1 + 4 + 8
)

// chunkAt returns where the chunk at an offset ends, and how many bytes it knows to be on disk. It
// returns false if no chunk is there.
func chunkAt(log []byte, at int, number uint32) (end int, synced uint64, ok bool) {
	block := min(len(log), at-at%logBlock+logBlock)
	if at+logHeader > block {
		return 0, 0, false
	}
	h := log[at:]
	end = at + logHeader + int(binary.LittleEndian.Uint16(h[4:]))
	if h[6] < 9 || h[6] > 12 || binary.LittleEndian.Uint32(h[7:]) != number || end > block {
		return 0, 0, false
	}
	c := crc32.Checksum(log[at+6:end], castagnoli)
	if binary.LittleEndian.Uint32(h) != (c>>15|c<<17)+0xa282ead8 {
		return 0, 0, false
	}
	return end, binary.LittleEndian.Uint64(h[11:]), true
}

// checkLog looks for damage before what a log knows to have been on disk.
func checkLog(name string, log []byte) error {
	number, err := strconv.ParseUint(strings.TrimSuffix(name, ".log"), 10, 64)
	if err != nil {
		return nil // not the engine's
	}
	at := 0
	for at < len(log) {
		if left := logBlock - at%logBlock; left < logHeader {
			at += left
			continue
		}
		end, _, ok := chunkAt(log, at, uint32(number))
		if !ok {
			break
		}
		at = end
	}
	for later := at + 1; later+logHeader <= len(log); later++ {
		if _, synced, ok := chunkAt(log, later, uint32(number)); ok && synced > uint64(at) {
			return fmt.Errorf("%s is damaged at byte %d: %d bytes of it had been written. Nothing was changed", name, at, synced)
		}
	}
	return nil
}
