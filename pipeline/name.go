package pipeline

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
)

// maxExecutionName is the longest name of an execution in Step Functions.
const maxExecutionName = 80

// namePrefix is how much of the job id a name shows.
const namePrefix = 40

var nameCoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ExecutionName names the execution of an attempt: a readable part of the job id, a hash of the whole of it, and the attempt: "episode-17-mfzwi3lq6ytcm2lomfqxg5dfoi-1".
// Only letters, digits, - and _ are used, which Step Functions and its logs take; the hash, of 130 bits, keeps job ids apart that look alike there.
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
