#!/bin/sh
# Makes what TestJournald boots in a container: a Debian 12 with systemd, journald and dbus
# as debootstrap makes it (procps for its kill), kept in .cache/e2e/bookworm. It takes a
# minute for the first time, and nothing later. No boot changes the tree: the suite lays an
# overlay over it. prepare.sh gets debootstrap.
set -eu
cd "$(dirname "$0")/.."

tree=$PWD/.cache/e2e/bookworm
[ ! -d "$tree" ] || exit 0
echo "e2e: making a Debian 12 in .cache/e2e/bookworm, once; this takes a minute" >&2
mkdir -p "${tree%/*}"
rm -rf --one-file-system "$tree.new"
if ! debootstrap --variant=minbase --include=systemd,dbus,procps bookworm "$tree.new" >"$tree.log" 2>&1; then
	tail -n 20 "$tree.log" >&2
	echo "e2e: debootstrap failed; all it said is in $tree.log" >&2
	exit 1
fi
# Nothing of what was downloaded is needed again.
rm -rf "$tree.new"/var/cache/apt/archives/*.deb "$tree.new"/var/lib/apt/lists/*
rm -f "$tree.log"
mv "$tree.new" "$tree"
