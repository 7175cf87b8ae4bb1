#!/bin/sh
# Writes the OCI image layout, without a registry and without a container engine.
#
#   packaging/image.sh VERSION EPOCH REVISION CHART ARCH=TREE...
#
# It writes a tar to stdout: an image for each tree, and the chart if there is one. CHART is its directory, or ''; its
# values get the digest of the image, and it is packed as CHART.tgz. TREE has the program as
# orphan-reaper; of it count names, contents and what is executable, so that the same trees always give the same bytes.
set -eu
cd "$(dirname "$0")/tools"
export LC_ALL=C GOOS='' GOARCH=''
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout
# pack DIRECTORY: what is in it.
pack() (
	cd "$1"
	tar --sort=name --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=ustar -cf - -- *
)
version=$1 epoch=$2 revision=$3 chart=$4
shift 4
for arg; do
	shift
	pack "${arg#*=}" >"$work/${arg%%=*}.tar"
	set -- "$@" "${arg%%=*}=$work/${arg%%=*}.tar"
done
digest=$(go run ./image make "$version" "$epoch" "$revision" "$layout" "$@")
if [ -n "$chart" ]; then
	sed -i "s/^  digest: \"\"\$/  digest: $digest/" "$chart/values.yaml"
	grep -q "^  digest: sha256:" "$chart/values.yaml" || { echo "image: $chart/values.yaml has no empty digest of the image" >&2; exit 1; }
	tar -C "${chart%/*}" --sort=name --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=gnu \
		-cf - "${chart##*/}" | gzip -9n >"$chart.tgz"
	go run ./image chart "$version" "$epoch" "$revision" "$layout" "$chart.tgz"
fi
pack "$layout"
