#!/bin/bash
# Makes a release of the committed tree in clones, twice, with a new key, and has real apt and dnf install from
# it as docs/install.md describes, and refuse a tampered one. A web server on loopback in a network of its own
# serves it; only packages of this machine change.
#
#   unshare --mount ... packaging/checks/release.sh TOOLS TREES RELEASE...   (make test-release)
#
# TREES/RELEASE is a Debian for apt, as e2e/packages/trees.sh makes it; the last one is dnf's, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
repo=$PWD tools=$(realpath "$1") trees=$(realpath "$2")
shift 2
work=$(mktemp -d /var/tmp/release.XXXXXX)
mount -t tmpfs -o mode=0755 tmpfs "$work" # overlayfs has no upper layer on another overlay
trap 'umount --recursive --lazy "$work"; rmdir "$work"' EXIT
export GNUPGHOME=$work/gnupg GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
fail() {
	echo "test-release: $*" >&2
	exit 1
}
# refused WORDS COMMAND...: the command fails, and prints one of the words (grep -E).
refused() {
	local words=$1
	shift
	if ("$@") </dev/null >"$work/said" 2>&1; then
		cat "$work/said" >&2
		fail "this is not refused: $*"
	fi
	grep -qE "$words" "$work/said" || { cat "$work/said" >&2; fail "it does not say \"$words\": $*"; }
}

missing=()
while read -r command package; do
	command -v "$command" >/dev/null || missing+=("$package")
done <<-'LIST'
	gpg gpg
	gpg-agent gpg-agent
	gpgv gpgv
	createrepo_c createrepo-c
	curl curl
	dnf dnf
	openssl openssl
	python3 python3-minimal
	rpmsign rpm
	ip iproute2
