#!/bin/sh
# Makes what the suite boots in containers: a Debian of each release with systemd and dbus as
# debootstrap makes it (procps for its kill), the node exporter, and an rpm. They are kept in
# .cache/packages: one takes a minute or two for the first time, and nothing later. No boot
# changes a tree: the suite lays an overlay over it. prepare.sh gets debootstrap.
#
#   e2e/packages/trees.sh RELEASE...
set -eu
cd "$(dirname "$0")/../.."

mkdir -p .cache/packages
for release in "$@"; do
	tree=$PWD/.cache/packages/$release
	[ ! -d "$tree" ] || continue
	echo "test-packages: making a Debian $release in .cache/packages, once; this takes a minute or two" >&2
	rm -rf --one-file-system "$tree.new"
	if ! debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,prometheus-node-exporter,rpm \
		"$release" "$tree.new" >"$tree.log" 2>&1; then
		tail -n 20 "$tree.log" >&2
		echo "test-packages: debootstrap failed; all it said is in $tree.log" >&2
		exit 1
	fi
	# Nothing of what was downloaded is needed again.
	rm -rf "$tree.new"/var/cache/apt/archives/*.deb "$tree.new"/var/lib/apt/lists/*
	rm -f "$tree.log"
	mv "$tree.new" "$tree"
done
