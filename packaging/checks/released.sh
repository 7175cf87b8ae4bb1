#!/bin/bash
# The second half of release.sh, in a network of its own: apt and dnf, and a server of files.
#
#   RELEASED=DIR VERSION=V THEIRS=KEY WORK=DIR TOOLS=DIR TREES=DIR packaging/checks/released.sh RELEASE...
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() {
	echo "test-release: $*" >&2
	exit 1
}

# The served directories: the release, and tampered copies.
mkdir "$WORK/www"
served() { cp -a "$RELEASED" "$WORK/www/$1"; cd "$WORK/www/$1"; }
sign_by() { gpg --batch --quiet --yes --armor --local-user "$@"; }
sign() { sign_by "$THEIRS" "$@"; }
# repodata: an index of what is here, with our signature.
repodata() {
	createrepo_c --quiet . 2>/dev/null
	sign_by "$RELEASE_KEY" --output repodata/repomd.xml.asc --detach-sign repodata/repomd.xml
}
(served good)
(served index && sed -i 's/^Description: /Description: not /' dists/stable/main/binary-amd64/Packages &&
	gzip -9nc dists/stable/main/binary-amd64/Packages >dists/stable/main/binary-amd64/Packages.gz &&
	for file in repodata/*-primary.xml.gz; do (zcat "$file" | sed 's/<summary>/&not /' | gzip -9n >new && mv new "$file"); done)
(served signed && sed -i 's/^Label: .*/Label: another/' dists/stable/InRelease dists/stable/Release &&
	sed -i 's|</repomd>|<!-- another --></repomd>|' repodata/repomd.xml)
(served key && sign --output dists/stable/InRelease --clearsign dists/stable/Release &&
	sign --output dists/stable/Release.gpg --detach-sign dists/stable/Release &&
	sign --output repodata/repomd.xml.asc --detach-sign repodata/repomd.xml)
(served package && for file in pool/*/*_amd64.deb pool/*/*.x86_64.rpm; do printf x | dd of="$file" bs=1 seek=20000 conv=notrunc status=none; done)
(served unsigned && rm dists/stable/InRelease dists/stable/Release.gpg repodata/repomd.xml.asc)
(served stripped && rpmsign --delsign pool/*/*.rpm >/dev/null && repodata)
(served other && rpmsign --define "_gpg_name $THEIRS" --define "__gpg $(command -v gpg)" --resign pool/*/*.rpm &>/dev/null && repodata)
(served expired && cd dists/stable && sed -i "s/^Valid-Until: .*/Valid-Until: $(date -u -d -1hour '+%a, %d %b %Y %H:%M:%S UTC')/" Release &&
	sign_by "$RELEASE_KEY" --output InRelease --clearsign Release && sign_by "$RELEASE_KEY" --output Release.gpg --detach-sign Release)
# An index that expires is signed again, if it is ours.
refresh() { RELEASE_DIR=$WORK/www/$1 sh packaging/release.sh refresh; }
for of in index signed key unsigned; do
	if refresh $of >"$WORK/said" 2>&1 || ! grep -q 'is not as it was released' "$WORK/said"; then cat "$WORK/said" >&2; fail "refresh takes $of"; fi
done
cp -a "$WORK/www/expired" "$WORK/www/refreshed"
refresh refreshed >/dev/null
# Dependencies of the RPM that an empty database of packages does not have.
mkdir "$WORK/www/system"
printf '%s\n' 'name: system' 'arch: amd64' 'version: 1' 'maintainer: a <a@b>' 'description: system' 'provides: [/bin/sh]' >"$WORK/system.yaml"
"$TOOLS/nfpm" package --config "$WORK/system.yaml" --packager rpm --target "$WORK/www/system/" >/dev/null
createrepo_c --quiet "$WORK/www/system" 2>/dev/null
ip link set lo up
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=release.invalid -addext subjectAltName=IP:127.0.0.1 \
	-keyout "$WORK/tls.key" -out "$WORK/tls.pem" 2>/dev/null
python3 - "$WORK" >"$WORK/www.log" 2>&1 <<'PYTHON' &
import functools, http.server, ssl, sys
work = sys.argv[1]
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
class Server(http.server.ThreadingHTTPServer):
    def shutdown_request(self, request):
        try:
            request.unwrap() # OpenSSL takes an end without it for an attack
        except OSError:
            pass
        super().shutdown_request(request)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(work + "/tls.pem", work + "/tls.key")
