#!/bin/sh
# Installs the programs that the tests call. As root on Debian and its derivatives it installs only what is
# missing; elsewhere it does nothing.
#
#   packaging/checks/test-deps.sh           install
#   packaging/checks/test-deps.sh list      print "command package" pairs, one a line
#   packaging/checks/test-deps.sh missing   print the packages that are missing
#
# promtool is extracted from its package with dpkg-deb -x, into .cache/debian, so that no service is started, no user is
# added, and the host is unchanged. The Makefile appends that directory to PATH.
set -eu
cd "$(dirname "$0")/../.."

# The one list. Columns: command, Debian package.
installed='
git git
unshare util-linux
mount mount
mkfs.ext4 e2fsprogs
chattr e2fsprogs
'
# Debian 13 has promtool in a package of its own, Debian 12 in that of prometheus.
extracted='
promtool promtool|prometheus
'
prefix=.cache/debian

if [ "${1:-}" = list ]; then
	printf '%s%s' "$installed" "$extracted" | sed '/^$/d'
	exit 0
fi

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:$PWD/$prefix/usr/bin

# missing LIST prints the packages of LIST whose command is not on PATH.
missing() {
	printf '%s' "$1" | while read -r command package; do
		[ -z "$command" ] || command -v "$command" >/dev/null 2>&1 || echo "$package"
	done | sort -u | tr '\n' ' '
}

install=$(missing "$installed")
extract=$(missing "$extracted")

# available LIST prints of alternatives, a|b, the first that apt has here, else the first.
available() {
	for packages in $1; do
		chosen=${packages%%|*}
		for package in $(echo "$packages" | tr '|' ' '); do
			# A package that cannot be had has the candidate (none), one that is not known has no such line.
			if apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]'; then
				chosen=$package
				break
			fi
		done
		echo "$chosen"
	done | sort -u | tr '\n' ' '
}

if [ "${1:-}" = missing ]; then
	echo "$install$(available "$extract")"
	exit 0
fi
[ -n "$install$extract" ] || exit 0
# test.sh names them at its end.
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	exit 0
fi

echo "test-deps: getting $install$extract" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
if [ -n "$install" ]; then
	# shellcheck disable=SC2086 # one word a package
	apt-get install -qq -y --no-install-recommends $install </dev/null >/dev/null
fi
if [ -n "$extract" ]; then
	down=$(mktemp -d)
	trap 'rm -rf "$down"' EXIT
	mkdir -p "$prefix"
	# shellcheck disable=SC2086 # one word a package
	(cd "$down" && apt-get download -qq -o APT::Sandbox::User=root $(available "$extract"))
	for deb in "$down"/*.deb; do
		dpkg-deb -x "$deb" "$prefix"
	done
fi

still="$(missing "$installed")$(missing "$extracted")"
if [ -n "$still" ]; then
	echo "test-deps: still missing: $still" >&2
	exit 1
fi
