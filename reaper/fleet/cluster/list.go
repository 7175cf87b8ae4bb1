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

// What bounds a list: a cluster has 5,000 nodes, or a few more, and etcd stores at most 1.5 MiB of an item.
const (
	mostPages = 200
	mostItems = 20_000
	itemBytes = 4 << 20
	listBytes = 1 << 30
	listTime  = time.Minute
)

// errSlow is for a list that has used up listTime.
var errSlow = errors.New("the API server has not answered within " + listTime.String())

// list is one kind of resource, as it is asked for.
type list struct {
	path  string
	query url.Values
	as    string // the Accept header
	page  int    // how many items are asked for at once
}

// readAll reads all pages of a list and hands on each item. Where the server has forgotten a page's
// place (410), begin is called and the list begins anew, once.
func readAll[T any](ctx context.Context, a *kube.Asker, l list, begin func(), each func(*T) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, errSlow)
	defer cancel()
	var err error
	for range 2 {
		begin()
		if err = readPages(ctx, a, l, each); !kube.Refused(err, 410) {
			break
		}
	}
	return err
}

func readPages[T any](ctx context.Context, a *kube.Asker, l list, each func(*T) error) error {
	query := url.Values{"limit": {strconv.Itoa(l.page)}}
	maps.Copy(query, l.query)
	items, size := 0, int64(0)
	for range mostPages {
		r := reader[T]{each: func(item *T) error {
			if items++; items > mostItems {
				return fmt.Errorf("the list has more than %d items", mostItems)
			}
			return each(item)
		}}
		if err := a.Get(ctx, l.path+"?"+query.Encode(), l.as, r.read); err != nil {
			return err
		}
		if r.more == "" {
			return nil
		}
		if size += r.size; size > listBytes {
			return fmt.Errorf("the list is longer than %d bytes", listBytes)
		}
		query.Set("continue", r.more)
	}
	return fmt.Errorf("the list does not end after %d pages", mostPages)
}

// reader reads one page of a list, an item at a time: {"kind":"…List", … "items":[…]}.
type reader[T any] struct {
	each func(*T) error
	more string // the list's metadata.continue, "" on the last page
	size int64

	kind  string
	items bool
	room  *io.LimitedReader
	json  *json.Decoder
}

// read returns nil only for a whole page; what came before an error was handed on.
func (l *reader[T]) read(r io.Reader) error {
	l.room = &io.LimitedReader{R: r, N: itemBytes}
	l.json = json.NewDecoder(l.room)
	err := l.object()
	if err != nil && l.room.N <= 0 {
		return fmt.Errorf("an item of the list is longer than %d bytes", itemBytes)
	}
	l.size = l.json.InputOffset()
	return err
}

func (l *reader[T]) object() error {
	if err := l.expect(json.Delim('{')); err != nil {
		return err
	}
	for l.json.More() {
		if err := l.field(); err != nil {
			return err
		}
	}
	switch err := l.expect(json.Delim('}')); {
	case err != nil:
		return err
	case !strings.HasSuffix(l.kind, "List"):
		return fmt.Errorf("it is no list but %.40q", l.kind)
	case !l.items:
		return errors.New("it is a list without items")
	}
	return nil
}

func (l *reader[T]) field() error {
	key, err := l.json.Token()
	if err != nil {
		return err
	}
	switch key {
	case "kind":
		return l.json.Decode(&l.kind)
	case "items":
		l.items = true
		return l.array()
	case "metadata":
		var meta struct {
			Continue string `json:"continue"`
		}
		err = l.json.Decode(&meta)
		l.more = meta.Continue
		return err
	}
	var skipped json.RawMessage
	return l.json.Decode(&skipped)
}

func (l *reader[T]) array() error {
	switch t, err := l.json.Token(); {
	case err != nil:
		return err
	case t == nil:
		return nil // Go writes an empty list as null
	case t != json.Delim('['):
		return errors.New("its items are no list")
	}
	for l.json.More() {
		if l.room.N = itemBytes; l.json.InputOffset() > listBytes {
			return fmt.Errorf("the list is longer than %d bytes", listBytes)
		}
		var item T
		if err := l.json.Decode(&item); err != nil {
			return err
		}
		if err := l.each(&item); err != nil {
			return err
		}
	}
	l.room.N = itemBytes
	return l.expect(json.Delim(']'))
}

func (l *reader[T]) expect(want json.Delim) error {
	t, err := l.json.Token()
	if err == nil && t != want {
		err = fmt.Errorf("it is no list: %.40q stands where %s should", fmt.Sprint(t), want)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
