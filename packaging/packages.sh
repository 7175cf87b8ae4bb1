#!/bin/sh
# Makes the packages from the tree that is checked out: make packages calls it.
#
#   packaging/packages.sh TOOLS OUT
#   packaging/packages.sh TOOLS OUT image  only the container image, which is among the packages
#   packaging/packages.sh dated            only check that the commit, or SOURCE_DATE_EPOCH, gives a date
#
# TOOLS is the directory with cyclonedx-gomod (packaging/tools/go.mod).
#
# ARCHES are the architectures (amd64 arm64), the machine's own among them. ORPHAN_REAPER_PROGRAM, if it is set, is
# the program for that one, made by make build.
#
# All content comes from the tree, the module files and the commit's date, so two builds of one commit are the
# same, byte for byte (make repro). The version is that of packaging/version.sh; PACKAGE_VERSION sets another
# one, to test upgrades.
set -eu
cd "$(dirname "$0")/.."
if ! epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}; then
	echo "packages: git shows no commit here, for the reason above: mend that, or set SOURCE_DATE_EPOCH" >&2
	exit 1
fi
[ "$1" != dated ] || exit 0
repo=$PWD
tools=$(cd "$1" && pwd)
arches=${ARCHES:-amd64 arm64}
host=$(go env GOHOSTARCH)
mkdir -p "$2"
out=$(cd "$2" && pwd)
umask 022
# The oldest processors that Go supports, and no dynamic linker, whatever the builder's settings.
export LC_ALL=C TZ=UTC GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= CGO_ENABLED=0
date=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
maintainer=$(sed -n 's/^maintainer: //p' packaging/nfpm.yaml)

# v1.2.3-rc.1 is 1.2.3~rc.1 as a package: ~ sorts before the end (deb-version(7), rpm-version(7)).
semver=$(sh packaging/version.sh | sed 's/^v//')
version=$(echo "$semver" | tr - '~')

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
only=${3:-}
if [ "$only" = image ]; then rm -f "$out"/*.oci.tar; else rm -f "$out"/*; fi
root=$work/common # what both architectures share

# put MODE FILE TO
put() { install -D -m "$1" "$2" "$root$3"; }
# man FILE SECTION: with the commit's date in it, compressed without a name and a time.
man() {
	mkdir -p "$root/usr/share/man/man$2"
	sed "s/@DATE@/$(date -u -d "@$epoch" +%Y-%m-%d)/" "packaging/$1" | gzip -9n >"$root/usr/share/man/man$2/$1.gz"
}

# licenses PROGRAM: those of Go and of each module in it, with the notices. What has none may not be passed on.
licenses() {
	modules=$(go version -m "$1" | awk '$1 == "dep" { print $2 }')
	# shellcheck disable=SC2086 # one word a module
	go list -m -f '{{.Path}} {{.Version}} {{.Dir}}' $modules >"$work/modules"
	echo "The licences of what is linked into orphan-reaper. Its own is Apache-2.0."
	echo "Go $(go env GOVERSION) $(go env GOROOT)" | cat - "$work/modules" | while read -r module version dir; do
		names=$(ls -p "$dir" | grep -ixE '(licen[cs]e|copying|notice)([.-][^/]*)?') || { echo "packages: $module has no licence in $dir" >&2; exit 1; }
		for name in $names; do
			printf '\n%s\n%s %s: %s\n\n' ------------------------------------------------------------------------------ "$module" "$version" "$name"
			cat "$dir/$name"
		done
	done
}

# changelog VERSION: CHANGELOG.md as nfpm reads it. The first release that lists a change is the one that is packaged now.
changelog() {
	awk -v version="$1" -v date="$date" -v by="$maintainer" '
		/^## / { release = $2; day = $4; item = 0 }
		/^- / && release != "" {
			gsub(/[][]/, "", release)
			if (n++) { version = release; if (day ~ /^[0-9]/) date = day }
			printf "- semver: \"%s\"\n  date: %s\n  packager: %s\n  deb: {distributions: [unstable], urgency: medium}\n  changes:\n", version, date, by
			release = ""
		}
		/^- / { item = 1; print "    - note: >-" }
		item && sub(/^(- | +)/, "") { gsub(/`|\*\*/, ""); print "        " $0 }' CHANGELOG.md
}

# pack DIRECTORY FILE: what is below DIRECTORY/orphan-reaper.
pack() {
	tar -C "$1" --sort=name --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=gnu -cf - orphan-reaper | gzip -9n >"$2"
}

# chart: as helm package makes it, but reproducible: image.sh packs it with the image's digest.
chart() (
	mkdir "$work/chart"
	cp -r packaging/chart "$work/chart/orphan-reaper"
	cd "$work/chart"
	rm -rf orphan-reaper/ci orphan-reaper/files/*.test.yaml # as in .helmignore
	sed -i "s/^version: .*/version: $semver/; s/^appVersion: .*/appVersion: \"$(echo "$version" | tr '~+' '-_')\"/" orphan-reaper/Chart.yaml
)

for arch in $arches; do
	program=$work/$arch/orphan-reaper
	if [ "$arch" = "$host" ] && [ -n "${ORPHAN_REAPER_PROGRAM:-}" ]; then
		install -D -m 0755 "$ORPHAN_REAPER_PROGRAM" "$program"
	else
		make -s build GOOS=linux GOARCH="$arch" BIN="$program"
	fi
	# Without the digests of cyclonedx-gomod itself, which depend on the machine that built it.
	"$tools/cyclonedx-gomod" bin -json -noserial -notimestamp -std -version "v$semver" "$program" |
		sed -e '/^        "hashes": \[$/,/^        \],$/d' -e 's/^  "metadata": {$/&\n    "timestamp": "'"$date"'",/' >"$work/$arch.cdx.json"
