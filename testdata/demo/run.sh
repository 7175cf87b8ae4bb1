#!/bin/sh
# Shows the built daemon at work on a node made for it: make demo. Needs Go and nothing
# else, no root; changes nothing outside a temporary directory and leaves nothing behind.
set -eu
cd "$(dirname "$0")/../.."
# The flags of make build, so that what it has compiled is not compiled again. The checkout
# may be another user's, which stamping would refuse.
exec go run -trimpath -tags=grpcnotrace -buildvcs=false ./testdata/demo "${1:-bin/orphan-reaper}"
