#!/bin/sh
# Gets what the suites run: Debian's container runtime, what boots a Debian in a container
# (packages/trees.sh makes that Debian), and a kubelet of each version.
#
#   e2e/prepare.sh runtime
#   e2e/prepare.sh guests
#   e2e/prepare.sh kubelets VERSION...
#
# A kubelet is built by the ordinary Go client from the module k8s.io/kubernetes, in a
# module made for it under .cache/e2e, and kept there: minutes for the first time, nothing
# later. That module cannot be k8s.io/kubernetes itself: its go.mod takes the staging
# modules from the directory beside it, which a module download has not. The same modules
# are published as v0.x.y of the same release, and the replacements name those.
set -eu
cd "$(dirname "$0")/.."
what=${1:?runtime, guests, or kubelets and the versions}
shift

# Command, Debian package.
case $what in
runtime) needed='
containerd containerd
ctr containerd
runc runc
/usr/lib/cni/bridge containernetworking-plugins
ip iproute2
iptables iptables
chattr e2fsprogs
' ;;
guests) needed='
nsenter util-linux
debootstrap debootstrap
systemd-nspawn systemd-container
qemu-aarch64 qemu-user
' ;;
*) needed= ;;
esac
missing=$(printf '%s' "$needed" | while read -r command package; do
	[ -z "$command" ] || command -v "$command" >/dev/null 2>&1 || echo "$package"
done | sort -u | tr '\n' ' ')
if [ -n "$missing" ]; then
	echo "e2e: installing $missing" >&2
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
		echo "e2e: this is not root on Debian: install them yourself" >&2
		exit 1
	fi
	# The packages would start containerd; the suite starts its own. policy-rc.d is how a
	# Debian machine says that no package may start anything (deb-policy, invoke-rc.d(8)).
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 0755 "$policy"
		trap 'rm -f "$policy"' EXIT
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# shellcheck disable=SC2086 # one word a package
	apt-get install -qq -y --no-install-recommends $missing </dev/null >/dev/null
fi

[ "$what" = kubelets ] || exit 0
cache=$PWD/.cache/e2e
mkdir -p "$cache"
for version in "$@"; do
	kubelet=$cache/$version/kubelet
	[ ! -x "$kubelet" ] || continue
	echo "e2e: building kubelet $version, once; this takes some minutes" >&2
	module=$cache/$version/module
	mkdir -p "$module"
	upstream=$(cd "$cache" && go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
	{
		echo "module kubelet"
		grep -m 1 '^go ' "$upstream"
		echo "require k8s.io/kubernetes v$version"
		sed -n "s#^\t*\(replace \)\{0,1\}\(k8s.io/[a-z0-9.-]*\) => ./staging/.*#replace \2 => \2 v0.${version#1.}#p" "$upstream"
	} >"$module/go.mod"
	# Before 1.27 the cloud providers are compiled in; their modules want a Go of their time.
	tags=
	case $version in 1.1[0-9].* | 1.2[0-6].*) tags=providerless ;; esac
	(
		cd "$module"
		GOFLAGS=-mod=mod CGO_ENABLED=0 nice go build -trimpath -buildvcs=false -tags="$tags" \
			-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version" \
			-o "$kubelet.new" k8s.io/kubernetes/cmd/kubelet
	)
	mv "$kubelet.new" "$kubelet"
done
