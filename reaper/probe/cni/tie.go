package cni

import (
	"path/filepath"

	"github.com/orphan-reaper/orphan-reaper/parsers/cni"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
	cnipolicy "github.com/orphan-reaper/orphan-reaper/reaper/policy/cni"
)

// tie says which container a file belongs to, by what is in it.
func tie(f *cnipolicy.File, x *fileExtra, text []byte) {
	switch f.Kind {
	case cnipolicy.Cache:
		tieCache(f, x, cni.ParseCache(f.Name, text))
	case cnipolicy.Multus:
		tieCache(f, x, cni.ParseScratch(f.Name, text))
	case cnipolicy.Flannel:
		tieCache(f, x, cni.ParseScratch(f.Name, text))
		// It is the configuration of one network, which flannel wrote for its delegate.
		if networks, err := cni.ParseNetConf(text, ""); err == nil {
			f.Network = networks[0].Name
		}
	case cnipolicy.Address:
		tieAddress(f, text)
	}
}

// tieCache takes over what a cache file says. Only whole IDs are taken: nothing is ever
// compared by a prefix.
func tieCache(f *cnipolicy.File, x *fileExtra, told cni.File) {
	f.Container, f.Network, f.IfName = told.ContainerID, told.Network, told.IfName
	f.UID, f.Namespace, f.PodName = told.PodUID, told.PodNamespace, told.PodName
	f.Broken = told.Kind == cni.Empty || told.Kind == cni.Unreadable
	x.netns, x.sandbox, x.tells = told.NetNS, told.Sandbox, told.Kind == cni.CacheV1
	switch {
	case told.Untied != "":
		f.Container = ""
		f.Set(cnipolicy.Tied, policy.No, f.Dir, untiedWords[told.Untied])
	case !cni.IsContainerID(told.ContainerID):
		f.Container = ""
		f.Set(cnipolicy.Tied, policy.No, f.Dir, "its container's ID is none that the kubelet's runtimes give")
	default:
		f.Set(cnipolicy.Tied, policy.Yes, f.Dir, "")
	}
}

var untiedWords = map[cni.Untied]string{
	cni.UntiedName:          "its name does not hold exactly one container ID, or is not what its content asks for",
	cni.UntiedContradiction: "it contradicts itself",
	cni.UntiedContent:       "a value in it is missing or of the wrong kind",
	cni.UntiedSize:          "it is longer or nested deeper than any that is known",
}

func tieAddress(f *cnipolicy.File, text []byte) {
	told, ok := cni.ParseHostLocal(f.Name, text)
	f.Container, f.Network, f.IfName = told.ContainerID, filepath.Base(f.Dir), told.IfName
	switch {
	case !ok:
		f.Set(cnipolicy.Tied, policy.No, f.Dir, "its name is no address")
	case !cni.IsContainerID(told.ContainerID):
		f.Container = ""
		f.Set(cnipolicy.Tied, policy.No, f.Dir, "its content names no container of the kubelet's runtimes")
	default:
		f.Set(cnipolicy.Tied, policy.Yes, f.Dir, "")
	}
}
