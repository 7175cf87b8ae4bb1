#!/bin/sh
# Shows the built daemon at work on a node made for it (testdata/node): make demo. Needs Go and nothing else, no root;
# changes nothing outside two temporary directories and leaves nothing behind. The node has namespaces of its own: where
# the kernel refuses these, the demo ends with a message.
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
go build -trimpath -tags=grpcnotrace,nethttpomithttp2 -buildvcs=false -o "$work/node" ./testdata/node
ln -s "$binary" "$work/orphan-reaper"
PATH="$work:$PATH" TZ=UTC "$work/node" --pods testdata/demo/pods "$dir" -- sh testdata/demo/show.sh "$dir"
