#!/bin/sh
# Writes what is known of vulnerabilities in the program's modules to stdout, as OpenVEX: release.sh calls it.
# A vulnerability whose functions the program does not call is listed as not_affected.
#
#   packaging/vex.sh TAG DATABASE
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
vulncheck="go tool -modfile=packaging/checks/tools.mod govulncheck"
CGO_ENABLED=0 GOOS=linux $vulncheck -db "$2" -format openvex ./cmd/orphan-reaper >"$work/vex" || {
	echo "vex: cannot look for vulnerabilities in $2: without the network set RELEASE_VULNDB=file:///DIR, with $2/vulndb.zip unpacked" >&2
	exit 1
}
if grep -q '"status": "affected"' "$work/vex"; then
	echo "vex: THE PROGRAM IS AFFECTED by a known vulnerability: make vuln lists it; the OpenVEX document says so" >&2
fi
# The names are those of the bills of materials.
sed -e 's|"Unknown Author"|"The orphan-reaper authors"|' \
	-e "s|\"Unknown Product\"|\"pkg:golang/github.com/orphan-reaper/orphan-reaper@$1\"|" "$work/vex"
