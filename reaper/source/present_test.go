package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orphan-reaper/orphan-reaper/reaper/testkit"
)

func unitsOf(call string) (units []string) {
	for word := range strings.FieldsSeq(call) {
		if unit, ok := strings.CutPrefix(word, "_SYSTEMD_UNIT="); ok {
			units = append(units, unit)
		}
	}
	return units
}

// TestCatchUpNamesUnitsThatAreThere checks that the first read has only the units with entries, and that the follower
// has all units.
func TestCatchUpNamesUnitsThatAreThere(t *testing.T) {
	const first = `for u in k3s.service kubelet.service; do case " $* " in *"=$u "*)
printf '{"__CURSOR":"s=1;t=1","_SYSTEMD_UNIT":"%s"}\n' $u; exec sleep 100;; esac; done; exit 0`
	there := []string{"k3s.service", "kubelet.service"}
	for name, c := range map[string]struct {
		answer string
		want   []string // nil: all
		asked  int
	}{
		"two":                   {first, there, 3},
		"none":                  {"exit 0", nil, 1},
		"fails":                 {"echo no >&2; exit 1", nil, 1},
		"fails after the first": {`case "$*" in *k3s.service*) ` + first + `;; esac; exit 1`, nil, 2},
		"garbage":               {"echo orphaned pod; exit 0", nil, 1},
		"two units in one":      {`echo '{"__CURSOR":"s=1;t=1","_SYSTEMD_UNIT":["k3s.service","a.service"]}'; exit 0`, nil, 1},
		"of nobody":             {`echo '{"__CURSOR":"s=1;t=1","_SYSTEMD_UNIT":"a.service"}'; exit 0`, nil, 1},
		"the same again":        {`echo '{"__CURSOR":"s=1;t=1","_SYSTEMD_UNIT":"k3s.service"}'; exit 0`, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			k := newAsked(t, c.answer, `[ -z "$follow" ] && exit 0; hit 1; exec sleep 100`)
			j := k.journal(quiet())
			f := start(t, j, Position{})
			f.hits(1)
			f.stop()
			calls, want := k.called(), c.want
			all := unitsOf(strings.Join(j.matches, " "))
			if want == nil {
				want = all
			}
			if len(calls) != 2 || !slices.Equal(unitsOf(calls[0]), want) || !slices.Equal(unitsOf(calls[1]), all) || len(all) < 10 {
				t.Errorf("called with %q", calls)
			}
			if asked := k.asked(); len(asked) != c.asked {
				t.Errorf("asked %d times: %q", len(asked), asked)
			}
		})
	}
}

// TestCatchUpHoldsItsPosition checks that entries written during or after the search for units do not move the
// position, so that the follower starts before them. A later read has all units and moves the position.
func TestCatchUpHoldsItsPosition(t *testing.T) {
	const answer = `case "$*" in *=kubelet.service*) echo '{"__CURSOR":"s=1;t=1","_SYSTEMD_UNIT":"kubelet.service"}';; esac; exit 0`
	// The clock is at second 100, so that the last 10 s begin at 90.
	k := newAsked(t, answer, `[ -n "$follow" ] && { hit $((95000000+n)); exec sleep 100; }; [ $n = 0 ] && hit 89000000; hit $((95000000+n)); exit 0`)
	j := k.journal(quiet())
	j.renewal = 200 * time.Millisecond
	f := start(t, j, Position{})
	f.until("the second follower's", func(texts []string) bool { return count(texts, "orphaned pod 95000003") > 0 })
	f.stop()
	calls := k.called()
	if !strings.Contains(calls[1], "--follow --no-tail") || !strings.Contains(calls[1], " --since=@1790000090 ") {
		t.Errorf("start of the first follower: %s", calls[1])
	}
	if len(unitsOf(calls[2])) < 10 || !strings.Contains(calls[3], "--follow --no-tail") || !strings.Contains(calls[3], "--after-cursor=s=a;i=5a995c2;") {
		t.Errorf("second read: %s\n%s", calls[2], calls[3])
	}
}

// TestCatchUpMeetsANewUnit runs a real journalctl with a unit whose first entry is written during the search for
// units.
func TestCatchUpMeetsANewUnit(t *testing.T) {
	remote := journalRemote(t)
	dir, later := t.TempDir(), t.TempDir()
	now := time.Now()
	export(t, remote, filepath.Join(dir, "a.journal"), now.Add(-time.Minute), kubeletEntry("kubelet.service", orphan(1)))
	export(t, remote, filepath.Join(later, "b.journal"), now.Add(2*time.Second),
		kubeletEntry("k3s.service", orphan(2)), kubeletEntry("kubelet.service", orphan(3)))
	// The first read after the search finds the entries.
	program := filepath.Join(t.TempDir(), "journalctl")
	script := `#!/bin/sh
case "$*" in *--output-fields=_SYSTEMD_UNIT\ *) ;; *) mv ` + later + "/*.journal " + dir + ` 2>/dev/null;; esac
exec journalctl "$@"
`
	testkit.Must(t, os.WriteFile(program, []byte(script), 0o700))
	f := start(t, NewJournal(JournalOptions{
		Logger: quiet(), Now: time.Now, Journalctl: Journalctl{Program: program}, Args: []string{"--directory=" + dir},
	}), Position{})
	f.sees(1, 2)
	f.until("the third", func(texts []string) bool { return count(texts, orphan(3)) > 0 })
}
