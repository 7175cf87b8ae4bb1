package cni

import (
	"strings"
	"testing"
)

func TestParseHostLocal(t *testing.T) {
	tied := func(id, ifname string) parseResult { return parseResult{ContainerID: id, Network: "d", IfName: ifname} }
	none := func(why untied) parseResult { return parseResult{Network: "d", Untied: why} }
	for _, test := range []struct {
		name, content string
		want          parseResult
	}{
		{"10.244.0.8", boxID + "\r\neth0", tied(boxID, "eth0")},
		{"10.244.0.8", boxID + "\r\neth0\r\n", tied(boxID, "eth0")},
		{"10.244.0.8", "\n " + boxID + "\r\neth0 \n\n", tied(boxID, "eth0")},
		{"10.244.0.8", boxID + "\neth0", tied(boxID, "eth0")},
		{"10.244.0.8", boxID + "\neth0\n", tied(boxID, "eth0")},
		{"10.244.0.8", boxID, tied(boxID, "")},
		{"10.244.0.8", boxID + "\n", tied(boxID, "")},
		{"10.244.0.8", boxID + "\r\n", tied(boxID, "")},
		{"10.244.0.8", boxID + "\r", tied(boxID, "")},
		{"10.244.0.8", "test-1\r\nnet.1-x_y", tied("test-1", "net.1-x_y")},
		{"::ffff:10.244.0.8", boxID, tied(boxID, "")},
		{"2001:db8::8", boxID + "\r\neth0", tied(boxID, "eth0")},
		{"2001:0DB8:0::0008", boxID + "\r\neth0", tied(boxID, "eth0")},

		{"10.244.0.8", "", none(untiedContent)},
		{"10.244.0.8", " \r\n", none(untiedContent)},
		{"10.244.0.8", boxID[:63], none(untiedContent)},
		{"10.244.0.8", "test-1", none(untiedContent)},
		{"10.244.0.8", "10.244.0.8", none(untiedContent)},
		{"10.244.0.8", strings.ToUpper(boxID), none(untiedContent)},
		{"10.244.0.8", boxID + " \r\neth0", none(untiedContent)},
		{"10.244.0.8", boxID + "\r\n eth0", none(untiedContent)},
		{"10.244.0.8", boxID + "\r\n\r\neth0", none(untiedContent)},
		{"10.244.0.8", boxID + "\r\neth0\r\neth1", none(untiedContent)},
		{"10.244.0.8", boxID + "\r\n" + strings.Repeat("e", 16), none(untiedContent)},
		{"10.244.0.8", boxID + "\r\n..", none(untiedContent)},
		{"10.244.0.8", "../" + boxID + "\r\neth0", none(untiedContent)},
		{"10.244.0.8", boxID + "\x00\r\neth0", none(untiedContent)},
		{"10.244.0.8", "\ufeff" + boxID, none(untiedContent)},
		{"10.244.0.8", strings.Repeat("\x00", 70), none(untiedContent)},
		{"10.244.0.8", boxID + strings.Repeat("\n", 500), none(untiedSize)},
	} {
		if got := parsed(Address, test.name, []byte(test.content)); got != test.want {
			t.Errorf("%s %q:\n got %+v\nwant %+v", test.name, test.content, got, test.want)
		}
	}
	for _, name := range []string{
		"lock", "last_reserved_ip.0", "last_reserved_ip.10", "last_reserved_ip", "", ".", "..", "10.244.0", "10.244.0.8.bak", "10.244.0.08", "10.244.0.256",
		"10.244.0.8/24", " 10.244.0.8", "10.244.0.8\n", "fe80::1%eth0", "2001_db8__8", "[2001:db8::8]", "0x0a.1.1.1", "10.244.0.8~",
	} {
		f := File{Kind: Address, Dir: "/d", Name: name}
		if f.Parse([]byte(boxID + "\r\neth0")); f.Container != "" || f.Addr().IsValid() || f.Facts[Tied].Detail != "its name is no address" {
			t.Errorf("%q counts as an address: %+v", name, f)
		}
	}
}
