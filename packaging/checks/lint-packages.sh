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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
failed() {
	echo "lint-packages: $*" >&2
	exit 1
}

# "rpm2cpio FILE | cpio -i" as root, and rpmlint, which runs that, would unpack an absolute name over this machine.
for package in "$out"/*.rpm; do
	rpm2cpio "$package" | cpio --quiet -t >"$log" || failed "cpio cannot read the payload of $package"
	! grep -v '^\./' "$log" || failed "$package has these names in its payload, which do not begin with ./"
	rpm -qpl "$package" | sed 's/^/./' | cmp - "$log" || failed "$package installs other files than its payload has"
	rpm -K --nosignature "$package" >"$work/digests" 2>&1 || failed "rpm -K: $(cat "$work/digests")"
	# A directory that is ours alone must be removed with the package.
	sed -n 's|^\(.*/orphan-reaper\)/.*|\1|p' "$log" | sort -u >"$work/directories"
	! grep -vxFf "$log" "$work/directories" || failed "$package has files in these directories, but not the directories"
	rpm -qpR "$package" | grep -qx systemd || failed "$package does not require systemd"
done

lintian --allow-root --fail-on error,warning "$out"/*.deb
# rpmlint reports errors by its exit code, and warnings only as text.
rpmlint --config packaging/checks/rpmlint.toml "$out"/*.rpm >"$log" || { cat "$log"; exit 1; }
if grep ': [EW]: ' "$log"; then
	exit 1
fi
# An image-based host has a /var of its own: nothing that is installed is there.
for package in "$out"/*.deb "$out"/*.rpm; do
	case $package in
	*.deb) dpkg-deb --fsys-tarfile "$package" | tar -tf - | sed 's|^\./|/|' ;;
	*.rpm) rpm -qpl "$package" ;;
	esac >"$log"
	! grep -vE '^/(etc|usr)(/|$)' "$log" || failed "$package has these, outside of /etc and /usr"
done
echo "lint-packages: lintian and rpmlint have nothing to say"
