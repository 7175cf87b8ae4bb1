#!/bin/bash -eu
# Builds every fuzz target of the module, with the inputs below testdata/fuzz of its package as the seeds.
# compile_native_go_fuzzer_v2 is of OSS-Fuzz's image; the first one compiles no target that uses other test files.
# packaging/checks/fuzz.sh runs the same targets by go test.
go get github.com/AdamKorcz/go-118-fuzz-build/testing

for dir in $(go list -f '{{.Dir}}' ./...); do
	package=$(cd "$dir" && go list)
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p'); do
		compile_native_go_fuzzer_v2 "$package" "$target" "$target"
		go run .clusterfuzzlite/seeds.go "$OUT/${target}_seed_corpus.zip" "$dir/testdata/fuzz/$target"
	done
done
