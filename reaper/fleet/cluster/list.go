package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/kube"
)

// What bounds a list: a cluster has 5,000 nodes, or a few more. A report has 32 KiB (report.NewResource), and what kubectl prints of
// a Node has some 30 KiB.
const (
	mostPages = 200
	mostItems = 20_000
	pageBytes = 64 << 20
	fileBytes = 1 << 30
	listTime  = time.Minute
)

// errSlow is for a list that has used up listTime.
var errSlow = errors.New("the API server has not answered within " + listTime.String())

// list is one kind of resource, as it is requested.
type list struct {
	path  string
	query url.Values
	as    string // the Accept header
	page  int    // how many items a page has
}

// readAll reads all pages of a list and passes on each item. Where the server has forgotten a page's
// place (410), begin is called and the list begins anew, once.
func readAll[T any](ctx context.Context, s *kube.Server, l list, begin func(), each func(*T) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, errSlow)
	defer cancel()
	var err error
	for range 2 {
		begin()
		if err = readPages(ctx, s, l, each); !kube.Refused(err, 410) {
			break
		}
	}
	return err
}

func readPages[T any](ctx context.Context, s *kube.Server, l list, each func(*T) error) error {
	query := url.Values{"limit": {strconv.Itoa(l.page)}}
	maps.Copy(query, l.query)
	items := 0
	for range mostPages {
		var p page[T]
		if err := s.Get(ctx, l.path+"?"+query.Encode(), l.as, func(r io.Reader) error { return p.read(r, pageBytes) }); err != nil {
			return err
		}
		if items += len(p.Items); items > mostItems {
			return fmt.Errorf("the list has more than %d items", mostItems)
		}
		for i := range p.Items {
			if err := each(&p.Items[i]); err != nil {
				return err
			}
		}
		if p.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", p.Metadata.Continue)
	}
	return fmt.Errorf("the list does not end after %d pages", mostPages)
}

// page is what is read of one page of a list.
type page[T any] struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Continue string `json:"continue"` // "" on the last page
	} `json:"metadata"`
	Items []T `json:"items"`
}

// read reads a whole page of at most so many bytes.
func (p *page[T]) read(r io.Reader, most int64) error {
	body := &io.LimitedReader{R: r, N: most + 1}
	switch err := json.NewDecoder(body).Decode(p); {
	case body.N <= 0:
		return fmt.Errorf("the list is longer than %d bytes", most)
	case err != nil:
		return err
	case !strings.HasSuffix(p.Kind, "List"):
		return fmt.Errorf("it is no list but %.40q", p.Kind)
	}
	return nil
}
