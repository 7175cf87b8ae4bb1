package remove

import (
	"os"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

const (
	envCutOff = "CNI_TEST_CUT_OFF"
	envPlugin = "CNI_TEST_PLUGIN"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envPlugin) != "":
		os.Exit(pluginHelper(os.Getenv(envPlugin)))
	case os.Getenv(envCutOff) != "":
		os.Exit(cutOffHelper())
	}
	testkit.Main(m)
}
