#!/bin/sh
# Writes the image that the DaemonSet runs to stdout: an OCI image layout in a tar, with an image for each
# tree, without a registry and without a container engine. TREE has the program as orphan-reaper.
#
#   packaging/image.sh VERSION EPOCH REVISION ARCH=TREE...
#
# Of a tree count names, contents and what is executable, so that the same trees always give the same bytes.
set -eu
cd "$(dirname "$0")/tools"
version=$1 epoch=$2 revision=$3
shift 3
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# pack DIRECTORY: what is in it.
pack() (
	cd "$1"
	tar --sort=name --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=ustar -cf - -- *
)
for arg; do
	shift
	pack "${arg#*=}" >"$work/${arg%%=*}.tar"
	set -- "$@" "${arg%%=*}=$work/${arg%%=*}.tar"
done
GOOS='' GOARCH='' go run ./image "$version" "$epoch" "$revision" "$work/layout" "$@"
pack "$work/layout"
