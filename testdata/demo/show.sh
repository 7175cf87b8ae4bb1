#!/bin/sh
# Shows the daemon at work on a node that it makes in a directory: run.sh starts it in namespaces of its own. It mounts a tmpfs on
# the directory, and makes a kubelet's root directory with six kinds of entries: an orphan that may be removed, one with a
# user's data, one with a volume still mounted, two pods that live, and a name that is no pod's. At the end it checks each
# claim on disk: the exit code is 0 only if all hold, so it is the smoke test of CI, too.
# shellcheck disable=SC2016 # check evaluates its conditions
set -eu
dir=$1 binary=$2 kubelet=$3
# The pods, in the order in which a kubelet reports them.
cart=1d6f0c5e-5b1f-4c55-9d0a-6f1f1b7a2c01
orders=4a90d1b7-03e2-4f0c-8a56-2b9be1f3d702
reports=7c2e8f14-b6a9-4d38-a1c7-90d5e6b48f03
export DEMO_LIVING=a35b97e0-1f4d-4b62-9e83-c8d70a12f504 DEMO_STARTING=d8071c6a-e2b3-4795-b0f4-5e6a9c83d105

fail() {
	echo "demo: $*" >&2
	exit 1
}
say() { # writes a paragraph
	echo
	echo "$*" | fold -s -w 78 | sed 's/^/# /; s/ $//'
}
try() { # shows a command, runs it and wants its exit code; its output stays in out
	printf '$ %s\n' "$2"
	code=0
	sh -c "$2" >out 2>&1 || code=$?
	cat out
	[ "$code" = "$1" ] || fail "$2 ended with code $code, not $1"
}
file() { # writes a file and the directories above it
	mkdir -p "$(dirname "$1")"
	printf '%s' "$2" >"$1"
}
pod() { # makes what a kubelet itself writes into a pod's directory, as seen with 1.30
	file "kubelet/pods/$1/etc-hosts" "# Kubernetes-managed hosts file.
127.0.0.1	localhost
10.0.0.7	$2-0.$2.shop.svc.cluster.local	$2-0
"
	file "kubelet/pods/$1/containers/$2/5f2c9a10" ""
}
csi() { # makes a CSI volume of a pod
	file "kubelet/pods/$1/volumes/kubernetes.io~csi/$2/vol_data.json" "{\"driverName\":\"csi.example.com\",\"specVolID\":\"$2\",\"volumeHandle\":\"v1\"}"
}

# The files whose loss would be a disaster, and what is in them.
orders_file=kubelet/pods/$orders/volumes/kubernetes.io~csi/pvc-orders/mount/orders.csv
canaries="kubelet/pods/$DEMO_LIVING/volumes/kubernetes.io~empty-dir/uploads/photo.jpg
kubelet/pods/$DEMO_STARTING/volumes/kubernetes.io~empty-dir/spool/mail-1
kubelet/pods/lost+found/rescued"
intact() {
	for canary in $canaries; do [ "$(cat "$canary")" = precious ] || return 1; done
}

node() { # makes the node; without namespaces nothing is mounted, and there is no pod that has a mount
	if [ -z "$DEMO_REFUSED" ]; then
		mount -t tmpfs -o nosuid,nodev,mode=0700,size=64m tmpfs "$dir"
	fi
	cd "$dir"
	if [ -z "$DEMO_REFUSED" ]; then
		pod $reports reports
		csi $reports pvc-reports
		file storage/report.db "five years of reports"
		mkdir "kubelet/pods/$reports/volumes/kubernetes.io~csi/pvc-reports/mount"
		mount --bind storage "kubelet/pods/$reports/volumes/kubernetes.io~csi/pvc-reports/mount"
	fi
	pod $cart cart
	file kubelet/pods/$cart/volumes/kubernetes.io~secret/db-password/..2026_11_20_10_15_42.1803725113/password hunter2
	file kubelet/pods/$cart/plugins/kubernetes.io~empty-dir/wrapped_db-password/ready ""
	file kubelet/pods/$cart/volumes/kubernetes.io~configmap/settings/shop.ini "currency=EUR"
	pod $orders orders
	csi $orders pvc-orders
	file "$orders_file" "4711;paid"
	pod $DEMO_LIVING web
	for canary in $canaries; do file "$canary" precious; done
	# A kubelet keeps the logs of a pod as long as it wants the pod, and makes a pod's cgroup before anything else of it.
	file var/log/pods/shop_web-0_$DEMO_LIVING/web/0.log ""
	file cgroup/kubepods/burstable/pod$DEMO_STARTING/cgroup.procs ""
	file log/messages ""
	# The times are short so that a demo can be watched; the defaults are 5m each.
	file node.yaml "node_root: $dir
root_dir: $dir/kubelet
state_dir: $dir/state
log_sources: [file]
log_files: [$dir/log/messages]
log_format: text                # stderr, even where a journal is
runtime_endpoint: unix://$dir/cri.sock
cgroup_root: $dir/cgroup
metrics_file: none
node_namespaces: self           # this directory and these processes are the node
hold: 3s                        # default 5m: how long evidence must stay good
settle: 1s                      # default 5m: how long the kubelet must have run
confirm: 3s                     # default 5m: how long a parked pod may be missed
"
	mkdir bin
	ln -s "$binary" bin/orphan-reaper
	export PATH="$dir/bin:$PATH"
	# The kernel derives a process's name from the executed path, for a link its own.
	ln -s "$kubelet" kubelet/kubelet
	"$dir/kubelet/kubelet" --root-dir="$dir/kubelet" --container-runtime-endpoint="unix://$dir/cri.sock" >>log/messages &
	children=$!
	trap 'kill $children 2>/dev/null || :' EXIT
	wait_for "orphaned pod .*$cart" log/messages
}

