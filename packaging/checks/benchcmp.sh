#!/bin/sh
# Runs the benchmarks of a commit and of the working tree and shows the difference.
#
#   packaging/checks/benchcmp.sh COMMIT PATTERN
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2>/dev/null; rm -rf "$work"' EXIT
git worktree add -q --detach "$work/base" "$1"
run() { go test -run '^$' -bench "$1" -benchmem -count "${COUNT:-6}" -timeout 60m ./...; }
(cd "$work/base" && run "$2") >"$work/old"
run "$2" >"$work/new"
go tool -modfile=packaging/checks/tools.mod benchstat "$work/old" "$work/new"
