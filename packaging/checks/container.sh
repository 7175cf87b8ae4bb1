#!/bin/sh
# Runs the tests as a newcomer does in a container: root of a Debian as e2e/packages/trees.sh makes it, with the rights and
# system calls that Docker gives by default, beside a process of another user. What these do not allow is to be skipped, with
# its reason.
#
#   unshare --mount ... packaging/checks/container.sh TREE [NSPAWN-OPTION...]   (make test-container)
#
# The checkout, Go and its caches are the caller's and at the same paths, so that nothing is compiled twice. What is
# written to the tree or the checkout is gone at the end.
set -eu
cd "$(dirname "$0")/../.."
tree=$(realpath "$1")
shift
work=$(mktemp -d /var/tmp/container.XXXXXX)
mount -t tmpfs -o mode=0755 tmpfs "$work" # overlayfs has no upper layer on another overlay
trap 'umount --recursive --lazy "$work"; rmdir "$work"' EXIT
# layer LOWER NAME mounts at $work/NAME what is at LOWER, to be written to.
layer() {
	mkdir -m 0755 "$work/$2" "$work/$2.upper" "$work/$2.work"
	mount -t overlay -o "lowerdir=$1,upperdir=$work/$2.upper,workdir=$work/$2.work" overlay "$work/$2"
}
layer "$tree" root
layer "$PWD" checkout
# systemd-nspawn copies the machine's, which not every machine lets all users write to; apt's own user must.
mknod -m 0666 "$work/null" c 1 3
# What systemd-nspawn itself needs on any machine: one hierarchy of cgroups, and a directory of its own.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/systemd
mount -t tmpfs -o mode=0755 tmpfs /run/systemd

goroot=$(go env GOROOT) modules=$(go env GOMODCACHE) built=$(go env GOCACHE)
# The programs that test-deps.sh has unpacked are of the machine's Debian. A .cache that is a link leads out of the checkout.
if [ -L .cache ]; then
	cache=$(realpath .cache)
	layer "$cache" cache
	rm -rf "$work/cache/debian"
	set -- --bind="$work/cache:$cache" "$@"
else
	rm -rf "$work/checkout/.cache/debian"
fi
{
	systemd-nspawn --quiet --register=no --keep-unit --console=pipe --as-pid2 --link-journal=no --timezone=off --directory="$work/root" \
		--bind="$work/null:/dev/null" --bind="$work/checkout:$PWD" --bind-ro="$goroot" --bind-ro="$modules" --bind="$built" --chdir="$PWD" \
		--setenv=PATH="$goroot/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PWD/.cache/debian/usr/bin" \
		--setenv=GOMODCACHE="$modules" --setenv=GOCACHE="$built" --setenv=GOTOOLCHAIN=local --setenv=GOPROXY=off \
		--setenv=GOFLAGS=-count=1 --setenv=CGO_ENABLED=0 --drop-capability=CAP_SYS_ADMIN,CAP_SYS_PTRACE \
		--system-call-filter='~@mount ~@module ~@raw-io ~bpf ~unshare ~setns' "$@" \
		/bin/sh -c 'setpriv --reuid=1 --clear-groups sleep infinity & exec sh packaging/checks/test.sh' </dev/null 2>&1 || touch "$work/failed"
} | tee "$work/log"
if [ -e "$work/failed" ]; then
	echo "test-container: the tests fail in a container" >&2
	exit 1
fi
if ! awk '/could not run here:$/ { report = 1; next } /^How they can:/ { report = 0 }
	report && /^ *[0-9]+ tests?: / { reasons++ } report && /no reason given/ { unnamed = 1 } END { exit !reasons || unnamed }' "$work/log"; then
	echo "test-container: the report at the end does not name why tests could not run" >&2
	exit 1
fi
