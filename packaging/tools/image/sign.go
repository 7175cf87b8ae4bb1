package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// The format of cosign's signatures: https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md.
// With a subject it is found as a referrer (cosign verify --experimental-oci11), by its kind in the layout
// (cosign verify --local-image).
const (
	signatureType = "application/vnd.dev.cosign.artifact.sig.v1+json"
	payloadType   = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureKey  = "dev.cosignproject.cosign/signature"

	kind           = "kind"
	kindIndex      = "dev.cosignproject.cosign/imageIndex"
	kindSignatures = "dev.cosignproject.cosign/sigs"
)

type payload struct {
	Critical struct {
		Identity struct {
			DockerReference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			DockerManifestDigest v1.Hash `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// sign adds a signature of each entry of the layout's index.
func sign(file string, dir layout.Path) error {
	key, err := readKey(file)
	if err != nil {
		return err
	}
	entries, err := listed(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		var p payload
		p.Critical.Identity.DockerReference = "orphan-reaper"
		p.Critical.Image.DockerManifestDigest = entry.Digest
		p.Critical.Type = "cosign container image signature"
		signed, err := json.Marshal(p)
		if err != nil {
			return err
		}
		signature, err := key.sign(signed)
		if err != nil {
			return err
		}
		var kinds map[string]string
		if entry.Annotations[kind] == kindIndex {
			kinds = map[string]string{kind: kindSignatures}
		}
		if err := refer(dir, entry, v1.Manifest{
			ArtifactType: signatureType,
			Layers: []v1.Descriptor{{
				MediaType:   payloadType,
				Annotations: map[string]string{signatureKey: base64.StdEncoding.EncodeToString(signature)},
			}},
		}, []byte("{}"), signed, kinds); err != nil {
			return err
		}
	}
	return nil
}

// unsign removes the signatures and their blobs, so that the layout has the bytes of before.
func unsign(dir layout.Path) error {
	entries, err := listed(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.ArtifactType != signatureType {
			continue
		}
		raw, err := dir.Bytes(entry.Digest)
		if err != nil {
			return err
		}
		var m v1.Manifest
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		for _, blob := range append(m.Layers, m.Config, entry) {
			if err := dir.RemoveBlob(blob.Digest); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	return dir.RemoveDescriptors(func(d v1.Descriptor) bool { return d.ArtifactType == signatureType })
}

func listed(dir layout.Path) ([]v1.Descriptor, error) {
	index, err := dir.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	return manifest.Manifests, nil
}

// envelope wraps a document as DSSE, https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md.
func envelope(file, mediaType string, in io.Reader, out io.Writer) error {
	key, err := readKey(file)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	signature, err := key.sign(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(mediaType), mediaType, len(body), body))
	if err != nil {
		return err
	}
	type sig struct {
		Sig []byte `json:"sig"`
	}
	return json.NewEncoder(out).Encode(struct {
		PayloadType string `json:"payloadType"`
		Payload     []byte `json:"payload"`
		Signatures  []sig  `json:"signatures"`
	}{mediaType, body, []sig{{signature}}})
}

func public(file string, out io.Writer) error {
	key, err := readKey(file)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return pem.Encode(out, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

type privateKey struct{ *ecdsa.PrivateKey }

// readKey reads what openssl ecparam or openssl pkey writes, of the one curve that every verifier of cosign's format has.
func readKey(file string) (privateKey, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return privateKey{}, err
	}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		key, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			var parsed any
			parsed, _ = x509.ParsePKCS8PrivateKey(block.Bytes)
			key, _ = parsed.(*ecdsa.PrivateKey)
		}
		if key != nil && key.Curve == elliptic.P256() {
			return privateKey{key}, nil
		}
	}
	return privateKey{}, fmt.Errorf("%s holds no unencrypted ECDSA P-256 key as PEM", file)
}

// sign returns the signature of the digest; without a source of randomness it is deterministic (RFC 6979).
func (k privateKey) sign(message []byte) ([]byte, error) {
	digest := sha256.Sum256(message)
	return k.Sign(nil, digest[:], crypto.SHA256)
}
