#!/bin/sh
# Makes a release from the tag of this commit: make release calls it.
#
#   packaging/release.sh TOOLS    make it (packaging/packages.sh documents TOOLS)
#   packaging/release.sh check    only check whether it can be made
#   packaging/release.sh refresh  sign apt's index in RELEASE_DIR again, before it expires; needs no tag
#
# The caller sets, by make release NAME=VALUE or in the environment:
#
#   RELEASE_URL         the URL that will serve it; it is in the files for nodes
#   RELEASE_KEY         the fingerprint of the key that signs, in the keyring of GNUPGHOME (gpg(1))
#   RELEASE_IMAGE_KEY   a PEM file with the ECDSA P-256 key that signs image, chart and provenance
#   RELEASE_BUILDER     a URI that names who builds, for the provenance
#   RELEASE_DIR         the directory to be served (dist/release); it may hold earlier releases, and nothing else
#   RELEASE_VALID_DAYS  after how many days apt refuses the index (90)
#   RELEASE_VULNDB      Go's vulnerability database (https://vuln.go.dev), or a copy: file:///DIR
#
# The directory, as any web server can serve it:
#
#   pool/1.2.3/      the packages and all else of a release; SHA256SUMS and provenance.json with signatures
#   dists/stable/    for apt: the index of all packages in pool, signed
#   repodata/        for dnf and zypper: the same
#   orphan-reaper.{asc,sources,repo}  the public key, and the files for nodes
#
# A tag always gives the same bytes, except for signatures, the digests of signed content (RPMs, image), the
# dates of apt's index, and the known vulnerabilities. packaging/unsign.sh removes the signatures inside.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022
fail() {
	echo "release: $*" >&2
	exit 1
}

missing=
for tool in gpg gpgv createrepo_c dpkg-deb rpmsign git; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
[ -z "$missing" ] || fail "missing:$missing; on Debian: apt-get install gpg gpgv createrepo-c dpkg rpm git"
[ -n "${RELEASE_KEY:-}" ] || fail "set RELEASE_KEY to the fingerprint of the key that signs"
gpg --batch --list-secret-keys "$RELEASE_KEY" >/dev/null 2>&1 ||
	fail "gpg has no secret key $RELEASE_KEY: gpg --list-secret-keys shows what it has; GNUPGHOME says where it looks"
days=${RELEASE_VALID_DAYS:-90}
case $days in
*[!0-9]* | 0*) fail "set RELEASE_VALID_DAYS to a number of days; it is $days" ;;
esac
out=${RELEASE_DIR:-dist/release}

