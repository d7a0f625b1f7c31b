package pipeline

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
)

// namePrefix is how many characters of the job id a name shows.
const namePrefix = 40

var nameCoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ExecutionName names the execution of an attempt. The name is the beginning of the job id, a hash
// of the whole id, and the attempt: "episode-17-mfzwi3lq6ytcm2lomfqxg5dfoi-1".
//
// It has only letters, digits, - and _, which Step Functions and its logs take, and at most 72 of
// them, of the 80 that a name may have. Other characters of the id become -. The hash has 130 bits
// and keeps apart the ids that look alike then.
func ExecutionName(jobID string, attempt int) string {
	sum := sha256.Sum256([]byte(jobID))
	hash := nameCoding.EncodeToString(sum[:])[:26]
	prefix := make([]byte, 0, namePrefix)
	for _, r := range jobID {
		if len(prefix) == namePrefix {
			break
		}
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			prefix = append(prefix, byte(r))
		} else {
			prefix = append(prefix, '-')
		}
	}
	return string(prefix) + "-" + hash + "-" + strconv.Itoa(attempt)
}