done
native=$work/$host/orphan-reaper
put 0644 LICENSE /usr/share/doc/orphan-reaper/LICENSE
licenses "$native" >"$root/usr/share/doc/orphan-reaper/third-party-licenses"

# The chart and the image: the program, its list of components, and the licences.
chart
set --
for arch in $arches; do
	set -- "$@" "$arch=$work/$arch/image"
	doc=$work/$arch/image/usr/share/doc/orphan-reaper
	install -D -m 0755 "$work/$arch/orphan-reaper" "$work/$arch/image/orphan-reaper"
	install -D -m 0644 "$work/$arch.cdx.json" "$doc/orphan-reaper.cdx.json"
	cp "$root/usr/share/doc/orphan-reaper/LICENSE" "$root/usr/share/doc/orphan-reaper/third-party-licenses" "$doc"
done
revision=$(git rev-parse HEAD 2>/dev/null || true)
sh packaging/image.sh "$version" "$epoch" "$revision" "$work/chart/orphan-reaper" "$@" \
	>"$out/orphan-reaper-$version.oci.tar"
if [ "$only" = image ]; then
	ls -l "$out"/*.oci.tar
	exit
fi

put 0644 packaging/orphan-reaper.service /usr/lib/systemd/system/orphan-reaper.service
put 0644 packaging/config.yaml /etc/orphan-reaper/config.yaml
man orphan-reaper.8 8
man orphan-reaper.5 5
for shell in bash zsh fish; do
	"$native" completion $shell >"$work/completion.$shell"
done
put 0644 "$work/completion.bash" /usr/share/bash-completion/completions/orphan-reaper
put 0644 "$work/completion.zsh" /usr/share/zsh/_orphan-reaper
put 0644 "$work/completion.fish" /usr/share/fish/vendor_completions.d/orphan-reaper.fish
put 0644 packaging/orphan-reaper.catalog /usr/lib/systemd/catalog/orphan-reaper.catalog
put 0644 packaging/chart/files/orphan-reaper.rules.yaml /usr/share/orphan-reaper/orphan-reaper.rules.yaml
put 0644 packaging/chart/files/dashboard.json /usr/share/orphan-reaper/dashboard.json
put 0644 packaging/copyright /usr/share/doc/orphan-reaper/copyright
put 0644 CHANGELOG.md /usr/share/doc/orphan-reaper/CHANGELOG.md
gzip -9nc "$root/usr/share/doc/orphan-reaper/third-party-licenses" >"$root/usr/share/doc/orphan-reaper/third-party-licenses.gz"
changelog "$version" >"$work/changelog.deb.yaml"
changelog "$version-1" >"$work/changelog.rpm.yaml"
put 0644 packaging/orphan-reaper.lintian-overrides /usr/share/lintian/overrides/orphan-reaper

# What is unpacked where no package manager is: all below one directory, nothing below /var.
tarball() {
	dir=$work/$1/tar/orphan-reaper
	install -D -m 0755 "$work/$1/orphan-reaper" "$dir/bin/orphan-reaper"
	sed "s|/usr/sbin/|/opt/orphan-reaper/bin/|" packaging/orphan-reaper.service >"$dir/orphan-reaper.service"
	cp packaging/config.yaml LICENSE CHANGELOG.md "$root/usr/share/doc/orphan-reaper/third-party-licenses" "$dir"
	cp packaging/tarball.md "$dir/README.md"
	cp -r "$root/usr/share/man" "$root/usr/lib/systemd/catalog" "$dir"
	cp -r "$root/usr/share/orphan-reaper" "$dir/share"
	mkdir "$dir/completions"
	cp "$work"/completion.* "$dir/completions"
	pack "$work/$1/tar" "$out/orphan-reaper_${version}_linux_$1.tar.gz"
}

# package ARCH PACKAGER FILE
package() (
	cd "$work/$1"
	sed "s|@ARCH@|$1|; s|@VERSION@|$version|; s|@MTIME@|$date|; s|@PACKAGER@|$2|" "$repo/packaging/nfpm.yaml" >nfpm.yaml
	if [ "$2" = rpm ]; then
		# An RPM has its summary apart, and fields that are none of a DEB's.
		sed -i '/^description:/{n;d}' nfpm.yaml
		echo 'license: Apache-2.0' >>nfpm.yaml
	fi
	"$work/pack" "$2" nfpm.yaml "$out/$3"
)

(cd packaging/tools && GOOS='' GOARCH='' go build -trimpath -buildvcs=false -o "$work/pack" ./pack)
cp "$work/chart/orphan-reaper.tgz" "$out/orphan-reaper-$semver.tgz"
find "$root" -exec touch -h -d "@$epoch" {} +
for arch in $arches; do
	cp "$work/$arch.cdx.json" "$out/orphan-reaper_${version}_linux_$arch.cdx.json"
	tarball $arch
	cp -r packaging/scripts "$work/$arch/scripts"
	cp -rp "$root" "$work/$arch/tree"
	install -D -m 0755 "$work/$arch/orphan-reaper" "$work/$arch/tree/usr/sbin/orphan-reaper"
	case $arch in amd64) machine=x86_64 ;; *) machine=aarch64 ;; esac
	package $arch deb "orphan-reaper_${version}_$arch.deb"
	package $arch rpm "orphan-reaper-$version-1.$machine.rpm"
done

cd "$out"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
ls -l