# checked: a release can be made, and $tag, $commit, $epoch and $url are set.
checked() {
	commit=$(git rev-parse HEAD 2>/dev/null) || fail "git shows no commit here: a release is made from a tag in a checkout"
	[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed: commit them, or make the release in a clone"
	tag=$(sh packaging/version.sh)
	echo "$tag" | grep -qE '^v[0-9]+\.[0-9]+\.[0-9]+$' ||
		fail "no tag vX.Y.Z points at this commit, which is $tag: git tag --sign vX.Y.Z"
	version=${tag#v}
	grep -qE "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md ||
		fail "CHANGELOG.md has no section '## [$version] - DATE': write down what changed, and when, before you tag"
	epoch=$(git log -1 --format=%ct)
	case ${RELEASE_URL:-} in
	https://* | file://*) url=${RELEASE_URL%/} ;;
	*) fail "set RELEASE_URL to where this will be served, as https://HOST/PATH" ;;
	esac
	case ${RELEASE_BUILDER:-} in
	'' | *[!A-Za-z0-9._~:/?#@%\&=+,-]*) fail "set RELEASE_BUILDER to a URI that names who builds, as https://HOST/PATH" ;;
	esac
	[ ! -e "$out/pool/$version" ] || fail "$out/pool/$version is there already: a release is made once; remove it if it was never served"
	[ -n "${RELEASE_IMAGE_KEY:-}" ] || fail "set RELEASE_IMAGE_KEY to a file: openssl ecparam -name prime256v1 -genkey -noout -out FILE"
	key=$(realpath "$RELEASE_IMAGE_KEY")
	image public "$key" >/dev/null || fail "RELEASE_IMAGE_KEY is no key that can sign: openssl ecparam -name prime256v1 -genkey -noout -out FILE"
}
# image ARGUMENT...: packaging/tools/image.
image() (cd packaging/tools && GOOS='' GOARCH='' go run ./image "$@")

if [ "$1" = refresh ]; then
	[ -e "$out/dists/stable/Release" ] || fail "$out has no index: make release makes it"
else
	checked
fi
[ "$1" != check ] || exit 0

mkdir -p "$out/pool"
out=$(cd "$out" && pwd -P)
work=$(mktemp -d)
site=$work/site # signed files are made here, from copies that no other process changes
new=$out/.new   # where it lies, complete, before it is renamed
placed=
# A release that fails leaves what is served as it was.
undo() {
	for name in $placed; do
		rm -rf "${out:?}/$name"
		[ ! -e "$new/old/$name" ] || mv -T "$new/old/$name" "$out/$name"
	done
	rm -rf "$work" "$new"
}
trap undo EXIT
trap 'exit 1' HUP INT TERM
sign() { gpg --batch --yes --quiet --local-user "$RELEASE_KEY" --digest-algo SHA512 "$@"; }
gpg --batch --armor --export-options export-minimal --export "$RELEASE_KEY" >"$work/key.asc"
gpg --batch --dearmor <"$work/key.asc" >"$work/key.gpg"

# signed_index DIRECTORY: signs apt's Release from now on, until it expires.
signed_index() (
	cd "$1"
	now=$(date +%s)
	date() { command date -u -d "@$1" '+%a, %d %b %Y %H:%M:%S UTC'; }
	sed -i -e '/^Date: /d; /^Valid-Until: /d' \
		-e "/^Version: /a Date: $(date "$now")\nValid-Until: $(date $((now + days * 86400)))" Release
	sign --armor --output Release.gpg --detach-sign Release
	sign --output InRelease --clearsign Release
)
# place NAME...: from $new into $out.
place() {
	trap '' HUP INT TERM
	for name; do
		[ ! -e "$out/$name" ] || mv -T "$out/$name" "$new/old/$name"
		placed="$placed $name"
		mv -T "$new/$name" "$out/$name"
	done
	placed=
}

# What is there gets into the indexes again, and so below a signature of ours: only what has one, and nothing is beside it.
rm -rf "$new"
mkdir -p "$new/pool" "$new/old"
if [ "$1" = refresh ]; then
	cp -R --preserve=timestamps "$out/dists" "$new"
	(cd "$new/dists/stable" && gpgv --keyring "$work/key.gpg" Release.gpg Release &&
		sed -n 's/^ \([0-9a-f]*\) [0-9]* \(.*\)/\1  \2/p' Release | sha256sum --quiet --strict --check) >"$work/old" 2>&1 ||
		fail "$out/dists is not as it was released, or was signed by another key: nothing was made: $(cat -v "$work/old")"
	signed_index "$new/dists/stable"
	place dists
	echo "release: the index in $out is signed again, for $days days"
	exit
fi
odd=$(cd "$out" && find . -mindepth 1 -regextype posix-extended \
	\( -path ./dists -o -path ./repodata -o -path ./.new \) -type d -prune -o \
	-type d -regex '\./pool(/[0-9]+\.[0-9]+\.[0-9]+)?' -o -type f -regex '\./(orphan-reaper\.(asc|sources|repo)|pool/[^/]+/[^/]+)' -o -print -prune)
[ -z "$odd" ] || fail "no release has put this into $out: find out who did, and remove it; nothing was made: $(echo "$odd" | cat -v)"
mkdir -p "$site/pool"
for old in "$out"/pool/*/; do
	[ -d "$old" ] || continue
	at=$site/pool/$(basename "$old")
	mkdir "$at"
	(cd "$old" && cp SHA256SUMS SHA256SUMS.asc "$at" && gpgv --keyring "$work/key.gpg" "$at/SHA256SUMS.asc" "$at/SHA256SUMS" &&
		sed 's/^[^ ]*  //' "$at/SHA256SUMS" >"$work/names" && xargs -d '\n' cp -t "$at" -- <"$work/names" &&
		printf '%s\n' SHA256SUMS SHA256SUMS.asc provenance.json provenance.json.asc provenance.intoto.jsonl >>"$work/names" && ! ls -Ab | grep -vxFf "$work/names" &&
		! find . -name '*.deb' -o -name '*.rpm' | grep -vE "[_-]$(basename "$old" | sed 's/\./\\./g')[-_.]" &&
		cd "$at" && sha256sum --quiet --strict --check SHA256SUMS) >"$work/old" 2>&1 ||
		fail "$old is not as it was released, or was signed by another key: nothing was made: $(cat -v "$work/old")"
	find "$at" -type f ! -name '*.deb' ! -name '*.rpm' ! -name SHA256SUMS -delete
done

pool=$site/pool/$version
unset PACKAGE_VERSION SOURCE_DATE_EPOCH
sh packaging/packages.sh "$1" "$pool" >/dev/null
sh packaging/vex.sh "$tag" "${RELEASE_VULNDB:-https://vuln.go.dev}" >"$pool/orphan-reaper_$version.openvex.json"
rpmsign --define "_gpg_name $RELEASE_KEY" --define "__gpg $(command -v gpg)" --addsign "$pool"/*.rpm >"$work/rpmsign" 2>&1 ||
	fail "rpmsign: $(cat "$work/rpmsign")"
sh packaging/image.sh sign "$pool/orphan-reaper-$version.oci.tar" "$key"
image public "$key" >"$pool/cosign.pub"
awk -v head="## [$version]" 'index($0, head) == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md >"$pool/NOTES.md"
grep -q '^- ' "$pool/NOTES.md" || fail "the section of $version in CHANGELOG.md tells no change"
# What was packed is asked, not what was meant to be.
tar -xzOf "$pool/orphan-reaper_${version}_linux_$(go env GOHOSTARCH).tar.gz" orphan-reaper/bin/orphan-reaper >"$work/orphan-reaper"
chmod 0755 "$work/orphan-reaper"
"$work/orphan-reaper" version | grep -qF "orphan-reaper $tag " || fail "the program does not say that it is $tag: $("$work/orphan-reaper" version)"
(
	cd "$pool"
	rm SHA256SUMS
	sha256sum -- * >"$work/SHA256SUMS"
	mv "$work/SHA256SUMS" .
)
# An in-toto statement with SLSA's provenance: https://slsa.dev/spec/v1.0/provenance. The bills of materials, among the files, have the modules.
home=https://github.com/orphan-reaper/orphan-reaper
source=git+$home@refs/tags/$tag
cat >"$pool/provenance.json" <<EOF
{
  "_type": "https://in-toto.io/Statement/v1",
  "subject": [
$(sed 's|^\([0-9a-f]*\)  \(.*\)|    {"name": "\2", "digest": {"sha256": "\1"}}|; $!s|$|,|' "$pool/SHA256SUMS")
  ],
  "predicateType": "https://slsa.dev/provenance/v1",
  "predicate": {
    "buildDefinition": {
      "buildType": "$home/blob/$tag/packaging/release.sh",
      "externalParameters": {"source": "$source"},
      "internalParameters": {"go": "$(go env GOVERSION)"},
      "resolvedDependencies": [{"uri": "$source", "digest": {"gitCommit": "$commit"}}]
    },
    "runDetails": {"builder": {"id": "$RELEASE_BUILDER"}}
  }
}
EOF
for file in SHA256SUMS provenance.json; do
	sign --armor --output "$pool/$file.asc" --detach-sign "$pool/$file"
done
image envelope "$key" application/vnd.in-toto+json <"$pool/provenance.json" >"$pool/provenance.intoto.jsonl"

# apt: deb822(5), and https://wiki.debian.org/DebianRepository/Format. The digests of the packages are below the signature.
cd "$site"
for at in pool/*; do sed "s|  |  $at/|" "$at/SHA256SUMS"; done >"$work/all"
for arch in amd64 arm64; do
	index=dists/stable/main/binary-$arch
	mkdir -p "$index"
	grep "_$arch\.deb\$" "$work/all" | while read -r sum deb; do
		dpkg-deb --field "$deb"
		printf 'Filename: %s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$sum"
	done >"$index/Packages"
	gzip -9n <"$index/Packages" >"$index/Packages.gz"
done
(
	cd dists/stable
	printf '%s\n' 'Origin: orphan-reaper' 'Label: orphan-reaper' 'Suite: stable' 'Codename: stable' "Version: $version" \
		'Architectures: amd64 arm64' 'Components: main' 'SHA256:' >Release
	for file in main/binary-*/Packages*; do
		printf ' %s %s %s\n' "$(sha256sum <"$file" | cut -d' ' -f1)" "$(stat -c %s "$file")" "$file" >>Release
	done
)
signed_index dists/stable

# dnf and zypper. Sums, and no time but the commit's.
sed -n 's/^[^ ]*  \(.*\.rpm\)$/\1/p' "$work/all" >"$work/rpms"
find pool -name '*.rpm' -exec touch -d "@$epoch" {} +
createrepo_c --quiet --error-exit-val --no-database --pkglist="$work/rpms" --revision="$epoch" --set-timestamp-to-revision . 2>"$work/createrepo" ||
	fail "createrepo_c: $(cat "$work/createrepo")"
sign --armor --output repodata/repomd.xml.asc --detach-sign repodata/repomd.xml

cp "$work/key.asc" orphan-reaper.asc
printf '%s\n' 'Types: deb' "URIs: $url" 'Suites: stable' 'Components: main' 'Signed-By: /etc/apt/keyrings/orphan-reaper.asc' >orphan-reaper.sources
printf '%s\n' '[orphan-reaper]' 'name=orphan-reaper' "baseurl=$url" 'repo_gpgcheck=1' 'gpgcheck=1' \
	'gpgkey=file:///etc/pki/rpm-gpg/orphan-reaper.asc' >orphan-reaper.repo
find . -exec touch -h -d "@$epoch" {} +

cp -R --preserve=timestamps "pool/$version" "$new/pool"
cp -R --preserve=timestamps dists repodata orphan-reaper.* "$new"
place "pool/$version" dists repodata orphan-reaper.*
echo "release: $tag is in $out, to be served as $url"
