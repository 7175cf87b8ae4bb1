#!/bin/bash -eu
# Builds every fuzz target of the module, with the inputs below testdata/fuzz of its package as the seeds.
# compile_native_go_fuzzer is of OSS-Fuzz's image; packaging/checks/fuzz.sh runs the same targets by go test.
go get github.com/AdamKorcz/go-118-fuzz-build/testing

for dir in $(go list -f '{{.Dir}}' ./...); do
	package=$(cd "$dir" && go list)
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p'); do
		name=$(echo "$target" | tr '[:upper:]' '[:lower:]')
		compile_native_go_fuzzer "$package" "$target" "$name"
		if [[ -d $dir/testdata/fuzz/$target ]]; then
			go run github.com/orijtech/otils/corpus2ossfuzz@latest -o "$OUT/${name}_seed_corpus.zip" -corpus "$dir/testdata/fuzz/$target"
		fi
	done
done
