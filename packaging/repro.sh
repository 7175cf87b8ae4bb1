#!/bin/sh
# Builds the committed tree twice and compares: two clones with paths of different
# lengths, each with an empty build cache, so that the second is not the first's copy.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for copy in one the/other/one; do
	git clone -q --no-local . "$work/$copy"
	(cd "$work/$copy" && GOCACHE=$work/cache-$(basename "$(dirname "$copy")") make -s build)
	rm -rf "$work"/cache-*
done
sha256sum "$work/one/bin/orphan-reaper" "$work/the/other/one/bin/orphan-reaper" | sed "s|$work/||"
cmp "$work/one/bin/orphan-reaper" "$work/the/other/one/bin/orphan-reaper"
echo "repro: the same, byte for byte"
