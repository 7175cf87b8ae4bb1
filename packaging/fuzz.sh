#!/bin/sh
# Runs every fuzz target of the module for the given time each.
#
#   packaging/fuzz.sh 60s
set -eu
cd "$(dirname "$0")/.."
time=${1:-60s}
found=0
for dir in $(go list -f '{{.Dir}}' ./...); do
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p'); do
		found=$((found + 1))
		echo "--- $target in $dir"
		(cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" .)
	done
done
echo "fuzz: $found targets, $time each"
[ "$found" -gt 0 ]
