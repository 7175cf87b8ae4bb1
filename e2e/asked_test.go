package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/e2e/kit"
	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

// asked: the kubelet has no read-only port, and its other port requires a certificate. A client with one gets the
// wanted pods and the number of orphans that the kubelet could not remove, including those that its log omits.
func asked(t *testing.T, n *node) {
	named, hidden := n.uid("0badf00d-8000-4000-8000-00000000001_"), n.uid("0badf00d-8000-4000-8000-00000000002_")
	authority, certificate := issue(t, n.dir, "authority")
	_, stranger := issue(t, n.dir, "stranger")
	config := filepath.Join(n.dir, "kubelet.yaml")
	original, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	closed := strings.NewReplacer("readOnlyPort: "+n.readOnly, "readOnlyPort: 0",
		"anonymous: {enabled: true}", "anonymous: {enabled: false}, x509: {clientCAFile: "+authority+"}").Replace(string(original))
	n.restartKubelet(t, func() { write(t, config, closed) })
	t.Cleanup(func() {
		n.restartKubelet(t, func() { write(t, config, string(original)) })
		// A kubelet that has to end a pod before it has seen it does not touch it.
		eventually(t, 60*time.Second, func() string {
			return missing(strings.Count(n.get("/pods"), `"phase":"Running"`) == 2, "the kubelet has not taken in its pods")
		})
	})
	eventually(t, 60*time.Second, func() string {
		return missing(n.tookOver(t), "the kubelet is still taking over")
	})
	n.plant(t, skeleton, named)
	tmpfs := n.plant(t, "tmpfs mounted", hidden)
	living := n.livingPods(t)[0].uid

	d := n.reap(t, "--mode", "observe", "--kubelet-client-certificate", certificate)
	var seen asking
	eventually(t, 60*time.Second, func() string {
		seen = d.asks(t)
		// A report within a second of an error is only a hint, and a volume of the living pod cannot be mounted.
		return missing(n.counts(t, seen, 2) && seen.Node.Named > 0, "the kubelet counts %d orphans, %+v", seen.errors(), seen.Node)
	})
	for uid, want := range map[string]string{named: "no", hidden: "no", living: "yes"} {
		f := seen.facts(uid).Lists
		// From 1.37 on the kubelet's own socket may have it as well.
		port := strings.HasPrefix(f.Origin, "https://127.0.0.1:") && strings.HasSuffix(f.Origin, "/pods")
		if f.Value != want || !port && !(n.minor(t) >= 37 && strings.HasSuffix(f.Origin, "/pods-api/pods-api.sock")) {
			t.Errorf("%s: on the kubelet's list: %+v, want %s", uid, f, want)
		}
		// No pod of the list is from an API server, so the list may be incomplete and releases nothing.
		if let := seen.facts(uid).Released; (let.Value == "no") != (want == "yes") || let.Value == "yes" {
			t.Errorf("%s: released by a complete list: %+v", uid, let)
		}
	}
	if got := seen.Node.Named; got != 1 {
		t.Errorf("the log has %d orphans, want the one without mounts", got)
	}
	if n.minor(t) > 24 {
		d.waitMetric(t, "kubelet_orphan_errors 2")
	}
	nobody, other := *d, *d
	nobody.flags = d.flags[:len(d.flags)-2] // the certificate came last
	other.flags = append(slices.Clone(d.flags), "--kubelet-client-certificate", stranger)
	for answer, as := range map[string]daemon{"not asked": nobody, "401": other} {
		if got := as.asks(t); got.errors() >= 0 || !strings.Contains(got.Node.Gauges.Detail, answer) {
			t.Errorf("want %s; the kubelet counts %d orphans: %+v", answer, got.errors(), got.Node)
		}
	}
	d.end(t)

	d = n.reap(t, "--kubelet-client-certificate", certificate)
	d.waitRecord(t, hold+settle+confirm+60*time.Second, named, "it is removed", kind(policy.KindRemoved))
	eventually(t, 60*time.Second, func() string {
		seen = d.asks(t)
		return missing(n.counts(t, seen, 1), "the kubelet counts %d orphans, %+v", seen.errors(), seen.Node)
	})
	tmpfs.unmount(filepath.Join(tmpfs.dir, "volumes", emptyDir, "mem"))
	eventually(t, 60*time.Second, func() string {
		seen = d.asks(t)
		return missing(n.counts(t, seen, 0) && !exists(tmpfs.dir), "the kubelet counts %d orphans, %+v", seen.errors(), seen.Node)
	})
}

// asking is the part of scan -o json with the kubelet's responses.
type asking struct {
	Node struct {
		Gauges struct {
			Origin, Detail string
			Errors         *int `json:"orphan_pod_cleaned_volumes_errors"`
		} `json:"kubelet_gauges"`
		Named int `json:"orphans_named"`
	}
	Pods []struct {
		UID   string
		Facts askedFacts
	}
	Errors []string
}

// askedFacts are the facts of a pod from the kubelet's list: whether it is listed, and whether the list releases it.
type askedFacts struct {
	Lists    fact `json:"kubelet_lists"`
	Released fact
}

type fact struct{ Value, Origin, Detail string }

func (d *daemon) asks(t *testing.T) (a asking) {
	t.Helper()
	if err := json.Unmarshal([]byte(d.command(t, "scan", "-o", "json")), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// counts reports whether the kubelet counts that many orphans. Kubelet 1.24 has no such gauge, so there a list that
// was read is enough.
func (n *node) counts(t *testing.T, a asking, orphans int) bool {
	t.Helper()
	if n.minor(t) <= 24 {
		return a.errors() < 0 && a.facts(n.livingPods(t)[0].uid).Lists.Value == "yes"
	}
	return a.errors() == orphans
}

// errors returns the kubelet's counter, or -1 if it exports none.
func (a asking) errors() int {
	if a.Node.Gauges.Errors == nil {
		return -1
	}
	return *a.Node.Gauges.Errors
}

func (a asking) facts(uid string) askedFacts {
	for _, p := range a.Pods {
		if p.UID == uid {
			return p.Facts
		}
	}
	return askedFacts{}
}

// issue makes a self-signed certificate: authority contains it, and client its key as well.
func issue(t *testing.T, dir, name string) (authority, client string) {
	t.Helper()
	key := kit.NewKey(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	cert := kit.Sign(t, c, c, key, key)
	authority, client = filepath.Join(dir, name+"-ca.pem"), filepath.Join(dir, name+"-client.pem")
	write(t, authority, cert)
	write(t, client, cert+kit.KeyPEM(t, key))
	return authority, client
}
