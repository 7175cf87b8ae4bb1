#!/bin/sh
# Fails where the program is slower than it was, beside a peer.
#
#   packaging/checks/bench.sh FIGURES    packaging/checks/bench.tsv, or another such table
#   packaging/checks/bench.sh selftest   shows that it fails where it has to
#
# A line of FIGURES is a package, a benchmark of it, a ratio that it reports, and what that ratio
# was. Each benchmark runs in its short form, by turns with its peer. The lowest of three runs
# counts: other work on the machine disturbs some of them. A ratio that is worse by more than a
# quarter is measured twice more before it counts. A figure that nothing reports is a failure, too.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# lowest PACKAGE BENCHMARK RATIO: of three runs; nothing where there is none.
lowest() {
	pattern="^Benchmark$(printf %s "$2" | sed 's|/|$/^|g')\$"
	go test -run '^$' -bench "$pattern" -benchtime 1x -count 3 -timeout 10m "./$1" >"$work/out" 2>&1 || cat "$work/out" >&2
	awk -v ratio="$3" '{ for (i = 2; i < NF; i++) if ($(i + 1) == ratio && (low == "" || $i < low)) low = $i } END { print low }' "$work/out"
}

# check PACKAGE BENCHMARK RATIO FIGURE
check() {
	for try in 1 2 3; do
		got=$(lowest "$1" "$2" "$3")
		if [ -z "$got" ]; then
			echo "$2 reports no $3" >&2
			return 1
		fi
		echo "$2: $3 $got, $4 in the tree"
		if awk -v got="$got" -v figure="$4" 'BEGIN { exit !(got <= figure * 1.25) }'; then
			return 0
		fi
	done
	echo "$2 is slower by more than a quarter than it was, three times. Find out why. If it has to be so, say why in" >&2
	echo "docs/measured.md and write the new figure into packaging/checks/bench.tsv" >&2
	return 1
}

if [ "$1" = selftest ]; then
	if check reaper/quarantine RemovePods ratio-to-rm 0.001 2>/dev/null || check reaper/quarantine RemovePods no-such-ratio 1 2>/dev/null; then
		echo "a ratio that is worse, or missing, was not found" >&2
		exit 1
	fi
	echo "a ratio that is worse, and one that is missing, are found"
	exit 0
fi
failed=0
grep -v '^#' "$1" >"$work/figures"
while read -r package benchmark ratio figure; do
	check "$package" "$benchmark" "$ratio" "$figure" || failed=1
done <"$work/figures"
exit "$failed"
