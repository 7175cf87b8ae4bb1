package ui

import "github.com/orphan-reaper/orphan-reaper/reaper/policy"

// Facts say what each fact asks.
var Facts = [policy.NumFacts]string{
	policy.FactDirectory:    "a directory",
	policy.FactOwnMount:     "a mount point",
	policy.FactMounted:      "mounts below it",
	policy.FactSandbox:      "sandbox",
	policy.FactContainer:    "container",
	policy.FactCgroup:       "cgroup",
	policy.FactNamed:        "named as orphan",
	policy.FactAnyNamed:     "any orphan named",
	policy.FactTeardown:     "kubelet holds it",
	policy.FactKubeletFile:  "in kubelet's files",
	policy.FactKubeletLists: "in kubelet's list",
	policy.FactAPILists:     "in API's list",
	policy.FactReleased:     "list without it",
	policy.FactStaticPod:    "static pod's own",
	policy.FactStaged:       "volume staged",
	policy.FactInUse:        "files in use",
	policy.FactRestored:     "restored before",
	policy.FactContent:      "content read",
	policy.FactPodLogs:      "kubelet keeps logs",
	policy.FactPodResources: "kubelet lists name",
	policy.FactRemade:       "made again",
	policy.FactUsed:         "new one in use",
}
