package podlists

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/bounded"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// Reader requests the lists of pods.
type Reader struct {
	// KubeletTokenFile and KubeletClientCertificate authenticate to the kubelet's authenticated port. If both are
	// "", it is not asked. KubeletClientKey is "" if the certificate's file has the key.
	KubeletTokenFile, KubeletClientCertificate, KubeletClientKey string
	// Kubeconfig names the API server, which is not asked if it is "". NodeName is this node's name there; if it
	// is "", the Reader finds it.
	Kubeconfig, NodeName string
	RootDir              string // the kubelet's root directory
	Waive                bool   // there is no kubelet
	Now                  func() time.Time
	Guard                *bounded.Guard
}

// getter is a kube.Asker.
type getter interface {
	Get(ctx context.Context, path, accept string, read func(io.Reader) error) error
}

// CheckCredentials returns what is wrong with the files of credentials. It sends nothing.
func (r *Reader) CheckCredentials(ctx context.Context) []error {
	now := r.Now()
	errs, hung := bounded.Do(ctx, r.Guard, "credentials", func() (errs []error) {
		add := func(key string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
			}
		}
		if r.Kubeconfig != "" {
			_, err := kube.ReadConfig(r.Kubeconfig, now)
			add("kubeconfig", err)
		}
		if r.KubeletTokenFile != "" {
			_, err := kube.ReadToken(r.KubeletTokenFile)
			add("kubelet_token_file", err)
		}
		if r.KubeletClientCertificate != "" {
			_, err := kube.ClientPair(r.KubeletClientCertificate, r.KubeletClientKey, now)
			add("kubelet_client_certificate", err)
		}
		return errs
	})
	if hung != nil {
		return []error{fmt.Errorf("cannot read the credentials: %w", hung)}
	}
	return errs
}
