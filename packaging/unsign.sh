#!/bin/sh
# Removes the signatures inside the RPMs and the image of a released version, which gives the bytes of make packages
# back: CONTRIBUTING.md, "Rebuild a release". DIR is a copy of pool/VERSION.
#
#   packaging/unsign.sh DIR
set -eu
for image in "$1"/*.oci.tar; do
	sh "$(dirname "$0")/image.sh" unsign "$image"
done
rpmsign --delsign "$1"/*.rpm >/dev/null
