package parsers

import (
	"encoding/json"
	"testing"
)

// TestShipped: what log shippers make of a kubelet's line is read, under whatever of the
// usual keys it is, and nothing that another program or a container wrote.
func TestShipped(t *testing.T) {
	const (
		uid  = "841becbd-3da2-4541-b3b0-15887dff4a07"
		line = `E0117 09:15:33.123456    2154 kubelet_volumes.go:263] "There were many similar errors. Turn up verbosity to see them." ` +
			`err="orphaned pod \"` + uid + `\" found, but error occurred when trying to remove the volumes dir: not a directory" numErrs=2`
	)
	object := func(line string, pairs ...string) string {
		o := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			o[pairs[i]] = pairs[i+1]
			if pairs[i+1] == "LINE" {
				o[pairs[i]] = line
			}
		}
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for text, want := range map[string]bool{
		object(line, "message", "LINE", "_SYSTEMD_UNIT", "kubelet.service", "_PID", "2154", "source_type", "journald"): true,
		object(line, "message", "LINE", "file", "/var/log/kubelet.log", "host", "n"):                                   true,
		object(line, "entry", "LINE", "stream", "stderr", "unit", "kubelet.service"):                                   true,
		object(line, "date", "1768641333.12", "log", "LINE"):                                                           true,
		object(" "+line, "msg", "LINE", "syslogtag", "kubelet[2154]:", "hostname", "n"):                                true,
		object(line, "PROGRAM", "kubelet", "PID", "2154", "MESSAGE", "LINE"):                                           true,
		`{"labels":{"unit":"x"},"line":` + object(line, "l", "LINE")[len(`{"l":`):]:                                    true,

		object(line, "message", "LINE", "_SYSTEMD_UNIT", "sshd.service"):         false,
		object(line, "MESSAGE", "LINE", "PROGRAM", "sshd"):                       false,
		object(line, "MESSAGE", "LINE", "SYSLOG_IDENTIFIER", "kubelet"):          false,
		object(line, "msg", "LINE", "syslogtag", "app[2154]:"):                   false,
		object(line, "log", "LINE", "kubernetes", "x", "date", "1"):              false,
		object(line, "msg", "LINE", "level", "info"):                             false,
		object(line, "message", "LINE", "stream", "stdout"):                      false,
		object(line, "message", "LINE", "log", "LINE"):                           false,
		object("app: "+line, "message", "LINE"):                                  false,
		object(`err="orphaned pod \"`+uid+`\" found, but x"`, "message", "LINE"): false,
	} {
		s, ok := (&Parser{}).Parse(Line{Text: []byte(text)})
		if ok != want || want && (s.UID != uid || s.PID != 2154 || s.Count != 2) {
			t.Errorf("%s: %t, %+v", text, ok, s)
		}
	}
}
