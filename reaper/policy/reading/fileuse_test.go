package reading

import (
	"errors"
	"testing"

	"github.com/orphan-reaper/orphan-reaper/reaper/policy"
)

func TestFileUse(t *testing.T) {
	for name, c := range map[string]struct {
		use  FileUse
		want policy.Fact
	}{
		"nothing was asked":    {FileUse{}, policy.Fact{Detail: "no other process could be read"}},
		"nobody else is there": {FileUse{Alone: true}, policy.Fact{Truth: policy.No}},
		"nobody uses it":       {FileUse{Read: 7}, policy.Fact{Truth: policy.No}},
		"one refuses": {
			FileUse{Read: 7, Refused: 1, First: "9 (app)"},
			policy.Fact{Detail: "processes that could not be read: 1, one of them PID 9 (app); CAP_SYS_PTRACE is needed"},
		},
		"PID 1 refuses":                 {FileUse{Read: 7, Init: "1 (init)"}, policy.Fact{Truth: policy.No, Detail: "PID 1 (init) could not be read"}},
		"PID 1 and one more":            {FileUse{Read: 7, Init: "1 (init)", Refused: 1}, policy.Fact{Detail: Refusal(1, "").Error()}},
		"PID 1 alone was asked":         {FileUse{Init: "1 (init)"}, policy.Fact{Detail: "no other process could be read"}},
		"all refuse":                    {FileUse{Refused: 7}, policy.Fact{Detail: "no other process could be read"}},
		"one could not be asked":        {FileUse{Read: 7, Err: errors.New("x")}, policy.Fact{Detail: "x"}},
		"one names it":                  {FileUse{Read: 7, Doubt: "d", Err: errors.New("x")}, policy.Fact{Detail: "d"}},
		"one uses it, whatever else is": {FileUse{User: "u", Doubt: "d", Err: errors.New("x")}, policy.Fact{Truth: policy.Yes, Detail: "u"}},
	} {
		c.want.Origin = "/proc"
		if got := c.use.Fact("/proc"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestUsedAgain(t *testing.T) {
	empty, unread := policy.Fact{Truth: policy.No, Origin: "o"}, policy.Fact{Origin: "o", Detail: "not read"}
	holds := policy.Fact{Truth: policy.Yes, Origin: "o", Detail: "it holds x"}
	user, doubt, failed := NewUse{User: "u"}, NewUse{Doubt: "d"}, NewUse{Err: errors.New("x")}
	for name, c := range map[string]struct {
		content policy.Fact
		sources []NewUse
		want    policy.Fact
	}{
		"nothing uses it":         {empty, []NewUse{{}, {}}, empty},
		"it holds something":      {holds, []NewUse{doubt, failed}, holds},
		"it was not read":         {unread, []NewUse{doubt, failed}, unread},
		"the second source":       {unread, []NewUse{failed, user}, policy.Fact{Truth: policy.Yes, Origin: "o", Detail: "u"}},
		"a doubt on this pod":     {empty, []NewUse{failed, doubt}, policy.Fact{Origin: "o", Detail: "d"}},
		"one could not be asked":  {empty, []NewUse{{}, failed}, policy.Fact{Origin: "o", Detail: "x"}},
		"no source but its files": {empty, nil, empty},
	} {
		if got := UsedAgain(c.content, c.sources...); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
