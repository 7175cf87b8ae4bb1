package human

import (
	"slices"
	"testing"
	"time"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two three", 10, []string{"one two", "three"}},
		{"0123456789", 10, []string{"0123456789"}},
		{"0123456789a", 10, []string{"0123456789", "a"}},
		{"/var/lib/kubelet/pods", 10, []string{"/var/lib/", "kubelet/", "pods"}},
		{"a /var/lib/kubelet", 10, []string{"a", "/var/lib/", "kubelet"}},
		{"äöüäöüäöüäöü", 10, []string{"äöüäöüäöüä", "öü"}},
		{"too narrow", 1, []string{"too narrow"}},
		{"to end " + Unbroken("umount /var/lib/kubelet/pods") + " now", 12, []string{"to end", "umount /var/lib/kubelet/pods", "now"}},
	} {
		if got := Wrap(c.text, c.width); !slices.Equal(got, c.want) {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB", 1 << 20: "1.0 MiB", 1023 << 10: "1.0 MiB",
		5 << 30: "5.0 GiB", 1 << 62: "4096 PiB",
	} {
		if got := Size(n); got != want || len(got) > 8 {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 5 * time.Minute: "5m", 24 * time.Hour: "24h", 90 * time.Second: "1m30s",
		time.Hour + time.Second: "1h0m1s", 90 * time.Minute: "1h30m", 10 * time.Second: "10s", 10 * time.Minute: "10m", 20 * time.Hour: "20h",
	} {
		if got := Span(d); got != want {
			t.Errorf("span(%s) = %s, want %s", d.String(), got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Hour: "1h00m", 47 * time.Hour: "47h00m",
		72 * time.Hour: "3d",
	} {
		if got := Age(d); got != want {
			t.Errorf("age(%s) = %s, want %s", d, got, want)
		}
	}
	for want, got := range map[string]string{
		"1 pod": Count(1, "pod"), "0 pods": Count(0, "pod"), "2 entries": Count(2, "entry"), "1 entry": Count(1, "entry"),
		"300,000 files": Count(300000, "file"), "2 addresses": Count(2, "address"), "1 address": Count(1, "address"), "2 patches": Count(2, "patch"),
		"1 waits": Verb(1, "waits", "wait"), "0 wait": Verb(0, "waits", "wait"), "1,002 wait": Verb(1002, "waits", "wait"),
		"23:59 UTC":            Clock(time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC), time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)),
		"2026-03-02 00:00 UTC": Clock(time.Date(2026, 3, 2, 1, 0, 0, 0, time.FixedZone("", 3600)), time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234: "-1,234", -123: "-123", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