LIST
if ((${#missing[@]})); then
	echo "test-release: getting ${missing[*]}" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -qq -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null
fi

mkdir -m 0700 "$GNUPGHOME"
for name in ours theirs; do
	gpg --batch --quiet --passphrase '' --quick-generate-key "$name <$name@release.invalid>" rsa3072 sign never 2>/dev/null
done
key() { gpg --batch --with-colons --list-keys "=$1 <$1@release.invalid>" 2>/dev/null | awk -F: '/^fpr/ { print $10; exit }'; }
RELEASE_KEY=$(key ours)
theirs=$(key theirs)
export RELEASE_KEY

# The requirements of a release, and the messages without them.
git clone -q --no-local . "$work/one"
one=$work/one
version=$(sed -n 's/^## \[\([0-9][^]]*\)\].*/\1/p' "$one/CHANGELOG.md" | head -n 1)
git -C "$one" tag -l "v$version" | xargs -r git -C "$one" tag -d >/dev/null
check() { sh "$one/packaging/release.sh" check; }
sed -i "s/^## \[$version\] - .*/## [$version] - Unreleased/" "$one/CHANGELOG.md"
[ -z "$(git -C "$one" status --porcelain)" ] || git -C "$one" commit -qam "Say that it is not released"
git -C "$one" tag "v$version-rc.1"
refused "no tag vX.Y.Z points at this commit, which is v$version-rc.1" check
git -C "$one" tag "v$version"
refused "CHANGELOG.md has no section '## \[$version\] - DATE'" check
sed -i "s/^## \[$version\] - .*/## [$version] - $(date -u +%Y-%m-%d)/" "$one/CHANGELOG.md"
refused 'changes that are not committed' check
git -C "$one" commit -qam "Release $version"
git -C "$one" tag -f "v$version" >/dev/null
refused 'set RELEASE_URL' check
refused 'set RELEASE_URL' env RELEASE_URL=http://127.0.0.1:8000/good sh "$one/packaging/release.sh" check
export RELEASE_URL=https://127.0.0.1:8000/good
refused 'set RELEASE_BUILDER' check
refused 'set RELEASE_BUILDER' env RELEASE_BUILDER='https://builder.invalid/"one' sh "$one/packaging/release.sh" check
export RELEASE_BUILDER=https://builder.invalid/one
refused 'has no secret key 0123' env RELEASE_KEY=0123 sh "$one/packaging/release.sh" check
refused 'set RELEASE_IMAGE_KEY' check
openssl ecparam -name secp384r1 -genkey -noout -out "$work/p384.pem"
refused 'no unencrypted ECDSA P-256 key' env RELEASE_IMAGE_KEY="$work/p384.pem" sh "$one/packaging/release.sh" check
export RELEASE_IMAGE_KEY=$work/image.pem RELEASE_VULNDB=file://$work/vulndb
openssl ecparam -name prime256v1 -genkey -noout -out "$RELEASE_IMAGE_KEY"
check

# A database with one vulnerability, in a module that the program has and a function that it does not call.
mkdir -p "$work"/vulndb/{index,ID}
modified='"modified":"2026-01-02T03:04:05Z"'
echo "{$modified}" >"$work/vulndb/index/db.json"
echo "[{\"path\":\"golang.org/x/sys\",\"vulns\":[{\"id\":\"GO-2026-0001\",$modified}]}]" >"$work/vulndb/index/modules.json"
cat >"$work/vulndb/ID/GO-2026-0001.json" <<VULN
{"schema_version":"1.3.1","id":"GO-2026-0001",$modified,"affected":[{"package":{"name":"golang.org/x/sys","ecosystem":"Go"},
"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"golang.org/x/sys/unix","symbols":["NotCalled"]}]}}]}
VULN
refused 'vex: cannot look for vulnerabilities in file:///nowhere: .*RELEASE_VULNDB' sh "$one/packaging/vex.sh" "v$version" file:///nowhere

# An earlier release, as far as it counts here.
mkdir -p "$work/a/pool/0.0.1" "$work/b/pool"
printf '%s\n' 'name: orphan-reaper' 'arch: amd64' 'version: 0.0.1' 'maintainer: a <a@b>' 'description: earlier' >"$work/nfpm.yaml"
for packager in deb rpm; do "$tools/nfpm" package --config "$work/nfpm.yaml" --packager $packager --target "$work/a/pool/0.0.1/" >/dev/null; done
(cd "$work/a/pool/0.0.1" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
sums=$work/a/pool/0.0.1/SHA256SUMS
gpg --batch --quiet --armor --local-user "$theirs" --output "$sums.asc" --detach-sign "$sums"
release() { (cd "$work/$1" && RELEASE_DIR=$work/$2 sh packaging/release.sh "$tools"); }
refused 'not as it was released' release one a
gpg --batch --quiet --yes --armor --local-user "$RELEASE_KEY" --output "$sums.asc" --detach-sign "$sums"
cp -a "$work/a/pool/0.0.1" "$work/b/pool/"

# Added files, which would be signed. Each is in a directory of its own.
planted() {
	rm -rf "$work/planted"
	cp -a "$work/a" "$work/planted"
	(cd "$work/planted" && sh -euc "$2")
	refused "$1" release one planted
	[[ ! -e $work/planted/.new && ! -e $work/planted/pool/$version ]] || fail "it was refused, and something was made: $2"
}
deb=orphan-reaper_0.0.1_amd64.deb rpm=orphan-reaper-0.0.1-1.x86_64.rpm
planted '^evil_1_amd64\.deb$' "cp pool/0.0.1/$deb pool/0.0.1/evil_1_amd64.deb"
planted '^\.evil\.rpm$' "cp pool/0.0.1/$rpm pool/0.0.1/.evil.rpm"
planted 'has put this.*\./\.evil' "mkdir .evil; cp pool/0.0.1/$rpm .evil/evil.rpm"
planted 'has put this.*\./evil\.rpm' "cp pool/0.0.1/$rpm evil.rpm"
planted 'has put this.*\./pool/\.evil' "mkdir pool/.evil; cp pool/0.0.1/$rpm pool/.evil"
planted 'has put this.*\./pool/evil' "cp -r pool/0.0.1 pool/evil"
planted 'has put this.*\./pool/0\.0\.1/sub' "mkdir pool/0.0.1/sub; cp pool/0.0.1/$rpm pool/0.0.1/sub"
planted "has put this.*\\./pool/0\\.0\\.1/$deb" "mv pool/0.0.1/$deb ../elsewhere; ln -s ../../../elsewhere pool/0.0.1/$deb"
planted 'has put this.*\./pool/0\.0\.2' "mv pool/0.0.1 ../elsewhere.d; ln -s ../../elsewhere.d pool/0.0.2"
planted '^\./orphan-reaper_0\.0\.1_' "cp -r pool/0.0.1 pool/0.0.9"
planted 'has put this.*\./dists' "ln -s ../elsewhere.d dists; mkdir -p ../elsewhere.d"

release one a
pool=$work/a/pool/$version
refused 'is there already' release one a

# An independent builder gets the same, as CONTRIBUTING.md describes, in another directory, with another umask,
# time zone and language.
mkdir -p "$work/an/outsider"
awk '/^#/ { on = $0 == "### Rebuild a release" } /^```/ { block = !block; next } on && block' CONTRIBUTING.md |
	sed "s|URL|file://$work/a|g; s|https://github.com/orphan-reaper/orphan-reaper|file://$one orphan-reaper|; s|VERSION|$version|g" >"$work/outsider.sh"
(cd "$work/an/outsider" && umask 077 && MAKEFLAGS="TOOLS=$tools" TZ=Asia/Tokyo LC_ALL=C.UTF-8 sh -eu "$work/outsider.sh") >"$work/said" 2>&1 ||
	{ cat "$work/said" >&2; fail "CONTRIBUTING.md does not rebuild a release"; }
rebuilt=$work/an/outsider/orphan-reaper/dist
refused FAILED sh -c "cd $pool && sha256sum --check $rebuilt/SHA256SUMS"
for signed in "$pool/SHA256SUMS" "$pool/provenance.json" "$work/a/dists/stable/Release" "$work/a/repodata/repomd.xml"; do
	signature=$signed.asc
	[ -e "$signature" ] || signature=$signed.gpg
	gpg --batch --quiet --verify "$signature" "$signed" 2>/dev/null || fail "the signature of $signed is bad"
done
(cd "$pool" && sha256sum --quiet --strict --check SHA256SUMS)
python3 - "$pool" "$(git -C "$one" rev-parse HEAD)" <<'PYTHON'
import hashlib, json, os, sys
pool, commit = sys.argv[1:]
s = json.load(open(pool + "/provenance.json"))
said = {f["name"]: f["digest"]["sha256"] for f in s["subject"]}
are = {n: hashlib.sha256(open(pool + "/" + n, "rb").read()).hexdigest() for n in os.listdir(pool) if not n.startswith(("SHA256SUMS", "provenance"))}
of = s["predicate"]["buildDefinition"]["resolvedDependencies"]
assert said == are, (said, are)
assert of[0]["digest"]["gitCommit"] == commit and s["predicate"]["runDetails"]["builder"]["id"] == "https://builder.invalid/one", of[0]
PYTHON
[[ $(tar -xzOf "$pool/orphan-reaper-$version.tgz" orphan-reaper/Chart.yaml) == *"
version: $version
appVersion: \"$version\"
"* ]] || fail "the chart has another version"
# Image and chart as a registry has them, and by openssl alone the signatures of them and of the provenance.
mkdir "$work/layout" "$work/rpmdb"
tar -xf "$pool/orphan-reaper-$version.oci.tar" -C "$work/layout"
python3 - "$work/layout" "$pool" "$work/signed" <<'PYTHON'
import base64, hashlib, json, sys, tarfile
layout, pool, out = sys.argv[1:]
def read(file): return open(file, "rb").read()
def blob(digest):
    content = read(layout + "/blobs/" + digest.replace(":", "/"))
    assert digest == "sha256:" + hashlib.sha256(content).hexdigest()
    return content
def write(name, message, signature):
    open(out + name + ".message", "wb").write(message)
    open(out + name + ".signature", "wb").write(base64.b64decode(signature))
image, chart, *signatures = json.loads(read(layout + "/index.json"))["manifests"]
assert len(signatures) == 2, signatures
for name, of, entry in zip(("image", "chart"), (image, chart), signatures):
    m = json.loads(blob(entry["digest"]))
    message = blob(m["layers"][0]["digest"])
    assert m["subject"]["digest"] == of["digest"] == json.loads(message)["critical"]["image"]["docker-manifest-digest"], m
    write(name, message, m["layers"][0]["annotations"]["dev.cosignproject.cosign/signature"])
m = json.loads(blob(chart["digest"]))
assert m["subject"]["digest"] == image["digest"], m
packed = pool + "/orphan-reaper-%s.tgz" % json.loads(blob(m["config"]["digest"]))["version"]
assert blob(m["layers"][0]["digest"]) == read(packed)
values = tarfile.open(packed).extractfile("orphan-reaper/values.yaml").read().decode()
assert "\n  digest: %s\n" % image["digest"] in values, "the chart installs another image than the release's"
e = json.loads(read(pool + "/provenance.intoto.jsonl"))
body, kind = base64.b64decode(e["payload"]), e["payloadType"].encode()
assert body == read(pool + "/provenance.json") and kind == b"application/vnd.in-toto+json"
write("provenance", b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body), e["signatures"][0]["sig"])
PYTHON
for of in image chart provenance; do
	openssl dgst -sha256 -verify "$pool/cosign.pub" -signature "$work/signed$of.signature" "$work/signed$of.message" >/dev/null ||
		fail "the signature of the $of is bad"
done
python3 - "$pool"/*.openvex.json <<'PYTHON'
import json, sys
s = json.load(open(sys.argv[1]))["statements"]
assert [(v["vulnerability"]["name"], v["status"]) for v in s] == [("GO-2026-0001", "not_affected")], s
assert s[0]["products"][0]["@id"].startswith("pkg:golang/github.com/orphan-reaper/orphan-reaper@v"), s
PYTHON

# What RPM 6 demands of each package.
rpm_keys() { rpmkeys --dbpath "$work/rpmdb" --define '_pkgverify_level all' "$@"; }
rpm_keys --import "$work/a/orphan-reaper.asc"
rpm_keys --checksig "$pool"/*.rpm >/dev/null
refused 'SIGNATURES NOT OK' rpm_keys --checksig "$rebuilt"/*.rpm
for label in version ref.name; do
	grep -aq "\"org.opencontainers.image.$label\": *\"$version\"" "$pool/orphan-reaper-$version.oci.tar" || fail "the image has another $label"
done

# A release that fails, at the last index or at the last renames, leaves what is served as it was. The packages are
# those of the outsider, and the commit's date is that of before.
mkdir "$work/bin"
printf '#!/bin/sh\nset -eu\nmkdir -p "$2"\ncp %q/* "$2"\n' "$rebuilt" >"$one/packaging/packages.sh"
printf 'cat %q\n' "$pool"/*.openvex.json >"$one/packaging/vex.sh"
GIT_COMMITTER_DATE=$(git -C "$one" log -1 --format=%cI) git -C "$one" commit -qam "Take the packages of before"
git -C "$one" tag -f "v$version" >/dev/null
cp -a "$work/a" "$work/c"
rm -r "$work/c/pool/$version"
cp -a "$work/c" "$work/before"
# broken COMMAND SHELL: the release, where SHELL runs before this command.
broken() {
	printf '#!/bin/sh\n%s\nexec %q "$@"\n' "$2" "$(command -v "$1")" >"$work/bin/$1"
	chmod +x "$work/bin/$1"
	PATH=$work/bin:$PATH release one c
}
while read -r command shell; do
	refused 'createrepo_c:|^broken' broken "$command" "$shell"
	rm "$work/bin/$command"
	diff -r "$work/before" "$work/c" || fail "a release that failed has changed what is served: $command $shell"
done <<-'BROKEN'
	createrepo_c exit 7
	mv case "$*" in *.new/repodata*) echo broken; exit 7 ;; esac
	mv case "$*" in *.new/*.repo*) kill -TERM $PPID; echo broken; exit 7 ;; esac
BROKEN
release one c >/dev/null

# Without signatures, and what follows from them, two releases are the same.
for of in a c; do
	cp -a "$work/$of" "$work/unsigned.$of"
	sh packaging/unsign.sh "$work/unsigned.$of/pool/$version"
	cd "$work/unsigned.$of"
	find . -name '*.asc' -delete -o -name 'provenance.*' -delete -o -name repomd.xml -delete
	rm "pool/$version/SHA256SUMS" dists/stable/InRelease dists/stable/Release.gpg
	sed -i '/^Date: /d; /^Valid-Until: /d' dists/stable/Release
	for file in repodata/*.gz; do
		gunzip -c "$file" | sed 's/[0-9a-f]\{64\}//g' >"repodata/${file##*-}"
		rm "$file"
	done
	cd "$repo"
done
diff -r "$work/unsigned.a" "$work/unsigned.c"
cmp "$work/a/orphan-reaper.asc" "$work/c/orphan-reaper.asc"

RELEASED=$work/a VERSION=$version THEIRS=$theirs WORK=$work TOOLS=$tools TREES=$trees unshare --net bash "$repo/packaging/checks/released.sh" "$@"
