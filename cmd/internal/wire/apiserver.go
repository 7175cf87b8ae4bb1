package wire

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// APIServer says which API server a person's command asks.
type APIServer struct {
	Kubeconfig string // "" to find it as kubectl does
	Env        func(string) string
	AccountDir string // of a pod's service account, "" for the usual one
	Instead    string // what to do with a kubeconfig that is not used, "" for a pod
}

// open returns the server of the kubeconfig that was named, else of $KUBECONFIG, else of ~/.kube/config,
// else of the cluster that this is a pod of.
func (a *APIServer) open(now time.Time) (*kube.Server, error) {
	file := a.Kubeconfig
	if file == "" {
		var err error
		if file, err = a.usual(); err != nil {
			return nil, err
		}
	}
	if file == "" {
		if a.Env("KUBERNETES_SERVICE_HOST") == "" {
			return nil, exit.Usagef("name a kubeconfig with --kubeconfig",
				"no API server is named: there is no KUBECONFIG and no ~/.kube/config, and this is no pod")
		}
		return kube.InCluster(cmp.Or(a.AccountDir, kube.ServiceAccountDir), a.Env)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	s, err := kube.ReadConfig(file, now)
	if refused, ok := errors.AsType[*kube.RefusedError](err); ok {
		return nil, &exit.Error{
			Code: exit.UsageCode, Err: refused,
			Hint: cmp.Or(a.Instead, "run it as a pod in the cluster, or use a kubeconfig with a token: kubectl create token SERVICEACCOUNT (docs/fleet.md)"),
		}
	}
	return s, err
}

// usual returns the kubeconfig that kubectl would take, "" where there is none.
func (a *APIServer) usual() (string, error) {
	if list := strings.Trim(a.Env("KUBECONFIG"), ":"); strings.Contains(list, ":") {
		return "", exit.Usagef("name one of them with --kubeconfig, or make one of them: kubectl config view --flatten",
			"KUBECONFIG names several files, which are not merged here")
	} else if list != "" {
		return list, nil
	}
	home := a.Env("HOME")
	if home == "" {
		return "", nil
	}
	file := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return file, nil
}
