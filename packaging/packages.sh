#!/bin/sh
# Makes the packages from the tree that is checked out: make packages calls it.
#
#   packaging/packages.sh NFPM OUT
#
# What goes in comes from the tree, the module files and the commit's date, so two builds of
# one commit are the same, byte for byte (make repro). PACKAGE_VERSION sets a version, to test
# upgrades; else git tells it: v1.2.3 is 1.2.3, v1.2.3-rc.1 is 1.2.3~rc.1, a commit after v1.2.3 is
# 1.2.3+DATE.COMMIT.
set -eu
cd "$(dirname "$0")/.."
repo=$PWD
nfpm=$repo/$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
umask 022
export LC_ALL=C TZ=UTC

if ! epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}; then
	echo "packages: this is no git checkout: set SOURCE_DATE_EPOCH and PACKAGE_VERSION" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -f "$out"/*

# put MODE FILE TO lays a file into every tree.
put() {
	for arch in amd64 arm64; do
		install -D -m "$1" "$2" "$work/$arch/root$3"
	done
}

for arch in amd64 arm64; do
	make -s build GOARCH=$arch BIN="$work/$arch/root/usr/sbin/orphan-reaper"
done

# A tag's own commit has the tag's version; what comes after it sorts after it and before the next.
version=${PACKAGE_VERSION:-$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/~/')}
if [ -z "$version" ]; then
	tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || echo v0.0.0)
	version=$(echo "$tag" | sed 's/^v//; s/-/~/')+$(TZ=UTC git log -1 --format=%cd.%h --date=format-local:%Y%m%d%H%M%S --abbrev=12)
	[ -z "$(git status --porcelain)" ] || version=$version.dirty
fi

sed 's|/usr/local/sbin/|/usr/sbin/|' packaging/orphan-reaper.service >"$work/orphan-reaper.service"
put 0644 "$work/orphan-reaper.service" /usr/lib/systemd/system/orphan-reaper.service
put 0644 packaging/config.yaml /etc/orphan-reaper/config.yaml

date=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
for arch in amd64 arm64; do
	cp -r packaging/scripts "$work/$arch/scripts"
	sed "s|@ARCH@|$arch|; s|@VERSION@|$version|; s|@MTIME@|$date|" packaging/nfpm.yaml >"$work/$arch/nfpm.yaml"
	find "$work/$arch" -exec touch -h -d "@$epoch" {} +
	(
		cd "$work/$arch"
		"$nfpm" package --config nfpm.yaml --packager deb --target "$out/orphan-reaper_${version}_$arch.deb"
		case $arch in amd64) machine=x86_64 ;; *) machine=aarch64 ;; esac
		"$nfpm" package --config nfpm.yaml --packager rpm --target "$out/orphan-reaper-$version-1.$machine.rpm"
	) >"$work/nfpm.log" || { cat "$work/nfpm.log" >&2; exit 1; }
done

cd "$out"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
ls -l
