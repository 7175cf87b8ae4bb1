#!/bin/sh
# Shows the daemon at work on the node in which run.sh starts it: three dead pods, of which one may be removed, one has a
# user's data and one a volume that is still mounted; one that lives, and one that waits for its sandbox. At the end it
# checks each claim on disk: the exit code is 0 only if all hold, so it is the smoke test of CI, too.
# shellcheck disable=SC2016 # check evaluates its conditions
set -eu
cd "$1"
# The pods, in the order in which a kubelet reports them.
cart=1d6f0c5e-5b1f-4c55-9d0a-6f1f1b7a2c01
orders=4a90d1b7-03e2-4f0c-8a56-2b9be1f3d702
reports=7c2e8f14-b6a9-4d38-a1c7-90d5e6b48f03
living=a35b97e0-1f4d-4b62-9e83-c8d70a12f504
waiting=d8071c6a-e2b3-4795-b0f4-5e6a9c83d105

fail() {
	echo "demo: $*" >&2
	[ ! -f daemon.log ] || cat daemon.log >&2
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

# The files whose loss would be a disaster.
orders_file=$NODE_PODS/$orders/volumes/kubernetes.io~csi/pvc-data-orders-0/mount/precious
intact() {
	for pod in $living $waiting; do
		[ "$(cat "$NODE_PODS/$pod/volumes/kubernetes.io~empty-dir/cache/precious")" = precious ] || return 1
	done
}

control() { # changes the node
	echo "$1" >>"$NODE_CTL"
	wait_for "^ok $1\$" "$NODE_CTL.done"
}

prepare() { # adds what the node's words do not have, and writes the configuration
	mkdir storage
	echo "five years of reports" >storage/report.db
	volume=$NODE_PODS/$reports/volumes/kubernetes.io~csi/pvc-reports-0
	# Without its runtime the kubelet removes no empty directory.
	control "runtime hang"
	mkdir -p "$volume/mount"
	touch -d '1 hour ago' "$volume"
	mount --bind storage "$volume/mount"
	control "runtime start"
	# The flags as keys. The times are short so that a demo can be watched; the defaults are minutes.
	for flag in $OR_FLAGS; do
		value=${flag#*=}
		key=${flag%%=*}
		[ "$key" = --config ] || echo "$(echo "${key#--}" | tr - _): $value"
	done >node.yaml
	cat >>node.yaml <<-END
		mode: enforce
		hold: 3s                        # default 1m: how long all facts must be good
		confirm: 3s                     # default 5m: how long a moved pod is kept whole
	END
}

wait_for() { # waits for a line of a file, and shows the daemon's records meanwhile
	for _ in $(seq 600); do
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
records() { # shows the new records, without UIDs and commands
	[ -f daemon.log ] || return 0
	now=$(wc -l <daemon.log)
	[ "$now" -gt "$shown" ] || return 0
	sed -n "$((shown + 1)),${now}p" daemon.log | sed -nE 's/ \([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)//; s/(\. Undo: |; left in | \(mounted at |, which the kubelet ).*//
		s/^.*msg="(Moved|Removed|An operator|Unmounted)/  \1/p' | sed 's/" event=.*//'
	shown=$now
}

prepare
say "Before. This node was made for the demo, in $PWD. Its kubelet complains every two seconds:"
try 0 "tail -n 1 $NODE_LOG"
try 3 "orphan-reaper doctor --config node.yaml"
unmount=$(sed -n "s/^ *\(orphan-reaper unmount .*\)$/\1 --yes --config node.yaml/p" out)
[ -n "$unmount" ] || fail "doctor prints no unmount"

say "At work. The daemon moves a dead pod to quarantine. If it does not show within confirm that it is alive, what the kubelet made is" \
	"removed. Seconds here are minutes by default. The records are shortened:"
echo '$ orphan-reaper run --config node.yaml &'
orphan-reaper run --config node.yaml 2>daemon.log &
daemon=$!
wait_for "event=removed .*$cart" daemon.log
wait_for "event=cleaned .*$orders" daemon.log
say "The daemon never unmounts anything. You do, with the commands that doctor printed: a kubelet reports a pod with a mount only at" \
	"-v=3 and higher (--yes: without the question). The rest goes by itself:"
control "kubelet v 5"
wait_for "volumes are not cleaned up" "$NODE_LOG"
try 0 "$unmount"
wait_for "event=removed .*$reports" daemon.log
control "kubelet v 2"

say "web-0 lives. A forged line of the kubelet about it is written into the log. It is kept all the same:"
grep "orphaned pod" "$NODE_LOG" | tail -n 1 | sed -E "s/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/$living/g" >>"$NODE_LOG"
try 0 "orphan-reaper explain ${living%%-*} --config node.yaml | grep Verdict"
grep -q "Verdict: alive" out || fail "web-0 is not alive"

say "Undo. precious, in the CSI volume of orders-0, may be data: it waits in quarantine. One step restores the pod, and the daemon keeps" \
	"it from now on:"
if [ -e "$NODE_PODS/$orders" ] || [ -z "$(find kubelet/orphan-reaper -name precious)" ]; then
	fail "precious is not in quarantine"
fi
try 0 "orphan-reaper quarantine list --config node.yaml"
try 0 "orphan-reaper quarantine restore ${orders%%-*} --config node.yaml"

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
check "cart-0 is gone, its Secret, too" '[ ! -e $NODE_PODS/$cart ] && [ -z "$(find kubelet -name token)" ]'
check "orders-0 was in quarantine and is back, its file byte for byte" '[ "$(cat "$orders_file")" = precious ]'
check "reports-0 is gone, and what was mounted in it is whole" \
	'[ ! -e $NODE_PODS/$reports ] && [ "$(cat storage/report.db)" = "five years of reports" ]'
check "web-0 and mail-0, which waits for its sandbox, are untouched" intact
check "the daemon ended when it was told to, and left no error" '[ "$ended" = 0 ] && ! grep -q level=ERROR daemon.log'
[ -z "$failed" ] || fail "not all of these hold"
