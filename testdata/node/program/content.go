package program

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	precious  = "precious\n" // the content of a user's file
	csiDriver = "csi.example.com"
	subpath   = "volume-subpaths/data/app/0"
)

// volume is a volume in a pod's directory.
type volume struct {
	plugin, name string
	target       string // the mount point, below the pod's directory
}

func newCSI(name string) volume {
	return volume{"kubernetes.io~csi", name, "volumes/kubernetes.io~csi/" + name + "/mount"}
}

func (v volume) isCSI() bool { return v.plugin == "kubernetes.io~csi" }

// uniqueName is the volume's name in the kubelet's log.
func (v volume) uniqueName(uid string) string {
	if v.isCSI() {
		return "kubernetes.io/csi/" + csiDriver + "^" + v.handle()
	}
	return "kubernetes.io/" + strings.TrimPrefix(v.plugin, "kubernetes.io~") + "/" + uid + "-" + v.name
}

func (v volume) handle() string { return "vol-" + v.name }

// fill makes the pod's directory: what a kubelet writes for each pod, and what the words say.
func (p *pod) fill() error {
	w := writer{dir: p.dir}
	w.file("etc-hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n10.88.0.7\t"+p.Name+"\n")
	w.file("containers/app/"+hexID("termination-log", p.UID)[:8], "")
	w.mkdir("plugins")
	w.mkdir("volumes")
	for _, word := range p.Words {
		p.fillWord(&w, word)
	}
	return w.err
}

func (p *pod) fillWord(w *writer, word string) {
	switch word {
	case "csi":
		p.addCSI(w, "pvc-"+p.Name)
	case "csi-data":
		v := p.addCSI(w, "pvc-data-"+p.Name)
		w.file(v.target+"/precious", precious)
	case "nfs-data":
		v := p.addVolume("nfs", "share")
		w.file(v.target+"/precious", precious)
	case "emptydir", "files":
		p.fillEmptyDir(w)
	case "secret":
		p.fillSecret(w)
	case "subpath", "mount-subpath":
		w.file(subpath+"/precious", precious)
	case "block":
		// What is left of a block volume: the file over which the device was bound, and the kubelet's data of it.
		w.file("volumeDevices/kubernetes.io~csi/pvc-block-"+p.Name, "")
		plugin := writer{dir: filepath.Join(p.dir, "../../plugins/kubernetes.io/csi/volumeDevices/pvc-block-"+p.Name)}
		plugin.file("data/vol_data.json", volData("pvc-block-"+p.Name))
		plugin.file("dev/"+p.UID, "")
		if w.err == nil {
			w.err = plugin.err
		}
	}
}

func (p *pod) addVolume(plugin, name string) volume {
	v := volume{"kubernetes.io~" + plugin, name, "volumes/kubernetes.io~" + plugin + "/" + name}
	if !slices.Contains(p.volumes, v) {
		p.volumes = append(p.volumes, v)
	}
	return v
}

func (p *pod) addCSI(w *writer, name string) volume {
	v := newCSI(name)
	p.volumes = append(p.volumes, v)
	w.file(filepath.Dir(v.target)+"/vol_data.json", volData(name))
	w.mkdir(v.target)
	return v
}

// volData returns the vol_data.json of a CSI volume.
func volData(name string) string {
	text, _ := json.Marshal(map[string]string{ // strings have no errors
		"attachmentID": "csi-" + hexID(name), "driverName": csiDriver, "nodeName": "node-1", "specVolID": name,
		"volumeHandle": volume{name: name}.handle(), "volumeLifecycleMode": "Persistent",
	})
	return string(text)
}

func (p *pod) fillEmptyDir(w *writer) {
	v := p.addVolume("empty-dir", "cache")
	w.emptyDir(v)
	w.file(v.target+"/precious", precious)
	for i := range p.Files {
		w.file(fmt.Sprintf("%s/file-%06d", v.target, i), "")
	}
}

// fillSecret makes a secret as the kubelet's atomic writer does.
func (p *pod) fillSecret(w *writer) {
	v := p.addVolume("secret", "token")
	w.file("plugins/kubernetes.io~empty-dir/wrapped_"+v.name+"/ready", "")
	w.file(v.target+"/..2026_11_20_10_15_42.1803725113/token", "s3cret")
	w.symlink("..2026_11_20_10_15_42.1803725113", v.target+"/..data")
	w.symlink("..data/token", v.target+"/token")
}

// stagingDir makes the directory in which a CSI driver stages the pod's first CSI volume. Kubelets before 1.24 name it
// after the volume, later ones after a hash of its handle (pkg/volume/csi/csi_attacher.go).
func (n *node) stagingDir(p *pod) (string, error) {
	v := p.volumes[slices.IndexFunc(p.volumes, volume.isCSI)]
	name := csiDriver + "/" + hexID(v.handle())
	if n.Kubelet == "1.19" {
		name = "pv/" + v.name
	}
	w := writer{dir: n.root + "/plugins/kubernetes.io/csi/" + name}
	w.file("vol_data.json", volData(v.name))
	w.mkdir("globalmount")
	return w.dir + "/globalmount", w.err
}

// writer writes files below a directory until an error.
type writer struct {
	dir string
	err error
}

func (w *writer) mkdir(rel string) {
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Join(w.dir, rel), 0o750)
	}
}

func (w *writer) file(rel, text string) {
	w.mkdir(filepath.Dir(rel))
	if w.err == nil {
		w.err = os.WriteFile(filepath.Join(w.dir, rel), []byte(text), 0o644)
	}
}

func (w *writer) symlink(target, rel string) {
	if w.err == nil {
		_ = os.Remove(filepath.Join(w.dir, rel)) // of an earlier node in this directory
		w.err = os.Symlink(target, filepath.Join(w.dir, rel))
	}
}

// emptyDir sets up an emptyDir as a kubelet does.
func (w *writer) emptyDir(v volume) {
	w.mkdir(v.target)
	w.file("plugins/kubernetes.io~empty-dir/"+v.name+"/ready", "")
	if w.err == nil {
		w.err = os.Chmod(filepath.Join(w.dir, v.target), 0o777)
	}
}
