package cluster

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
)

// The addresses of the cluster. The service's address is not translated: it is one of the bridge's, and the API
// server listens on the service's port.
const (
	bridge        = "orcluster0"
	bridgeAddress = "10.213.78.1"
	serviceIP     = "10.96.0.1"
	serviceRange  = "10.96.0.0/24"
	apiServer     = "https://" + bridgeAddress + ":443"
)

// cluster is a control plane with its nodes.
type cluster struct {
	dir        string
	ca         *authority
	admin      string // the administrator's kubeconfig
	apiserver  *process
	nodes      []*node
	fleetFlags []string // for a user of fleet
}

// newCluster starts a cluster and waits until its nodes are ready.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: place, ca: newAuthority(t, mkdir(t, filepath.Join(place, "pki")))}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", bridgeAddress + "/24", "dev", bridge},
		{"address", "add", serviceIP + "/32", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		command(t, append([]string{"ip"}, args...)...)
	}
	c.admin = c.ca.kubeconfig(t, "admin", "admin", "system:masters")
	for i, name := range []string{"node-a", "node-b", "node-c"} {
		c.nodes = append(c.nodes, c.boot(t, name, i))
	}
	c.controlPlane(t)
	for _, n := range c.nodes {
		n.start(t)
	}
	c.nodesReady(t)
	return c
}

// nodesReady waits until all nodes are ready.
func (c *cluster) nodesReady(t *testing.T) {
	t.Helper()
	c.kubectlEventually(t, "the nodes are ready", func() string {
		out, err := c.try("get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`)
		return missing(err == nil && strings.TrimSpace(out) == "node-a=True node-b=True node-c=True", "%s%v\n%s", out, err, c.nodes[0].kubeletTail())
	})
}

func (c *cluster) controlPlane(t *testing.T) {
	t.Helper()
	etcd := launch(t, "etcd", "etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380")
	sa := lay(t, c.ca.file("sa.key"), kit.KeyPEM(t, kit.NewKey(t)))
	crt, key := c.ca.sign(t, "apiserver", "kube-apiserver", nil,
		bridgeAddress, serviceIP, "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	client, clientKey := c.ca.sign(t, "apiserver-kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"})
	c.apiserver = launch(t, "kube-apiserver", filepath.Join(bin, "kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379", "--advertise-address="+bridgeAddress, "--bind-address=0.0.0.0", "--secure-port=443",
		"--service-cluster-ip-range="+serviceRange, "--tls-cert-file="+crt, "--tls-private-key-file="+key, "--client-ca-file="+c.ca.file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+sa, "--service-account-signing-key-file="+sa,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--anonymous-auth=false",
		"--kubelet-client-certificate="+client, "--kubelet-client-key="+clientKey, "--kubelet-certificate-authority="+c.ca.file("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP", "--allow-privileged=false")
	c.apiReady(t, etcd)
	launch(t, "kube-controller-manager", filepath.Join(bin, "kube-controller-manager"),
		"--kubeconfig="+c.ca.kubeconfig(t, "kube-controller-manager", "system:kube-controller-manager"), "--leader-elect=false", "--bind-address=127.0.0.1",
		"--use-service-account-credentials", "--service-account-private-key-file="+sa, "--root-ca-file="+c.ca.file("ca.crt"))
	launch(t, "kube-scheduler", filepath.Join(bin, "kube-scheduler"),
		"--kubeconfig="+c.ca.kubeconfig(t, "kube-scheduler", "system:kube-scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1")
}

// apiReady waits until the API server responds, while it and these processes run.
func (c *cluster) apiReady(t *testing.T, with ...*process) {
	t.Helper()
	eventually(t, patience, func() string {
		for _, p := range append(with, c.apiserver) {
			if !p.Running() {
				t.Fatalf("%s ended: %s", p.name, p.Tail(12))
			}
		}
		_, err := c.try("get", "--raw", "/readyz")
		return missing(err == nil, "%v", err)
	})
}

func (c *cluster) node(t *testing.T, name string) *node {
	t.Helper()
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	t.Fatalf("there is no node %q", name)
	return nil
}

// try runs kubectl as the administrator.
func (c *cluster) try(args ...string) (string, error) {
	return try(append([]string{filepath.Join(bin, "kubectl"), "--kubeconfig", c.admin, "--request-timeout=20s"}, args...)...)
}

// kubectl is try for commands that must succeed.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubectlEventually waits for a state of the cluster; missing returns the difference from it.
func (c *cluster) kubectlEventually(t *testing.T, what string, missing func() string) {
	t.Helper()
	eventually(t, patience, func() string {
		if m := missing(); m != "" {
			return what + ": " + m
		}
		return ""
	})
}

// apply applies objects in YAML.
func (c *cluster) apply(t *testing.T, yaml string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "kubectl"), "--kubeconfig", c.admin, "apply", "-f", "-")
	cmd.Env = []string{"HOME=" + place}
	cmd.Stdin = strings.NewReader(yaml)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v: %s", err, out)
	}
}

// pod is the part of a Pod that the suite reads.
type pod struct {
	Metadata struct {
		Name, Namespace, UID, DeletionTimestamp string
		CreationTimestamp                       time.Time
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase             string
		ContainerStatuses []struct {
			Ready        bool
			RestartCount int
			ContainerID  string
		}
	}
}

func (p pod) ready() bool {
	return p.Status.Phase == "Running" && p.Metadata.DeletionTimestamp == "" && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready
}

// pods returns the pods of a namespace with the label.
func (c *cluster) pods(t *testing.T, namespace, selector string) []pod {
	t.Helper()
	var list struct{ Items []pod }
	if err := json.Unmarshal([]byte(c.kubectl(t, "get", "pods", "--namespace", namespace, "--selector", selector, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func encoded(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}
