#!/bin/sh
# Makes what an upgrade is tried with: the packages of this tree with a higher version and
# another default configuration, as a later release may have.
#
#   e2e/packages/next.sh TOOLS OUT
set -eu
cd "$(dirname "$0")/../.."
repo=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - | tar xf - -C "$work"
ln -s "$repo/.cache" "$work/.cache"
echo '# A later release has more to say.' >>"$work/packaging/config.yaml"
SOURCE_DATE_EPOCH=1893456000 PACKAGE_VERSION=99.0.0 sh "$work/packaging/packages.sh" "$1" "$work/out" >/dev/null
rm -rf "$2"
mkdir -p "$2"
cp "$work"/out/* "$2/"
