package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// maxConfig bounds a configuration file.
const maxConfig = 1 << 20

// settings are a kubelet's settings, "" if not set.
type settings struct {
	Endpoint      string `yaml:"containerRuntimeEndpoint"`
	StaticPodPath string `yaml:"staticPodPath"`
	StaticPodURL  string `yaml:"staticPodURL"`
	Address       string `yaml:"address"`
	Port          string `yaml:"port"`
	TLSCertFile   string `yaml:"tlsCertFile"`
	Logging       struct {
		Format string `yaml:"format"`
	} `yaml:"logging"`
	CertDir, Hostname string `yaml:"-"` // only flags
}

// setting is a value of the configuration file, with the flag that overrides it.
type setting struct {
	flag  string
	value *string
}

func (s *settings) all() []setting {
	return []setting{
		{flagEndpoint, &s.Endpoint},
		{"pod-manifest-path", &s.StaticPodPath},
		{"manifest-url", &s.StaticPodURL},
		{"address", &s.Address},
		{"port", &s.Port},
		{"tls-cert-file", &s.TLSCertFile},
		{"logging-format", &s.Logging.Format},
		{"cert-dir", &s.CertDir},
		{"hostname-override", &s.Hostname},
	}
}

// configure reads the flags, and the configuration files that they name.
func (k *Kubelet) configure() {
	if k.flags, k.rootErr = k.kubeletFlags(); k.rootErr != nil {
		k.configErr = k.rootErr
		return
	}
	k.config, k.configErr = k.readConfig()
	for _, s := range k.config.all() {
		if v := k.flags.last(s.flag); v != "" {
			*s.value = v
		}
	}
}

// readConfig reads the kubelet's configuration file and then its drop-in directory, which overrides it.
func (k *Kubelet) readConfig() (settings, error) {
	var s settings
	if path := k.flags.last("config"); path != "" {
		if err := s.merge(k.files, path); err != nil {
			return settings{}, err
		}
		for _, p := range [...]*string{&s.StaticPodPath, &s.TLSCertFile} {
			if *p != "" && !filepath.IsAbs(*p) {
				// A relative path begins at the file's directory. This is not so in a drop-in.
				*p = filepath.Join(filepath.Dir(path), *p)
			}
		}
	}
	dropIns, err := k.dropIns()
	if err != nil {
		return settings{}, err
	}
	for _, path := range dropIns {
		if err := s.merge(k.files, path); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

// merge overrides settings by those of another file. An empty value sets nothing.
func (s *settings) merge(files kubeletFiles, path string) error {
	text, err := files.read(path)
	if err != nil {
		return err
	}
	var next settings
	// JSON, which the kubelet also accepts, is YAML.
	if err := yaml.Unmarshal(text, &next); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	now := s.all()
	for i, f := range next.all() {
		if *f.value != "" {
			*now[i].value = *f.value
		}
	}
	return nil
}

// dropIns lists the files of the kubelet's drop-in directory, in order.
//
// Since 1.32 k3s has its own in its data directory. It writes its defaults there, such as the
// runtime's endpoint, and copies there the files that the user's kubelet-arg=config and config-dir
// name. So this directory wins if it exists.
func (k *Kubelet) dropIns() ([]string, error) {
	var all []string
	var err error
	dir := k.flags.last("config-dir")
	if k.name == nameK3s {
		own := filepath.Join(k.flags.last(flagDataDir), "agent", "etc", "kubelet.conf.d")
		if all, err = k.files.below(own, 0); err == nil {
			dir = ""
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if dir != "" {
		if all, err = k.files.below(dir, 0); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(path string) bool { return filepath.Ext(path) != ".conf" }), nil
}

// findRootDir returns --root-dir. A relative path begins at the process's working directory, the
// link cwd.
func (k *Kubelet) findRootDir(cwd string) (string, error) {
	dir := k.flags.last("root-dir")
	switch {
	case dir == "" && k.name == nameKubelite:
		return microk8sRootDir, nil
	case dir == "":
		return DefaultRootDir, nil
	case filepath.IsAbs(dir):
		return filepath.Clean(dir), nil
	}
	base, err := os.Readlink(cwd)
	return filepath.Join(base, dir), err
}

// endpoint returns the configured CRI endpoint, "" for none. A flag overrides the configuration file, so it counts even if
// that cannot be read.
func (k *Kubelet) endpoint() (string, error) {
	if k.config.Endpoint != "" {
		return k.config.Endpoint, nil
	}
	return "", k.configErr
}

// logFormat returns the format in which the kubelet logs (component-base/logs/api/v1). A kubelet that
// hides its command line may have a flag for it.
func (k *Kubelet) logFormat() policy.LogFormat {
	switch named := policy.LogFormat(k.config.Logging.Format); {
	case named == policy.LogText, named == policy.LogJSON:
		return named
	case named == "" && k.configErr == nil && !k.hidden:
		return policy.LogText // the default
	}
	return policy.LogUnknown
}

// manifestPaths returns the paths of static pods' manifests. k3s uses agent/pod-manifests in its data directory unless the
// user configured another path, and hides its command line. So both count.
func (k *Kubelet) manifestPaths() (paths []string, err error) {
	if path := k.config.StaticPodPath; path != "" {
		paths = append(paths, path)
	}
	if k.name == nameK3s {
		paths = append(paths, filepath.Join(k.flags.last(flagDataDir), "agent", "pod-manifests"))
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("cannot find out where its static pods' path %q begins", path)
		}
	}
	return slices.Compact(paths), k.configErr
}
