package remove

import (
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	envCutOff = "CNI_TEST_CUT_OFF"
	envHolder = "CNI_TEST_HOLDER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envHolder) != "":
		os.Exit(holdHelper(os.Getenv(envHolder)))
	case os.Getenv(envCutOff) != "":
		os.Exit(cutOffHelper())
	}
	testkit.Main(m)
}
