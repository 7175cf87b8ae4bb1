#!/bin/sh
# Gets what the suites run: Debian's container runtime, what boots a Debian in a container
# (packages/trees.sh makes that Debian), Debian's etcd, a kubelet of each version, and the
# rest of a cluster of one version.
#
#   e2e/prepare.sh runtime
#   e2e/prepare.sh guests
#   e2e/prepare.sh etcd
#   e2e/prepare.sh kubelets VERSION...
#   e2e/prepare.sh cluster VERSION...
#   e2e/prepare.sh crio VERSION
#
# Kubernetes' programs are built by the ordinary Go client from the module k8s.io/kubernetes,
# in a module made for it under .cache/e2e, and kept there: minutes for the first time,
# nothing later. That module cannot be k8s.io/kubernetes itself: its go.mod takes the staging
# modules from the directory beside it, which a module download has not. The same modules
# are published as v0.x.y of the same release, and the replacements name those.
set -eu
cd "$(dirname "$0")/.."
what=${1:?runtime, guests, etcd, or kubelets, cluster or crio and the versions}
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
etcd) needed='
etcd etcd-server
' ;;
crio) needed='
conmon conmon
skopeo skopeo
gcc gcc
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
	# The packages would start containerd and etcd; the suite starts its own. policy-rc.d is how a
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

case $what in
kubelets) commands=kubelet ;;
crio) commands= ;;
cluster) commands='kubectl kube-scheduler kube-controller-manager kube-apiserver' ;;
*) exit 0 ;;
esac
cache=$PWD/.cache/e2e
mkdir -p "$cache"

# CRI-O is built in a module of its own with the versions and the checksums that CRI-O names.
if [ "$what" = crio ]; then
	[ ! -x "$cache/crio/crio" ] || exit 0
	echo "e2e: building CRI-O $1, once; this takes some minutes" >&2
	mkdir -p "$cache/crio/module"
	cd "$cache/crio/module"
	upstream=$(go mod download -json "github.com/cri-o/cri-o@v$1" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
	{
		sed 's/^module .*/module crio/' "$upstream/go.mod"
		echo "require github.com/cri-o/cri-o v$1"
	} >go.mod
	install -m 0644 "$upstream/go.sum" go.sum
	GOFLAGS=-mod=mod CGO_ENABLED=1 nice go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../crio.new \
		-tags 'containers_image_openpgp exclude_graphdriver_btrfs exclude_graphdriver_devicemapper' github.com/cri-o/cri-o/cmd/crio
	gcc -O2 -o ../pinns "$upstream"/pinns/src/*.c
	mv ../crio.new ../crio
	exit 0
fi

# module VERSION makes the module to build from.
module() {
	mkdir -p "$cache/$1/module"
	upstream=$(cd "$cache" && go mod download -json "k8s.io/kubernetes@v$1" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
	{
		echo "module kubelet"
		grep -m 1 '^go ' "$upstream"
		echo "require k8s.io/kubernetes v$1"
		sed -n "s#^\t*\(replace \)\{0,1\}\(k8s.io/[a-z0-9.-]*\) => ./staging/.*#replace \2 => \2 v0.${1#1.}#p" "$upstream"
	} >"$cache/$1/module/go.mod"
}

for version in "$@"; do
	made=
	# Before 1.27 the cloud providers are compiled in; their modules want a Go of their time.
	tags=
	case $version in 1.1[0-9].* | 1.2[0-6].*) tags=providerless ;; esac
	for command in $commands; do
		program=$cache/$version/$command
		[ ! -x "$program" ] || continue
		echo "e2e: building $command $version, once; this takes some minutes" >&2
		began=$(date +%s)
		[ -n "$made" ] || module "$version"
		made=yes
		(
			cd "$cache/$version/module"
			GOFLAGS=-mod=mod CGO_ENABLED=0 nice go build -trimpath -buildvcs=false -tags="$tags" \
				-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version" \
				-o "$program.new" "k8s.io/kubernetes/cmd/$command"
		)
		mv "$program.new" "$program"
		echo "e2e: $command $version was built in $(($(date +%s) - began)) s" >&2
	done
done
