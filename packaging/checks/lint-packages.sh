#!/bin/sh
# Has lintian and rpmlint read the packages below OUT, and fails on any finding. Expected findings are listed,
# with their reason, in orphan-reaper.lintian-overrides and rpmlint.toml.
set -eu
cd "$(dirname "$0")/../.."
out=$1

missing=
for tool in lintian rpmlint rpm cpio; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "lint-packages: missing:$missing; install it" >&2
		exit 1
	fi
	echo "lint-packages: getting$missing" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086 # one word a package
	apt-get install -qq -y --no-install-recommends $missing </dev/null >/dev/null
fi

lintian --allow-root --fail-on error,warning "$out"/*.deb
# rpmlint reports errors by its exit code, and warnings only as text.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
# rpmlint unpacks a package by rpm2cpio and cpio, and the names in those of nfpm are absolute:
# as root it would unpack them onto this machine.
mkdir "$work/bin"
printf '#!/bin/sh\nexec %s --no-absolute-filenames "$@"\n' "$(command -v cpio)" >"$work/bin/cpio"
chmod 0755 "$work/bin/cpio"
PATH=$work/bin:$PATH rpmlint --config packaging/checks/rpmlint.toml "$out"/*.rpm >"$log" || { cat "$log"; exit 1; }
if grep ': [EW]: ' "$log"; then
	exit 1
fi
# An image-based host has a /var of its own: nothing that is installed is there.
for package in "$out"/*.deb "$out"/*.rpm; do
	case $package in
	*.deb) dpkg-deb --fsys-tarfile "$package" | tar -tf - | sed 's|^\./|/|' ;;
	*.rpm) rpm -qpl "$package" ;;
	esac >"$log"
	if grep -vE '^/(etc|usr)(/|$)' "$log"; then
		echo "lint-packages: $package has these, outside of /etc and /usr" >&2
		exit 1
	fi
done
echo "lint-packages: lintian and rpmlint have nothing to say"
