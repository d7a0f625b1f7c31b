package pipeline_test

import (
	"testing"

	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/jobstest"
)

func TestJobsInMemory(t *testing.T) {
	jobstest.Run(t, func(*testing.T) pipeline.Jobs { return &pipeline.Memory{} })
}
