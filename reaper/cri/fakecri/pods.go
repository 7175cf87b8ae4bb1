package fakecri

import (
	"cmp"
	"net"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod is a pod with one sandbox.
type Pod struct {
	UID, Namespace, Name string
	ID                   string // of the sandbox, "" for one that contains the UID
	Created              int64  // nanoseconds since the epoch
	Static               bool   // from a manifest on the node
	NotReady             bool   // the sandbox has stopped and is still listed
	Running              int    // running containers
	Exited               int    // containers that have exited and are still listed
}

// Sandbox returns the pod's sandbox, with the labels and annotations of a real one.
func (p Pod) Sandbox() *runtimeapi.PodSandbox {
	state := runtimeapi.PodSandboxState_SANDBOX_READY
	if p.NotReady {
		state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	annotations := map[string]string{"kubernetes.io/config.source": "api"}
	if p.Static {
		annotations = map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": p.UID}
	}
	return &runtimeapi.PodSandbox{
		Id:          p.sandboxID(),
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: p.Name, Uid: p.UID, Namespace: p.Namespace},
		State:       state,
		CreatedAt:   p.Created,
		Labels:      p.labels(),
		Annotations: annotations,
	}
}

// Containers returns the pod's containers, the running ones first.
func (p Pod) Containers() []*runtimeapi.Container {
	var list []*runtimeapi.Container
	for i := range p.Running + p.Exited {
		state := runtimeapi.ContainerState_CONTAINER_RUNNING
		if i >= p.Running {
			state = runtimeapi.ContainerState_CONTAINER_EXITED
		}
		labels := p.labels()
		labels["io.kubernetes.container.name"] = "main"
		list = append(list, &runtimeapi.Container{
			Id:           "container-of-" + p.UID,
			PodSandboxId: p.sandboxID(),
			Metadata:     &runtimeapi.ContainerMetadata{Name: "main"},
			State:        state,
			CreatedAt:    p.Created,
			Labels:       labels,
		})
	}
	return list
}

func (p Pod) sandboxID() string { return cmp.Or(p.ID, "sandbox-of-"+p.UID) }

func (p Pod) labels() map[string]string {
	return map[string]string{
		"io.kubernetes.pod.uid":       p.UID,
		"io.kubernetes.pod.namespace": p.Namespace,
		"io.kubernetes.pod.name":      p.Name,
	}
}

// cutListener accepts connections that end after a number of bytes.
type cutListener struct {
	net.Listener
	after int
}

// Accept waits for the next connection.
func (l cutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: c, left: l.after}, nil
}

// cutConn closes itself after so many bytes. gRPC writes from one goroutine.
type cutConn struct {
	net.Conn
	left int
}

// Write writes at most the bytes that are left.
func (c *cutConn) Write(b []byte) (int, error) {
	if len(b) <= c.left {
		c.left -= len(b)
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:c.left])
	c.left = 0
	_ = c.Close()
	if err == nil {
		err = net.ErrClosed
	}
	return n, err
}
