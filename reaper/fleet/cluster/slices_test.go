package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

// serverOf returns the client of a test server.
func serverOf(t *testing.T, s *httptest.Server) *kube.Server {
	t.Helper()
	server, err := kube.NewServer(testkit.ConfigOf(s, "s3cret"), "somebody")
	testkit.Must(t, err)
	return server
}

var service = Service{"tools", "orphan-reaper"}

const anyPort = `"ports":[{"name":"http","port":9477,"protocol":"TCP"}]`

// endpointOf returns one endpoint in JSON.
func endpointOf(address, node, uid string) string {
	return fmt.Sprintf(`{"addresses":[%q],"nodeName":%q,"targetRef":{"kind":"Pod","uid":%q},"conditions":{"ready":false}}`, address, node, uid)
}

func sliceOf(family, ports string, endpoints ...string) string {
	return fmt.Sprintf(`{"metadata":{"name":"a"},"addressType":%q,"endpoints":[%s],%s}`, family, strings.Join(endpoints, ","), ports)
}

func listOf(more string, items ...string) string {
	return fmt.Sprintf(`{"kind":"EndpointSliceList","metadata":{"continue":%q},"items":[%s]}`, more, strings.Join(items, ","))
}

// daemonsOf asks a server with this handler.
func daemonsOf(t *testing.T, h http.HandlerFunc) (targets []string, err error) {
	t.Helper()
	found, err := Daemons(t.Context(), serverOf(t, testkit.TLSServer(t, "", h)), service, "https")
	for _, at := range found {
		if !at.Named {
			at.Node = "(" + at.Node + ")"
		}
		targets = append(targets, at.Node+"="+at.URL)
	}
	return targets, err
}

func TestDaemons(t *testing.T) {
	v4, v6 := "IPv4", "IPv6"
	for name, c := range map[string]struct {
		pages []string
		want  []string
	}{
		"both families, a page each": {
			[]string{listOf("p2", sliceOf(v4, anyPort, endpointOf("10.0.0.1", "n1", "u1"))), listOf("", sliceOf(v6, anyPort, endpointOf("fd00::2", "n2", "u2")))},
			[]string{"n1=https://10.0.0.1:9477", "n2=https://[fd00::2]:9477"},
		},
		"a pod in both families is asked once": {
			[]string{listOf("", sliceOf(v6, anyPort, endpointOf("fd00::1", "n1", "u1")), sliceOf(v4, anyPort, endpointOf("10.0.0.1", "n1", "u1")))},
			[]string{"n1=https://10.0.0.1:9477"},
		},
		"an address twice": {
			[]string{listOf("", sliceOf(v4, anyPort, endpointOf("10.0.0.1", "n1", "u1"), endpointOf("10.0.0.1", "n1", "u2")),
				sliceOf(v4, anyPort, endpointOf("10.0.0.1", "n1", "u1")))},
			[]string{"n1=https://10.0.0.1:9477"},
		},
		"without names": {
			[]string{listOf("", sliceOf(v4, anyPort, `{"addresses":["10.0.0.1","10.0.0.9"]}`, `{"addresses":["10.0.0.2"]}`, `{"addresses":[]}`, `null`))},
			[]string{"(10.0.0.1)=https://10.0.0.1:9477", "(10.0.0.2)=https://10.0.0.2:9477"},
		},
		"another port": {
			[]string{listOf("", sliceOf(v4, `"ports":[{"name":"dns","port":53,"protocol":"UDP"},{"port":8443}]`, endpointOf("10.0.0.1", "n1", "u1")))},
			[]string{"n1=https://10.0.0.1:8443"},
		},
		"the port that is called so": {
			[]string{listOf("", sliceOf(v4, `"ports":[{"name":"x","port":1},{"name":"http","port":2}]`, endpointOf("10.0.0.1", "n1", "u1")))},
			[]string{"n1=https://10.0.0.1:2"},
		},
		"none":            {[]string{listOf("")}, nil},
		"null":            {[]string{`{"kind":"EndpointSliceList","metadata":null,"items":null}`}, nil},
		"empty and names": {[]string{listOf("", sliceOf(v4, `"ports":null`), sliceOf("FQDN", anyPort, endpointOf("example.com", "n", "u")))}, nil},
	} {
		asked := 0
		got, err := daemonsOf(t, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			if r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/tools/endpointslices" || q.Get("labelSelector") != "kubernetes.io/service-name=orphan-reaper" ||
				q.Get("limit") != "50" || q.Get("continue") != []string{"", "p2"}[asked] || r.Header.Get("Authorization") != "Bearer s3cret" {
				t.Errorf("%s: request for %s with %v", name, r.URL, r.Header)
			}
			testkit.Answer(c.pages[asked])(w, r)
			asked++
		})
		if err != nil || !slices.Equal(got, c.want) || asked != len(c.pages) {
			t.Errorf("%s: %q, %v, %d pages; want %q", name, got, err, asked, c.want)
		}
	}
}

