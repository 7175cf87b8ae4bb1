package policy

import (
	"errors"
	"testing"
)

func TestFileUse(t *testing.T) {
	for name, c := range map[string]struct {
		use  FileUse
		want Fact
	}{
		"nothing was asked":             {FileUse{}, Fact{Detail: "no other process could be read"}},
		"nobody else is there":          {FileUse{Alone: true}, Fact{Truth: No}},
		"nobody uses it":                {FileUse{Read: 7}, Fact{Truth: No}},
		"one refuses":                   {FileUse{Read: 7, Refused: 1}, Fact{Truth: No, Detail: "processes that could not be read: 1"}},
		"all refuse":                    {FileUse{Refused: 7}, Fact{Detail: "no other process could be read"}},
		"one could not be asked":        {FileUse{Read: 7, Err: errors.New("x")}, Fact{Detail: "x"}},
		"a file that may be the pod's":  {FileUse{Read: 7, Refused: 1, Stray: "s"}, Fact{Detail: "s"}},
		"one names it":                  {FileUse{Read: 7, Doubt: "d", Err: errors.New("x"), Stray: "s"}, Fact{Detail: "d"}},
		"one uses it, whatever else is": {FileUse{User: "u", Doubt: "d", Err: errors.New("x"), Stray: "s"}, Fact{Truth: Yes, Detail: "u"}},
	} {
		c.want.Origin = "/proc"
		if got := c.use.Fact("/proc"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestUsedAgain(t *testing.T) {
	empty, holds, unread := Fact{Truth: No, Origin: "o"}, Fact{Truth: Yes, Origin: "o", Detail: "it holds x"}, Fact{Origin: "o", Detail: "not read"}
	user, doubt, failed := NewUse{User: "u"}, NewUse{Doubt: "d"}, NewUse{Err: errors.New("x")}
	for name, c := range map[string]struct {
		content Fact
		sources []NewUse
		want    Fact
	}{
		"nothing uses it":         {empty, []NewUse{{}, {}}, empty},
		"it holds something":      {holds, []NewUse{doubt, failed}, holds},
		"it was not read":         {unread, []NewUse{doubt, failed}, unread},
		"the second source":       {unread, []NewUse{failed, user}, Fact{Truth: Yes, Origin: "o", Detail: "u"}},
		"a doubt on this pod":     {empty, []NewUse{failed, doubt}, Fact{Origin: "o", Detail: "d"}},
		"one could not be asked":  {empty, []NewUse{{}, failed}, Fact{Origin: "o", Detail: "x"}},
		"no source but its files": {empty, nil, empty},
	} {
		if got := UsedAgain(c.content, c.sources...); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
