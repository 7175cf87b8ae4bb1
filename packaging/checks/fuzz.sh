#!/bin/sh
# Runs every fuzz target of the module for the given time each.
#
#   packaging/checks/fuzz.sh 60s
#
# go test shortens each input that reaches new code, for up to 60 s each, and runs nothing else
# meanwhile: FuzzCache came to 45 executions a second, and to 9,000 and more without. A
# hundred tries for each are enough, also for an input that fails.
set -eu
cd "$(dirname "$0")/../.."
time=${1:-60s}
found=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz runs $target in $dir. A run may end in "context deadline exceeded" when its time is up during an input:
# no input has failed then, and fuzz repeats it.
fuzz() {
	for _ in 1 2 3; do
		if (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x .) >"$log" 2>&1; then
			tail -n 3 "$log"
			return 0
		fi
		if grep -q 'Failing input written' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
			break
		fi
	done
	cat "$log"
	return 1
}

for dir in $(go list -f '{{.Dir}}' ./...); do
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p'); do
		found=$((found + 1))
		echo "--- $target in $dir"
		fuzz
	done
done
echo "fuzz: $found targets, $time each"
[ "$found" -gt 0 ]
