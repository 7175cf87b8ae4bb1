#!/bin/sh
# Prints the version of the tree that is checked out, for the program, the packages, the image and
# the chart. It reads git and the newest heading of CHANGELOG.md, and no clock.
#
#   v1.2.3                        the tag of this commit
#   v1.2.3-dev.DATE+COMMIT        before that tag: CHANGELOG.md begins with 1.2.3
#   v1.2.3+DATE.COMMIT            after it, and CHANGELOG.md has no later version yet
#   v1.2.3-dev                    no git here
#
# Uncommitted changes add .dirty. PACKAGE_VERSION, in a package's notation, overrides all this. A package has ~
# for -, and no v, so that dpkg and rpm sort a pre-release before its version.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC

if [ -n "${PACKAGE_VERSION:-}" ]; then
	echo "v$PACKAGE_VERSION" | tr '~' '-'
	exit
fi
next=$(sed -n 's/^## \[\([0-9][^]]*\)\].*/v\1/p' CHANGELOG.md | head -n 1)
if [ -z "$next" ]; then
	echo "version: CHANGELOG.md has no version: begin it with '## [1.2.3] - Unreleased'" >&2
	exit 1
fi
# commit FORMAT
commit() { git log -1 --format="$1" --date=format-local:%Y%m%d%H%M%S --abbrev=12; }
if ! commit %h >/dev/null 2>&1; then
	echo "$next-dev"
	exit
fi
dirty=
[ -z "$(git status --porcelain)" ] || dirty=.dirty
# Of two tags the later version: v1.2.3 comes after v1.2.3-rc.1.
tag=$(git -c versionsort.suffix=- tag --points-at HEAD --list 'v[0-9]*' --sort=-version:refname | head -n 1)
if [ -n "$tag" ] && [ -z "$dirty" ]; then
	echo "$tag"
	exit
fi
last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
case $last in
"$next" | "$next"-*) echo "$last+$(commit %cd.%h)$dirty" ;;
*) echo "$next-dev.$(commit %cd+%h)$dirty" ;;
esac
