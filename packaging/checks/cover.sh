#!/bin/sh
# Coverage over every way in which the tests can run here, put together: as the user, in
# a user and mount namespace, and as root where that is asked for nothing.
set -eu
cd "$(dirname "$0")/../.."
sh packaging/checks/test-deps.sh
rm -rf coverage
raw=$PWD/coverage/raw
mkdir -p "$raw"

run() { go test -count=1 -coverpkg=./... "$@" ./... -args -test.gocoverdir="$raw"; }

if [ "$(id -u)" -eq 0 ]; then
	REQUIRE_ROOT=${REQUIRE_ROOT:-1} run
else
	run
	enter='unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc'
	if $enter true 2>/dev/null; then run -exec "$enter"; fi
	if sudo -n true 2>/dev/null; then run -exec 'sudo -n env REQUIRE_ROOT=1'; fi
fi
go tool covdata textfmt -i="$raw" -o=coverage/coverage.txt
go tool cover -html=coverage/coverage.txt -o coverage/coverage.html
go tool cover -func=coverage/coverage.txt | tail -n 1
