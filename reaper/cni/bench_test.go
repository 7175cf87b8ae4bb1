package cni

import (
	"strings"
	"testing"
)

// BenchmarkCache parses the file of an ordinary pod. The StarlingX script that this
// replaces starts several processes for each file (sed, stat, rm, logger) instead, and
// looks at its name alone.
func BenchmarkCache(b *testing.B) {
	name, data := recordedCNI(b, "eth0")
	b.Run("v1", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if parsedCache(name, data).PodUID == "" {
				b.Fatal("no pod")
			}
		}
	})
	b.Run("empty", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			parsedCache(name, nil)
		}
	})
	b.Run("annotations", func(b *testing.B) {
		big := newCNIFile()
		big.CapabilityArgs = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{"a": strings.Repeat("<\"é", 1<<16)}}
		name, data := big.write(b)
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if parsedCache(name, data).PodUID == "" {
				b.Fatal("no pod")
			}
		}
	})
}

func BenchmarkHostLocal(b *testing.B) {
	data := []byte(boxID + "\r\neth0")
	b.ReportAllocs()
	for b.Loop() {
		if f := parsed(Address, "10.244.0.8", data); f.Untied != "" {
			b.Fatal("untied")
		}
	}
}