// TestDaemonsAgain checks that the list is read again from its beginning if the server has forgotten the page's token.
func TestDaemonsAgain(t *testing.T) {
	asked := 0
	got, err := daemonsOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch asked++; asked {
		case 1:
			testkit.Answer(listOf("p2", sliceOf("IPv4", anyPort, endpointOf("10.0.0.1", "n1", "u1"))))(w, r)
		case 2:
			testkit.Refuse(http.StatusGone, "expired")(w, r)
		default:
			testkit.Answer(listOf("", sliceOf("IPv4", anyPort, endpointOf("10.0.0.2", "n2", "u2"))))(w, r)
		}
	})
	if err != nil || !slices.Equal(got, []string{"n2=https://10.0.0.2:9477"}) || asked != 3 {
		t.Errorf("%q, %v, %d pages", got, err, asked)
	}
}

// TestDaemonsNotFound checks that each bad response ends with an error that has a reason.
func TestDaemonsNotFound(t *testing.T) {
	one := endpointOf("10.0.0.1", "n1", "u1")
	endless := func(begin, then string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, begin)
			for err == nil {
				_, err = io.WriteString(w, strings.Repeat(then, 1000))
			}
		}
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"no right":         {testkit.Refuse(403, "forbidden"), "somebody needs the right to list endpointslices (discovery.k8s.io) in the namespace tools"},
		"a stranger":       {testkit.Refuse(401, "Unauthorized"), "does not accept the credentials of somebody"},
		"a redirect":       {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) }, "302"},
		"text":             {testkit.Answer("<html>"), "invalid character"},
		"a thing":          {testkit.Answer(`{"kind":"Pod","items":[]}`), "it is no list but \"Pod\""},
		"a Status":         {testkit.Answer(`{"kind":"Status","metadata":{}}`), "it is no list but \"Status\""},
		"cut off":          {testkit.Answer(strings.TrimSuffix(listOf("", sliceOf("IPv4", anyPort, one)), "]}")), "unexpected EOF"},
		"no address":       {testkit.Answer(listOf("", sliceOf("IPv4", anyPort, endpointOf("host/../x", "n", "u")))), `"host/../x" of an endpoint is invalid`},
		"a zone":           {testkit.Answer(listOf("", sliceOf("IPv6", anyPort, endpointOf("fe80::1%eth0", "n", "u")))), "of an endpoint is invalid"},
		"no port":          {testkit.Answer(listOf("", sliceOf("IPv4", `"ports":[]`, one))), "0 TCP ports"},
		"many ports":       {testkit.Answer(listOf("", sliceOf("IPv4", `"ports":[{"port":1},{"port":2}]`, one))), "2 TCP ports"},
		"a port too large": {testkit.Answer(listOf("", sliceOf("IPv4", `"ports":[{"name":"http","port":70000}]`, one))), "0 TCP ports"},
		"endless pages":    {testkit.Answer(listOf("more", sliceOf("IPv4", anyPort, one))), "does not end after 200 pages"},
		"no items list":    {testkit.Answer(`{"kind":"EndpointSliceList","items":"x"}`), "its items are no list"},
		"an endless page":  {endless(`{"kind":"EndpointSliceList","items":[{}`, ",{}"), "more than 20000 items"},
	} {
		got, err := daemonsOf(t, c.h)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the Service tools/orphan-reaper") || len(err.Error()) > 500 {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}
