package removal

import (
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const envCutOff = "REMOVAL_TEST_CUT_OFF"

func TestMain(m *testing.M) {
	if os.Getenv(envCutOff) != "" {
		os.Exit(cutOffHelper())
	}
	testkit.Main(m)
}
