#!/bin/sh
# Runs all tests that can run here, and prints at the end which could not, why, and how to run them.
#
# As root each package's tests run by testdata/canary, on a machine of their own: it fails a test that touches
# the real one. For other users the packages that mount run as root of a user and mount namespace of their own,
# with a PID namespace in which every process can be read, if the kernel allows these. With REQUIRE_ROOT=1, as
# CI has it, a skipped test is a failure. Failures are printed last, without the rest.
set -eu
cd "$(dirname "$0")/../.."
# Some run programs as another user, and what they make is compared with these modes.
umask 022
# Tests need no commit in their binaries, and git may refuse a checkout that another user owns.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
export REQUIRE_ROOT="${REQUIRE_ROOT:-0}"
sh packaging/checks/test-deps.sh
echo "make test: all tests take some minutes, and twice as long where nothing is compiled yet; CONTRIBUTING.md names the quick ones" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
code=$work/code

# A test decides whether a machine has the rights: root in a container has not all rights of root.
canary=
enter=
if [ "$(id -u)" -eq 0 ]; then
	go build -o "$work/canary" ./testdata/canary
	if [ "$REQUIRE_ROOT" = 1 ] || "$work/canary" true 2>/dev/null; then
		canary=$work/canary
	fi
elif unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc true 2>/dev/null; then
	enter='unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc'
fi

if [ "$REQUIRE_ROOT" = 1 ]; then
	go test ${canary:+-exec "$canary"} "$@" ./... ./testdata/node/...
	exit
fi

# run PACKAGES... with go test's verdict lines on stdout, everything in the log.
run() {
	{
		go test -v "$@" 2>&1 || echo 1 >"$code"
	} | tee -a "$log" | grep -E '^(ok|FAIL|\?|panic:)|^ *--- FAIL' || true
}

packages=$(go list ./... ./testdata/node/...)
if [ -n "$enter" ]; then
	mounting=$(echo "$packages" | grep -E '/reaper/(fdpath|node|quarantine)$')
	packages=$(echo "$packages" | grep -vxF "$mounting")
	# shellcheck disable=SC2086 # one word a package
	run -exec "$enter" "$@" $mounting
fi
# shellcheck disable=SC2086 # one word a package
run ${canary:+-exec "$canary"} "$@" $packages

awk -v root="$(id -u)" -v canary="$canary" -v enter="$enter" -v missing="$(sh packaging/checks/test-deps.sh missing)" -f packaging/checks/skipped.awk "$log"
if [ -s "$code" ]; then
	printf '\nWhat failed:\n'
	awk -f packaging/checks/failed.awk "$log"
	exit 1
fi
