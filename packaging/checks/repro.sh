#!/bin/sh
# Makes the packages of the committed tree twice and compares all of dist: two clones with
# paths of different lengths, each with an empty build cache, so that the second is not the
# first's copy, and with another umask, time zone and language. TOOLS is the directory of tools for both.
set -eu
cd "$(dirname "$0")/../.."
tools=$1
unset ORPHAN_REAPER_PROGRAM # both build their own
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone -q --no-local . "$work/one"
(
	umask 077
	mkdir -p "$work/the/other"
	git clone -q --no-local "$work/one" "$work/the/other/one"
)

# once COPY makes $work/COPY/dist.
once() {
	GOCACHE=$work/cache make -s -C "$work/$1" packages TOOLS="$tools"
	rm -rf "$work/cache"
}
once one
(
	umask 077
	export TZ=Asia/Tokyo LC_ALL=C.UTF-8 LANG=C.UTF-8
	once the/other/one
) >/dev/null

cat "$work/one/dist/SHA256SUMS"
diff -r "$work/one/dist" "$work/the/other/one/dist"
echo "repro: the same, byte for byte"