wait_for() { # waits for a line of a file, and shows the daemon's records meanwhile
	for _ in $(seq 200); do
		records
		if grep -q "$1" "$2"; then
			records
			return
		fi
		sleep 0.2
	done
	fail "$2 has no line: $1"
}

shown=0
records() { # shows the new records, without UIDs, details and commands
	[ -f daemon.log ] || return 0
	now=$(wc -l <daemon.log)
	[ "$now" -gt "$shown" ] || return 0
	sed -n "$((shown + 1)),${now}p" daemon.log | sed -nE '/ kept: /{/mounted \(/!d;}
		s/ \([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)//; s/(\. Undo: | \(mounted at |; it goes back by itself).*//
		s/^[^ ]+ (parked|stripped|removed|kept): /  \1: /p'
	shown=$now
}

node
say "Before. This node was made for the demo, in $dir. Its kubelet complains every two seconds, in the words of a recorded one:"
try 0 "tail -n 1 log/messages"
[ -z "$DEMO_REFUSED" ] ||
	say "This host allows no namespaces of our own ($DEMO_REFUSED). So nothing is mounted, and no mount is shown."
if ! cat /proc/1/mountinfo >/dev/null 2>&1; then
	say "This host hides its processes (hidepid), so it is unknown what is mounted or in use elsewhere. orphan-reaper keeps everything then."
	try 3 "orphan-reaper sweep --dry-run --config node.yaml"
	if ! intact || [ ! -e kubelet/pods/$cart ] || [ ! -e "$orders_file" ]; then fail "something was removed"; fi
	[ "${REQUIRE_ROOT-}" != 1 ] || fail "REQUIRE_ROOT=1, and not everything could be shown"
	exit 0
fi
try 3 "orphan-reaper doctor --config node.yaml"
unmount=$(sed -n "s/^    \(orphan-reaper unmount .*\)$/\1 --yes/p" out)

say "At work. The daemon moves one dead pod to quarantine. If nothing misses it, what holds no data is removed, and the others follow." \
	"Seconds here are minutes by default. The records are shortened:"
echo '$ orphan-reaper run --config node.yaml &'
orphan-reaper run --config node.yaml 2>daemon.log &
daemon=$!
children="$children $daemon"
wait_for "^$cart removed: " daemon.log
wait_for "^$orders stripped: " daemon.log
if [ -z "$DEMO_REFUSED" ]; then
	say "The daemon never unmounts anything. You do, with the command that doctor printed (--yes: without the question). The rest goes by itself:"
	try 0 "$unmount"
	wait_for "^$reports removed: " daemon.log
fi

say "After. The kubelet is quiet:"
try 0 "orphan-reaper doctor --config node.yaml"
grep -q "You have nothing to do." out || fail "doctor finds something to do"
say "web-0 lives. A forged line of the kubelet about it is written into the log. It is kept all the same:"
tail -n 1 log/messages | sed -E "s/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/$DEMO_LIVING/g" >>log/messages
try 0 "orphan-reaper explain shop/web-0 --config node.yaml | grep -A1 Verdict"
grep -q "This pod lives." out || fail "web-0 does not live"

say "Undo. orders.csv, in the CSI volume of orders-0, may be data: it waits in quarantine. One step brings the pod back, and the kubelet" \
	"will report it again:"
if [ -e kubelet/pods/$orders ] || [ -z "$(find kubelet/orphan-reaper -name orders.csv)" ]; then
	fail "orders.csv does not lie in quarantine"
fi
try 0 "orphan-reaper quarantine restore ${orders%%-*} --config node.yaml"
wait_for "^$cart quiet: " daemon.log

kill -TERM $daemon
ended=0
wait $daemon || ended=$?
say "Checked, on disk:"
failed=
check() { # writes a claim and whether its condition holds
	if eval "$2"; then
		echo "  ok      $1"
	else
		echo "  FAILED  $1"
		failed=1
	fi
}
check "cart-0 is gone, its Secret, too" '[ ! -e kubelet/pods/$cart ] && [ -z "$(find kubelet -name password)" ]'
check "orders-0 was in quarantine and is back, orders.csv byte for byte" '[ "$(cat "$orders_file")" = "4711;paid" ]'
[ -n "$DEMO_REFUSED" ] || check "reports-0 is gone, and what was mounted in it is whole" \
	'[ ! -e kubelet/pods/$reports ] && [ "$(cat storage/report.db)" = "five years of reports" ]'
check "web-0, a pod that starts, and lost+found (no pod) are untouched" intact
check "the daemon ended when it was told to, and left no error" '[ "$ended" = 0 ]'
[ -z "$failed" ] || fail "not all of these hold"
[ -z "$DEMO_REFUSED" ] || [ "${REQUIRE_ROOT-}" != 1 ] || fail "REQUIRE_ROOT=1, and not everything could be shown: $DEMO_REFUSED"
echo
grep "^$cart quiet: " daemon.log | sed 's/.* quiet: //; s/ ([-0-9a-f]*)//'
