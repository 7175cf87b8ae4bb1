#!/bin/sh
# Shows the built daemon at work on a node made for it: make demo. Needs Go and nothing
# else, no root; changes nothing outside two temporary directories and leaves nothing behind.
#
# The node has mount and PID namespaces of its own, and a user namespace where that is
# needed, so nothing of it outlives the demo. Where the kernel refuses them, the demo shows
# what it can without mounts. REQUIRE_ROOT=1 makes that a failure.
set -eu
cd "$(dirname "$0")/../.."
binary=$(realpath "${1:-bin/orphan-reaper}")
work=$(mktemp -d)
# A short name of constant length, since many paths with it are shown.
dir=$(printf '/tmp/node-%07d' $$)
trap 'rm -rf --one-file-system "$work" "$dir"' EXIT
trap 'exit 1' INT TERM HUP
mkdir -m 700 "$dir"
# The flags of make build, to reuse its build cache. The checkout may belong to another user, and stamping would
# refuse it.
go build -trimpath -tags=grpcnotrace,nethttpomithttp2 -buildvcs=false -o "$work/kubelet" ./testdata/demo
DEMO_LINE=$(grep -m 1 '^E.*failed to rmdir() volume.*: directory not empty' testdata/recorded/kubelet-1.30.log)
export DEMO_LINE TZ=UTC DEMO_REFUSED=

for own in "unshare" "unshare --user --map-root-user"; do
	own="$own --mount --pid --fork --kill-child --mount-proc"
	# shellcheck disable=SC2086 # these are words
	if DEMO_REFUSED=$($own mount -t tmpfs tmpfs "$dir" 2>&1); then
		$own sh testdata/demo/show.sh "$dir" "$binary" "$work/kubelet"
		exit
	fi
done
sh testdata/demo/show.sh "$dir" "$binary" "$work/kubelet"
