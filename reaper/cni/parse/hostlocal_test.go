package parse

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseHostLocal(t *testing.T) {
	v4 := netip.MustParseAddr("10.244.0.8")
	v6 := netip.MustParseAddr("2001:db8::8")
	tied := func(addr netip.Addr, form HostLocalForm, id, ifname string) HostLocalFile {
		return HostLocalFile{Addr: addr, Form: form, ContainerID: id, IfName: ifname}
	}
	nobody := func(why Untied) HostLocalFile { return HostLocalFile{Addr: v4, Untied: why} }
	for _, test := range []struct {
		name, content string
		want          HostLocalFile
	}{
		{"10.244.0.8", boxID + "\r\neth0", tied(v4, HostLocalCRLF, boxID, "eth0")},
		{"10.244.0.8", boxID + "\r\neth0\r\n", tied(v4, HostLocalCRLF, boxID, "eth0")},
		{"10.244.0.8", "\n " + boxID + "\r\neth0 \n\n", tied(v4, HostLocalCRLF, boxID, "eth0")},
		{"10.244.0.8", boxID + "\neth0", tied(v4, HostLocalLF, boxID, "eth0")},
		{"10.244.0.8", boxID + "\neth0\n", tied(v4, HostLocalLF, boxID, "eth0")},
		{"10.244.0.8", boxID, tied(v4, HostLocalID, boxID, "")},
		{"10.244.0.8", boxID + "\n", tied(v4, HostLocalID, boxID, "")},
		{"10.244.0.8", boxID + "\r\n", tied(v4, HostLocalID, boxID, "")},
		{"10.244.0.8", boxID + "\r", tied(v4, HostLocalID, boxID, "")},
		{"10.244.0.8", "test-1\r\nnet.1-x_y", tied(v4, HostLocalCRLF, "test-1", "net.1-x_y")},
		{"::ffff:10.244.0.8", boxID, tied(v4, HostLocalID, boxID, "")},
		{"2001:db8::8", boxID + "\r\neth0", tied(v6, HostLocalCRLF, boxID, "eth0")},
		{"2001:0DB8:0::0008", boxID + "\r\neth0", tied(v6, HostLocalCRLF, boxID, "eth0")},

		{"10.244.0.8", "", nobody(UntiedContent)},
		{"10.244.0.8", " \r\n", nobody(UntiedContent)},
		{"10.244.0.8", boxID[:63], nobody(UntiedContent)},
		{"10.244.0.8", "test-1", nobody(UntiedContent)},
		{"10.244.0.8", "10.244.0.8", nobody(UntiedContent)},
		{"10.244.0.8", strings.ToUpper(boxID), nobody(UntiedContent)},
		{"10.244.0.8", boxID + " \r\neth0", nobody(UntiedContent)},
		{"10.244.0.8", boxID + "\r\n eth0", nobody(UntiedContent)},
		{"10.244.0.8", boxID + "\r\n\r\neth0", nobody(UntiedContent)},
		{"10.244.0.8", boxID + "\r\neth0\r\neth1", nobody(UntiedContent)},
		{"10.244.0.8", boxID + "\r\n" + strings.Repeat("e", 16), nobody(UntiedContent)},
		{"10.244.0.8", boxID + "\r\n..", nobody(UntiedContent)},
		{"10.244.0.8", "../" + boxID + "\r\neth0", nobody(UntiedContent)},
		{"10.244.0.8", boxID + "\x00\r\neth0", nobody(UntiedContent)},
		{"10.244.0.8", "\ufeff" + boxID, nobody(UntiedContent)},
		{"10.244.0.8", strings.Repeat("\x00", 70), nobody(UntiedContent)},
		{"10.244.0.8", boxID + strings.Repeat("\n", 500), nobody(UntiedSize)},
	} {
		got, ok := ParseHostLocal(test.name, []byte(test.content))
		if !ok || got != test.want {
			t.Errorf("%s %q:\n got %+v, %v\nwant %+v", test.name, test.content, got, ok, test.want)
		}
	}
	for _, name := range []string{
		"lock", "last_reserved_ip.0", "last_reserved_ip.10", "last_reserved_ip", "", ".", "..", "10.244.0", "10.244.0.8.bak", "10.244.0.08", "10.244.0.256",
		"10.244.0.8/24", " 10.244.0.8", "10.244.0.8\n", "fe80::1%eth0", "2001_db8__8", "[2001:db8::8]", "0x0a.1.1.1", "10.244.0.8~",
	} {
		if got, ok := ParseHostLocal(name, []byte(boxID+"\r\neth0")); ok || got != (HostLocalFile{}) {
			t.Errorf("%q is an address: %+v", name, got)
		}
	}
}

// TestHostLocalAgreesWithThePlugin compares with what the plugin's store compares
// (ReleaseByID: content without white space around it against both keys), so that a file tied to
// a container and an interface is one that their DEL would release, and one that no
// DEL would release has a form that says so.
func TestHostLocalAgreesWithThePlugin(t *testing.T) {
	for _, content := range []string{
		boxID + "\r\neth0", boxID + "\r\neth0\n", boxID, boxID + "\n", boxID + "\neth0", boxID + "\r\neth0\r\nx", boxID + "\r\neth00", boxID + "\r\n" + "eth",
		boxID + "0\r\neth0", otherID + "\r\neth0", "\u00a0" + boxID + "\u0085",
	} {
		trimmed := strings.TrimSpace(content)
		got, _ := ParseHostLocal("10.0.0.1", []byte(content))
		if want := trimmed == boxID+"\r\neth0"; want != (got.Form == HostLocalCRLF && got.ContainerID == boxID && got.IfName == "eth0") {
			t.Errorf("%q: %+v", content, got)
		}
		if want := trimmed == boxID; want != (got.Form == HostLocalID && got.ContainerID == boxID) {
			t.Errorf("%q: %+v", content, got)
		}
	}
}
