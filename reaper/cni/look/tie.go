package look

import (
	"path/filepath"

	"github.com/orphan-reaper/orphan-reaper/parsers"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/cni/parse"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// tie says which container a file belongs to, by what is in it.
func tie(f *cni.File, x *fileExtra, text []byte) {
	switch f.Kind {
	case cni.Cache:
		tieCache(f, x, parse.ParseCache(f.Name, text))
	case cni.Multus:
		tieCache(f, x, parse.ParseScratch(f.Name, text))
	case cni.Flannel:
		tieCache(f, x, parse.ParseScratch(f.Name, text))
		// It is the configuration of one network, which flannel wrote for its delegate.
		if networks, err := parse.ParseNetConf(text, ""); err == nil {
			f.Network = networks[0].Name
		}
	case cni.Address:
		tieAddress(f, text)
	}
}

// tieCache takes over what a cache file says. Only whole IDs are taken: nothing is ever
// compared by a prefix.
func tieCache(f *cni.File, x *fileExtra, told parse.File) {
	f.Container, f.Network, f.IfName = told.ContainerID, told.Network, told.IfName
	f.UID, f.Namespace, f.PodName = told.PodUID, told.PodNamespace, told.PodName
	f.Broken = told.Kind == parse.Empty || told.Kind == parse.Unreadable
	x.netns, x.sandbox, x.tells = told.NetNS, told.Sandbox, told.Kind == parse.CacheV1
	switch {
	case told.Untied != "":
		f.Container = ""
		f.Set(cni.Tied, policy.No, f.Dir, untiedWords[told.Untied])
	case !parsers.IsContainerID(told.ContainerID):
		f.Container = ""
		f.Set(cni.Tied, policy.No, f.Dir, "its container's ID is none that the kubelet's runtimes give")
	default:
		f.Set(cni.Tied, policy.Yes, f.Dir, "")
	}
}

var untiedWords = map[parse.Untied]string{
	parse.UntiedName:          "its name does not hold exactly one container ID, or is not what its content asks for",
	parse.UntiedContradiction: "it contradicts itself",
	parse.UntiedContent:       "a value in it is missing or of the wrong kind",
	parse.UntiedSize:          "it is longer or nested deeper than any that is known",
}

func tieAddress(f *cni.File, text []byte) {
	told, ok := parse.ParseHostLocal(f.Name, text)
	f.Container, f.Network, f.IfName = told.ContainerID, filepath.Base(f.Dir), told.IfName
	switch {
	case !ok:
		f.Set(cni.Tied, policy.No, f.Dir, "its name is no address")
	case !parsers.IsContainerID(told.ContainerID):
		f.Container = ""
		f.Set(cni.Tied, policy.No, f.Dir, "its content names no container of the kubelet's runtimes")
	default:
		f.Set(cni.Tied, policy.Yes, f.Dir, "")
	}
}