server = Server(("127.0.0.1", 8000), functools.partial(Handler, directory=work + "/www"))
server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
PYTHON
until (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do kill -0 $! || fail "no web server: $(cat "$WORK/www.log")"; done

# doc HEADING: the commands below a heading of docs/install.md.
doc() {
	awk -v heading="### $1" '
		/^#/ { on = $0 == heading }
		$0 == "```" { in_sh = 0 }
		on && in_sh
		$0 == "```sh" { in_sh = 1 }' docs/install.md >"$WORK/doc"
	[ -s "$WORK/doc" ] || fail "docs/install.md has no commands below $1"
}
# node RELEASE NAME: a writable Debian, as $WORK/NAME, with a node's files from the release in /srv.
node() {
	mkdir -p "$WORK/$2" "$WORK/upper/$2" "$WORK/over/$2"
	mount -t overlay -o "lowerdir=$TREES/$1,upperdir=$WORK/upper/$2,workdir=$WORK/over/$2" overlay "$WORK/$2"
	mount --bind /dev "$WORK/$2/dev"
	mount -t proc proc "$WORK/$2/proc"
	rm -rf "$WORK/$2"/etc/apt/sources.list*
	cp "$RELEASED"/orphan-reaper.* "$WORK/doc" "$WORK/tls.pem" "$WORK/$2/srv"
	echo 'Acquire::https::CAInfo "/srv/tls.pem";' >"$WORK/$2/etc/apt/apt.conf.d/tls"
}
# said NAME OF WORDS: NAME has printed one of the words, and has installed nothing of OF.
said() {
	grep -qE "$3" "$WORK/said.$1" || { cat "$WORK/said.$1" >&2; fail "$1 does not say \"$3\" of $2"; }
	if [[ -e $WORK/$1/usr/sbin/orphan-reaper ]]; then fail "$1 has installed it from $2"; fi
}
# installed NAME: it is installed, and equals the release.
installed() {
	local says
	says=$(chroot "$WORK/$1" orphan-reaper version) || true
	[[ $says == "orphan-reaper v$VERSION "* ]] || { cat "$WORK/said.$1" >&2; fail "$1 has installed \"$says\""; }
	echo "test-release: $1 installed ${says%%$'\n'*}, and refused the others"
}

# in_apt NAME OF: the commands, with the server's OF.
in_apt() {
	sed "s|/good|/$2|" "$RELEASED/orphan-reaper.sources" >"$WORK/$1/srv/orphan-reaper.sources"
	rm -rf "$WORK/$1"/var/lib/apt/lists "$WORK/$1"/var/cache/apt/archives/*.deb
	chroot "$WORK/$1" env LC_ALL=C DEBIAN_FRONTEND=noninteractive sh -ec 'cd /srv && . ./doc' >"$WORK/said.$1" 2>&1
}
doc 'Install by apt from a repository'
for release in "$@"; do
	if [[ $release == bullseye && ! -d $TREES/$release ]]; then
		echo "test-release: NOTHING IS TRIED ON DEBIAN 11: its tree could not be made (e2e/packages/trees.sh)" >&2
		continue
	fi
	node "$release" "$release"
	while read -r of words; do
		if in_apt "$release" "$of"; then cat "$WORK/said.$release"; fail "apt of $release takes $of"; fi
		said "$release" "$of" "$words"
	done <<-'REFUSED'
		index Hash Sum mismatch|unexpected size
		signed BADSIG|has been manipulated
		key NO_PUBKEY|Missing key
		unsigned is not signed|no longer has a Release file|does not have a Release file
		package Hash Sum mismatch
		expired is expired
	REFUSED
	in_apt "$release" refreshed || { cat "$WORK/said.$release" >&2; fail "apt of $release takes it not"; }
	installed "$release"
	[[ $(chroot "$WORK/$release" apt-cache policy orphan-reaper) == *" 0.0.1 "* ]] || fail "the earlier release is not in the index"
done

# dnf: of this machine, for an empty database of packages in a tree. It reads the key from /etc of this
# machine, over which lies a layer that only we see.
node "${*: -1}" dnf
mkdir "$WORK/upper/etc" "$WORK/over/etc"
mount -t overlay -o "lowerdir=/etc,upperdir=$WORK/upper/etc,workdir=$WORK/over/etc" overlay /etc
cat "$WORK/tls.pem" >>/etc/ssl/certs/ca-certificates.crt
rm -rf /etc/yum.repos.d
mkdir -p /etc/yum.repos.d "$WORK/log"
printf '%s\n' '[system]' 'name=system' 'baseurl=https://127.0.0.1:8000/system' 'gpgcheck=0' >/etc/yum.repos.d/system.repo
# in_dnf OF: the same, each time with an empty cache.
in_dnf() {
	sed "s|/good|/$1|" "$RELEASED/orphan-reaper.repo" >"$WORK/dnf/srv/orphan-reaper.repo"
	(
		cd "$WORK/dnf/srv"
		dnf() {
			command dnf --installroot="$WORK/dnf" --releasever=9 --setopt=module_platform_id=platform:el9 --setopt=reposdir=/etc/yum.repos.d \
				--setopt=cachedir="$WORK/cache/$1" --setopt=logdir="$WORK/log" "${@:2}"
		}
		set -e
		. <(sed "s|^dnf |dnf $1 |" "$WORK/doc")
	) >"$WORK/said.dnf" 2>&1
}
doc 'Install by dnf from a repository'
while read -r of words; do
	if in_dnf "$of"; then cat "$WORK/said.dnf"; fail "dnf takes $of"; fi
	said dnf "$of" "$words"
done <<-'REFUSED'
	index [Cc]hecksum
	signed BADSIG|[Bb]ad.*signature|GPG verification
	key BADSIG|[Bb]ad.*signature|GPG verification|not found
	unsigned repomd.xml.asc|GPG
	package [Cc]hecksum
	stripped is not signed
	other GPG check FAILED
REFUSED
in_dnf good || { cat "$WORK/said.dnf" >&2; fail "dnf takes it not"; }
installed dnf
