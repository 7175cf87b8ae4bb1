#!/bin/sh
# Gets what the guests boot: qemu, and Debian's cloud kernel of the release of this machine, unpacked in .cache/guest.
#
#   e2e/guest/prepare.sh
set -eu
cd "$(dirname "$0")/../.."

# Command, Debian package. busybox is the first process of a guest, before its disk is there.
missing=$(while read -r command package; do
	command -v "$command" >/dev/null 2>&1 || echo "$package"
done <<'LIST'
qemu-system-x86_64 qemu-system-x86
busybox busybox-static
mke2fs e2fsprogs
cpio cpio
LIST
)
if [ -n "$missing" ]; then
	echo "guest: installing $(echo "$missing" | tr '\n' ' ')" >&2
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "guest: this is not root on Debian: install them yourself" >&2
		exit 1
	fi
	apt-get update -qq
	# shellcheck disable=SC2086 # one word a package
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing </dev/null >/dev/null
fi

[ -n "$(find /var/lib/apt/lists -name '*_Packages*' -print -quit)" ] || apt-get update -qq
# unpack DIRECTORY PACKAGE...: without installing them.
unpack() {
	(cd "$1" && shift && apt-get download -qq "$@" && for deb in ./*.deb; do dpkg-deb -x "$deb" .; done && rm ./*.deb)
}

kernel=.cache/guest/kernel
if [ ! -d "$kernel" ]; then
	echo "guest: getting Debian's cloud kernel, once" >&2
	rm -rf "$kernel.new"
	mkdir -p "$kernel.new"
	unpack "$kernel.new" "$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)"
	busybox depmod -b "$kernel.new" "$(ls "$kernel.new/lib/modules")"
	mv "$kernel.new" "$kernel"
fi
