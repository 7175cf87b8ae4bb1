package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// The paths and flags of microk8s and k3s.
const (
	microk8sCommon  = "/var/snap/microk8s/common"
	microk8sData    = "/var/snap/microk8s/current"
	microk8sRootDir = microk8sCommon + "/var/lib/kubelet"
	k3sConfig       = "/etc/rancher/k3s/config.yaml"
	k3sDataDir      = "/var/lib/rancher/k3s"
	flagDataDir     = "data-dir" // k3s's own flag, added to its kubelet's flags here
	flagEndpoint    = "container-runtime-endpoint"
)

// kubeletFlags returns the flags of the kubelet itself.
func (k *Kubelet) kubeletFlags() (flags, error) {
	switch own := flags(k.args); k.name {
	case nameKubelite:
		return k.kubeliteFlags(own)
	case nameK3s:
		return k.k3sFlags(own)
	default:
		return own, nil
	}
}

// kubeliteFlags reads microk8s's file of kubelet arguments: one per line, with the snap's variables.
func (k *Kubelet) kubeliteFlags(own flags) (flags, error) {
	path := own.last("kubelet-args-file")
	if path == "" {
		return own, nil
	}
	text, err := k.files.read(path)
	if err != nil {
		return nil, err
	}
	snap := map[string]string{"SNAP": "/snap/microk8s/current", "SNAP_COMMON": microk8sCommon, "SNAP_DATA": microk8sData}
	var f flags
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(os.Expand(line, func(name string) string { return snap[name] }))
		end := strings.IndexAny(line, "= ")
		switch {
		case line == "" || line[0] == '#':
		case end < 0:
			f = append(f, line+"=")
		default:
			f = append(f, line[:end]+"="+strings.Trim(line[end+1:], `"'`))
		}
	}
	return f, nil
}

// k3sSettings are the settings of k3s's configuration files for its kubelet.
type k3sSettings struct {
	KubeletArg any    `yaml:"kubelet-arg"`  // a list or one string
	More       any    `yaml:"kubelet-arg+"` // the same, added to the lists of other files
	Endpoint   string `yaml:"container-runtime-endpoint"`
	DataDir    string `yaml:"data-dir"`
}

// k3sFlags returns the kubelet's flags by k3s's configuration files and its command line, which comes last and wins.
// k3s hides its command line after its start: then only the files have a root directory.
func (k *Kubelet) k3sFlags(own flags) (flags, error) {
	path := own.last("config")
	named := path != ""
	if !named {
		path = k3sConfig
	}
	dropIns, err := k.files.list(path+".d", mostFiles)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	paths := []string{path}
	for _, e := range dropIns {
		if ext := strings.ToLower(filepath.Ext(e.Name)); e.Kind != unix.DT_DIR && (ext == ".yaml" || ext == ".yml") {
			paths = append(paths, filepath.Join(path+".d", e.Name))
		}
	}
	f := flags{"--" + flagDataDir + "=" + k3sDataDir}
	for _, path := range paths {
		text, err := k.files.read(path)
		if errors.Is(err, fs.ErrNotExist) && !named {
			continue
		}
		var s k3sSettings
		if err == nil {
			err = yaml.Unmarshal(text, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		f = f.ofK3s(s.DataDir, s.Endpoint, append(stringsOf(s.KubeletArg), stringsOf(s.More)...))
	}
	return f.ofK3s(own.last(flagDataDir), own.last(flagEndpoint), own.all("kubelet-arg")), nil
}

func (f flags) ofK3s(dataDir, endpoint string, kubeletArgs []string) flags {
	for _, arg := range kubeletArgs {
		f = append(f, "--"+strings.TrimLeft(arg, "-"))
	}
	if dataDir != "" {
		f = append(f, "--"+flagDataDir+"="+dataDir)
	}
	if endpoint != "" {
		f = append(f, "--"+flagEndpoint+"="+endpoint)
	}
	return f
}

// stringsOf returns the strings of a YAML value that is a list or one of them.
func stringsOf(v any) (all []string) {
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return all
}
