package app

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"github.com/orphan-reaper/orphan-reaper/cmd/internal/exit"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// APIServer selects the API server of an operator's command.
type APIServer struct {
	Kubeconfig string // "" to find it as kubectl does
	Context    string // "" for the current one
	Env        func(string) string
	Instead    string // what to do with a kubeconfig that is not used, "" for a pod
}

// open returns the server of the kubeconfig that was named, else of $KUBECONFIG, else of ~/.kube/config,
// else of the cluster that this is a pod of.
func (a *APIServer) open(now time.Time) (*kube.Server, error) {
	var list []string
	if a.Kubeconfig == "" {
		list = filepath.SplitList(a.Env("KUBECONFIG"))
		if home := a.Env("HOME"); len(list) == 0 && home != "" {
			list = []string{filepath.Join(home, ".kube", "config")}
		}
	}
	s, err := kube.ReadPersonal(a.Kubeconfig, list, a.Context, now)
	switch refused, ok := errors.AsType[*kube.RefusedError](err); {
	case ok:
		return nil, &exit.Error{
			Code: exit.UsageCode, Err: refused,
			Hint: cmp.Or(a.Instead, "run it as a pod in the cluster, or use a kubeconfig with a token: kubectl create token SERVICEACCOUNT (docs/fleet.md)"),
		}
	case err != nil || s != nil:
		return s, err
	case a.Env("KUBERNETES_SERVICE_HOST") == "":
		return nil, exit.Usagef("name a kubeconfig with --kubeconfig",
			"no API server is named: there is no KUBECONFIG and no ~/.kube/config, and this is no pod")
	}
	return kube.InCluster(now)
}
