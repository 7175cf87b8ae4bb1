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

// The limits of a list: a cluster has some 5,000 nodes.
const (
	mostPages = 200
	mostItems = 20_000
	pageBytes = 64 << 20
	listTime  = time.Minute
)

// errSlow is the error of a list that takes longer than listTime.
var errSlow = errors.New("the API server has not answered within " + listTime.String())

// list is the request for a list of resources.
type list struct {
	path  string
	query url.Values
	as    string // the Accept header
	page  int    // items in a page
}

// readAll reads all pages of a list and calls each with each item. It calls begin first, and once more if the list
// must start again because the server no longer has a page's continue token (410).
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
		var more string
		err := s.Get(ctx, l.path+"?"+query.Encode(), l.as, func(r io.Reader) (err error) {
			more, err = readItems(r, pageBytes, func(item *T) error {
				if items++; items > mostItems {
					return fmt.Errorf("the list has more than %d items", mostItems)
				}
				return each(item)
			})
			return err
		})
		if err != nil || more == "" {
			return err
		}
		query.Set("continue", more)
	}
	return fmt.Errorf("the list does not end after %d pages", mostPages)
}

// readItems reads a list, {"kind":"…List", … "items":[…]}, of at most most bytes, and calls each with each item as it
// is read: the list is complete only if the error is nil. more is the continue token, or "" for the last page.
func readItems[T any](r io.Reader, most int64, each func(*T) error) (more string, err error) {
	body := &io.LimitedReader{R: r, N: most + 1}
	d := json.NewDecoder(body)
	kind, more, err := readList(d, each)
	switch {
	case body.N <= 0:
		err = fmt.Errorf("the list is longer than %d bytes", most)
	case errors.Is(err, io.EOF) && d.InputOffset() > 0:
		err = io.ErrUnexpectedEOF
	case err == nil && !strings.HasSuffix(kind, "List"):
		err = fmt.Errorf("it is no list but %.40q", kind)
	}
	return more, err
}

func readList[T any](d *json.Decoder, each func(*T) error) (kind, more string, err error) {
	if err := expect(d, json.Delim('{')); err != nil {
		return "", "", err
	}
	for err == nil && d.More() {
		var key json.Token
		if key, err = d.Token(); err != nil {
			break
		}
		switch key {
		case "kind":
			err = d.Decode(&kind)
		case "metadata":
			var meta struct {
				Continue string `json:"continue"`
			}
			err = d.Decode(&meta)
			more = meta.Continue
		case "items":
			err = readArray(d, each)
		default:
			err = d.Decode(new(json.RawMessage))
		}
	}
	if err == nil {
		err = expect(d, json.Delim('}'))
	}
	return kind, more, err
}

func readArray[T any](d *json.Decoder, each func(*T) error) error {
	switch t, err := d.Token(); {
	case err != nil || t == nil: // Go writes an empty list as null
		return err
	case t != json.Delim('['):
		return errors.New("its items are no list")
	}
	for d.More() {
		var item T
		if err := d.Decode(&item); err != nil {
			return err
		}
		if err := each(&item); err != nil {
			return err
		}
	}
	return expect(d, json.Delim(']'))
}

func expect(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("it is no list: %.40q stands where %s should", fmt.Sprint(t), want)
	}
	return err
}
