package fleet

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/fleet/review"
	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// TestTokenFlood: addresses that send garbage without end use up what may be asked about new tokens, and keep
// nobody out whose token was let in within the hour.
func TestTokenFlood(t *testing.T) {
	reviews := 0
	api := testkit.TLSServer(t, "", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		kind := "TokenReview"
		if strings.Contains(r.URL.Path, "subject") {
			kind = "SubjectAccessReview"
		} else {
			reviews++
		}
		known := !strings.Contains(string(text), "garbage")
		_, _ = fmt.Fprintf(w, `{"kind":%q,"status":{"authenticated":%t,"allowed":true,"audiences":["orphan-reaper"],"user":{"username":"u"}}}`, kind, known)
	})
	s, now, _ := newTestServer(t, "")
	s.cfg.Reviews = review.New(func() (*kube.Server, error) { return kube.NewServer(testkit.ConfigOf(api, ""), "we") }, s.cfg.Now, s.cfg.Log)
	s.Publish(onePod())
	ask := func(from, token string) int {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/v1/orphans", nil)
		r.RemoteAddr, r.TLS = from, &tls.ConnectionState{}
		r.Header.Set("Authorization", "Bearer "+token)
		at := originOf(netip.MustParseAddrPort(from))
		if !s.limits.enter(at) {
			t.Fatal("no room")
		}
		defer s.limits.leave(at)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Code
	}
	if code := ask(elsewhere, "s3cret"); code != http.StatusOK {
		t.Fatal(code)
	}
	let, late := 0, 0
	for second := range 3600 {
		*now = now.Add(time.Second)
		for address := range 3 {
			ask(fmt.Sprintf("192.0.2.%d:9", 100+address), fmt.Sprint("garbage-", address, "-", second))
		}
		if second%60 == 30 {
			if ask(elsewhere, "s3cret") == http.StatusOK {
				let++
			}
			if ask(elsewhere, fmt.Sprint("new-", second)) == http.StatusOK {
				late++
			}
		}
	}
	if let != 60 || late > 5 {
		t.Errorf("a token that was let in before is let in %d times of 60 during a flood, new ones %d times", let, late)
	}
	if most := together.reviews.burst + int(time.Hour/together.reviews.refill) + 61; reviews > most {
		t.Errorf("%d reviews in an hour, at most %d", reviews, most)
	}
}
