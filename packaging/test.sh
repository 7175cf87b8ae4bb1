#!/bin/sh
# Runs all tests that can run here, and says which could not.
#
# As root every test runs and a skip is a failure (REQUIRE_ROOT=1; a caller's
# REQUIRE_ROOT=0 takes that back, for a container without CAP_SYS_ADMIN). Elsewhere the
# packages that mount run as root of a user and mount namespace of their own, where the
# kernel allows one.
set -eu
cd "$(dirname "$0")/.."
# Tests need no commit in their binaries, and git may refuse a checkout that another user owns.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
sh packaging/test-deps.sh

if [ "$(id -u)" -eq 0 ] && [ "${REQUIRE_ROOT:-1}" = 1 ]; then
	export REQUIRE_ROOT=1
	exec go test "$@" ./...
fi

export REQUIRE_ROOT=0
enter='unshare --user --map-root-user --mount'
log=$(mktemp)
code=$(mktemp)
trap 'rm -f "$log" "$code"' EXIT

# run PACKAGES... with go test's verdict lines on stdout, everything in the log.
run() {
	{
		go test -v "$@" 2>&1 || echo 1 >"$code"
	} | tee -a "$log" | grep -E '^(ok|FAIL|\?|panic:)|^ *--- FAIL' || true
}

packages=$(go list ./...)
mounting=
if $enter true 2>/dev/null; then
	mounting=$(echo "$packages" | grep -E '/reaper/(probe|removal)(/|$)' || true)
fi
others=$packages
[ -z "$mounting" ] || others=$(echo "$packages" | grep -vxF "$mounting" || true)

# shellcheck disable=SC2086 # one word a package
{
	[ -z "$others" ] || run "$@" $others
	[ -z "$mounting" ] || run -exec "$enter" "$@" $mounting
}

if [ -s "$code" ]; then
	echo "--- the output of the run, without what passed:" >&2
	grep -vE '^ *(=== |--- (PASS|SKIP)|PASS$)' "$log" >&2
fi

echo
if [ -z "$mounting" ]; then
	echo "No user namespace here ($enter): the tests with real mounts did not run."
fi
skipped=$(grep -cE '^ *--- SKIP' "$log" || true)
if [ "$skipped" -gt 0 ]; then
	echo "$skipped tests could not run here; as root, make test runs them all:"
	# The reason is the last line that the test itself printed.
	awk '
		/^=== (RUN|CONT|NAME)/ { name = $3; next }
		/^ *--- SKIP: / { print "  " $3 ": " said[$3]; next }
		/_test\.go:[0-9]+: / { sub(/^ *[^ ]*_test\.go:[0-9]+: /, ""); said[name] = $0 }
	' "$log"
fi
[ ! -s "$code" ]
