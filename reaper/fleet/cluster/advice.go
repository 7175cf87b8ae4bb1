package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/orphan-reaper/orphan-reaper/reaper/clean"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// advice returns what an operator can do about an error of the API server; right is the right that the request needs.
func advice(err error, user, right string) string {
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case verify:
		return "; the API server's certificate is not of the given certificate authority"
	case kube.Refused(err, 401):
		return fmt.Sprintf("; it does not accept the credentials of %s: they may have expired", clean.Name(user))
	case kube.Refused(err, 403):
		return fmt.Sprintf("; %s needs the right to %s", clean.Name(user), right)
	}
	return ""
}
