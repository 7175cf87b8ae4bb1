package podlists

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

const (
	mostAttachments   = 200 // requests of one command
	biggestAttachment = 1 << 20
)

// Attachments asks the API server whether each volume has a VolumeAttachment for the node, and sets Attached. It requests
// each by the name that the CSI plugin gives it, since a kubelet's credentials may not list them. A refusal is Unknown:
// a node's credentials are also refused if there is no VolumeAttachment.
func (r *Reader) Attachments(ctx context.Context, node string, all []policy.GlobalMount) {
	all = all[:min(len(all), mostAttachments)]
	c, err := r.server(ctx)
	switch {
	case r.Kubeconfig == "":
		err = fmt.Errorf("no API server was named (--kubeconfig)")
	case err == nil && node == "":
		err = fmt.Errorf("this node's name at the API server is not known")
	}
	if err != nil {
		for i := range all {
			all[i].Attached = policy.Fact{Detail: "not asked: " + err.Error()}
		}
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, r.Guard.Limit(), bounded.ErrHangs)
	defer cancel()
	for i := range all {
		all[i].Attached = attached(ctx, c, node, &all[i])
		all[i].Attached.Origin = c.Base
	}
}

func attached(ctx context.Context, a getter, node string, g *policy.GlobalMount) policy.Fact {
	if g.Driver == "" || g.Handle == "" {
		return policy.Fact{Detail: "not asked: its driver and volume handle are not known"}
	}
	var v struct {
		Metadata struct {
			DeletionTimestamp string `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
		Status struct {
			Attached bool `json:"attached"`
		} `json:"status"`
	}
	// getAttachmentName of the kubelet's CSI plugin.
	name := fmt.Sprintf("csi-%x", sha256.Sum256([]byte(g.Handle+g.Driver+node)))
	err := a.Get(ctx, "/apis/storage.k8s.io/v1/volumeattachments/"+name, acceptJSON, func(body io.Reader) error {
		return json.NewDecoder(io.LimitReader(body, biggestAttachment)).Decode(&v)
	})
	switch {
	case kube.Refused(err, 404):
		return policy.Fact{Truth: policy.No, Detail: "no VolumeAttachment has it for " + clean.Name(node) +
			"; one of a driver that does not attach never does"}
	case err != nil:
		return policy.Fact{Detail: "cannot read its VolumeAttachment: " + err.Error()}
	case v.Spec.NodeName != node:
		return policy.Fact{Detail: name + " is of another node"}
	case v.Metadata.DeletionTimestamp != "":
		return policy.Fact{Truth: policy.Yes, Detail: name + " is being detached"}
	case !v.Status.Attached:
		return policy.Fact{Truth: policy.Yes, Detail: name + " is not attached yet"}
	}
	return policy.Fact{Truth: policy.Yes, Detail: name + " is attached"}
}
