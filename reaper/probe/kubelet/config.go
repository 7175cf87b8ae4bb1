package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// kubeletConfig is what we need to know of a kubelet's configuration file.
type kubeletConfig struct {
	Endpoint      string `yaml:"containerRuntimeEndpoint"`
	StaticPodPath string `yaml:"staticPodPath"`
	StaticPodURL  string `yaml:"staticPodURL"`
	PodLogsDir    string `yaml:"podLogsDir"` // since 1.29
	Logging       struct {
		Format string `yaml:"format"`
	} `yaml:"logging"`
	kubeletServing `yaml:",inline"`
}

// configured reads the kubelet's configuration file and then its drop-in directory, which
// wins where it says something.
func (k Kubelet) configured() (kubeletConfig, error) {
	var c kubeletConfig
	if path := k.flags.last("config"); path != "" {
		if err := c.merge(k.files, path); err != nil {
			return kubeletConfig{}, err
		}
		for _, p := range [...]*string{&c.StaticPodPath, &c.TLSCertFile} {
			if *p != "" && !filepath.IsAbs(*p) {
				// In the file itself, not in a drop-in, relative paths begin where the file lies.
				*p = filepath.Join(filepath.Dir(path), *p)
			}
		}
	}
	dropIns, err := k.dropIns()
	if err != nil {
		return kubeletConfig{}, err
	}
	for _, path := range dropIns {
		if err := c.merge(k.files, path); err != nil {
			return kubeletConfig{}, err
		}
	}
	return c, nil
}

// dropIns lists the files of the kubelet's drop-in directory, in their order.
//
// k3s has had one in its own data directory since 1.32. It writes its defaults there, the
// runtime's endpoint among them, and copies there what the user's kubelet-arg=config and
// config-dir name; so that one counts where it is.
func (k Kubelet) dropIns() ([]string, error) {
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

func (c *kubeletConfig) merge(files kubeletFiles, path string) error {
	b, err := files.read(path)
	if err != nil {
		return err
	}
	next := *c // what is not in the file stays
	// JSON, which the kubelet also takes, is YAML.
	if err := yaml.Unmarshal(b, &next); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	c.kubeletServing.merge(next.kubeletServing)
	// An empty value says nothing: what was named before still counts.
	for _, v := range [...]struct{ now, next *string }{
		{&c.Endpoint, &next.Endpoint},
		{&c.StaticPodPath, &next.StaticPodPath},
		{&c.StaticPodURL, &next.StaticPodURL},
		{&c.PodLogsDir, &next.PodLogsDir},
		{&c.Logging.Format, &next.Logging.Format},
	} {
		if *v.next != "" {
			*v.now = *v.next
		}
	}
	return nil
}

// runtimeEndpoint returns the CRI endpoint that the kubelet was told to use, "" where it
// was told none. The flag wins over the drop-in directory, and that over the file.
func (k Kubelet) runtimeEndpoint() (string, error) {
	if e := k.flags.last("container-runtime-endpoint"); e != "" {
		return e, nil
	}
	c, err := k.configured()
	return c.Endpoint, err
}

// logsIn returns the format in which the kubelet logs. The flag wins over the configuration
// (component-base/logs/api/v1); a kubelet that hides its command line may have been given one.
func (k Kubelet) logsIn() policy.LogFormat {
	named := k.flags.last("logging-format")
	if named == "" {
		c, err := k.configured()
		if err != nil || k.rootErr != nil {
			return policy.LogUnknown
		}
		named = c.Logging.Format
	}
	switch named {
	case string(policy.LogText), string(policy.LogJSON):
		return policy.LogFormat(named)
	case "":
		if !k.hidden {
			return policy.LogText // the default
		}
	}
	return policy.LogUnknown
}

// manifestSource is where a kubelet has its static pods from.
type manifestSource struct {
	paths []string
	url   string
}

// manifestSource returns where the kubelet was told to find static pods.
//
// k3s tells its kubelet to use agent/pod-manifests in its own data directory unless the
// user named another place, and hides its command line; so both places count there.
func (k Kubelet) manifestSource() (manifestSource, error) {
	c, err := k.configured()
	if err != nil {
		return manifestSource{}, err
	}
	s := manifestSource{url: c.StaticPodURL}
	if u := k.flags.last("manifest-url"); u != "" {
		s.url = u
	}
	path := c.StaticPodPath
	if p := k.flags.last("pod-manifest-path"); p != "" {
		path = p
	}
	if path != "" {
		s.paths = append(s.paths, path)
	}
	if own := filepath.Join(k.flags.last(flagDataDir), "agent", "pod-manifests"); k.name == nameK3s && own != path {
		s.paths = append(s.paths, own)
	}
	for _, path := range s.paths {
		if !filepath.IsAbs(path) {
			return manifestSource{}, fmt.Errorf("cannot find out where its static pods' path %q begins", path)
		}
	}
	return s, nil
}
