# What the guest does under SELinux, once the kernel enforces. Each line that begins with "guest:" is a step that
# TestSELinux waits for.
set -u -o pipefail
PATH=/bin
say() { echo "guest: $*"; }
failed() {
	say "FAILED: $*"
	dmesg | grep avc: | tail -n 40
	sync
	poweroff -f
}
domain=system_u:system_r:orphan_reaper_t:s0
# Its output is a pipe: it may not open the console.
as() { domain run $domain "$@" 2>&1 | cat; }
mount -t selinuxfs selinuxfs /sys/fs/selinux
domain load /policy || failed "load the policy"
[ "$(cat /sys/fs/selinux/enforce)" = 1 ] || failed "not enforcing"
mount -t securityfs securityfs /sys/kernel/security
say "enforcing, $(cat /sys/kernel/security/lsm)"

mount -t tmpfs node /node
mkdir -p /node/bin /node/etc /node/log /node/kubelet /node/state /node/programs
echo root >/node/etc/passwd
echo root >/node/etc/shadow
echo line >/node/log/messages
cp /bin/busybox /node/bin/tool
cp /bin/busybox /node/kubelet/tool
cp /programs/* /node/programs
object=system_u:object_r
domain label $object:null_device_t:s0 /dev/null
domain label $object:var_t:s0 /node
domain label $object:bin_t:s0 /node/bin
domain label $object:etc_t:s0 /node/etc
domain label $object:shadow_t:s0 /node/etc/shadow
domain label $object:var_log_t:s0 /node/log
domain label $object:container_var_lib_t:s0 /node/kubelet
domain label $object:orphan_reaper_var_lib_t:s0 /node/state
domain label $object:orphan_reaper_exec_t:s0 /node/programs

sleep 1000 &
OTHER=$! as /node/programs/domain try || failed "what the domain must not do"
say "the domain is refused what it must not do"

# A node of a kubelet and a runtime that are played, and the daemon as systemd starts it: from init_t, without new privileges.
cart=1d6f0c5e-5b1f-4c55-9d0a-6f1f1b7a2c01
export DEMO_LIVING=a35b97e0-1f4d-4b62-9e83-c8d70a12f504
DEMO_LINE=$(cat /line)
export DEMO_LINE
pods=/node/kubelet/pods
for volume in $cart/volumes/kubernetes.io~projected/token $DEMO_LIVING/volumes/kubernetes.io~empty-dir/cache; do
	mkdir -p $pods/$volume
	echo data >$pods/$volume/file
done
domain label $object:container_var_lib_t:s0 /node/kubelet
for volume in $pods/*/volumes/*/*; do domain label $object:container_file_t:s0:c1,c2 "$volume"; done
mount -t cgroup2 cgroup /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/kubepods/pod$DEMO_LIVING /node/run /node/log/pods /node/orphan-reaper
cat >/node/orphan-reaper/config.yaml <<END
root_dir: /node/kubelet
state_dir: /node/state
log_sources: [file]
log_files: [/node/log/messages]
log_format: text
runtime_endpoint: unix:///node/run/cri.sock
metrics_file: none
hold: 3s
settle: 1s
confirm: 3s
END
cp /programs/kubelet /node/bin/kubelet
domain label $object:bin_t:s0 /node/bin/kubelet
domain label $object:container_var_run_t:s0 /node/run
domain label $object:container_log_t:s0 /node/log/pods
domain label $object:orphan_reaper_etc_t:s0 /node/orphan-reaper
domain run system_u:system_r:kubelet_t:s0 /node/bin/kubelet --root-dir=/node/kubelet --container-runtime-endpoint=unix:///node/run/cri.sock >>/node/log/messages 2>/tmp/kubelet &
cp /bin/domain /node/init
domain label $object:init_exec_t:s0 /node/init
domain run system_u:system_r:init_t:s0 /node/init start /node/programs/orphan-reaper run --config /node/orphan-reaper/config.yaml 2>&1 | cat >/tmp/daemon &
for _ in $(seq 120); do
	! grep -q "$cart removed: " /tmp/daemon || break
	sleep 0.5
done
cat /tmp/daemon /tmp/kubelet
pid=$(pidof orphan-reaper)
label=$(tr -d '\0' <"/proc/$pid/attr/current")
[ "$label" = $domain ] || failed "the daemon is $label"
grep -q "$cart removed: " /tmp/daemon || failed "the orphan"
[ ! -e $pods/$cart ] || failed "the orphan is there"
[ -e $pods/$DEMO_LIVING/volumes/kubernetes.io~empty-dir/cache/file ] || failed "the living pod"
say "the daemon ran as $label, and removed the orphan"
as /node/programs/orphan-reaper doctor --config /node/orphan-reaper/config.yaml || failed doctor
as /node/programs/orphan-reaper parse /node/log/messages || failed parse
kill "$pid"

domain load /fixtures || failed "load the fixtures"
mkdir /node/kubelet/tmp
domain label $object:container_var_lib_t:s0 /node/kubelet/tmp
export TMPDIR=/node/kubelet/tmp
tests() { # ROOM ARGUMENT...
	room=$1
	shift
	as /node/programs/$room.test -test.short -test.timeout 4m -test.v "$@" >/tmp/$room || { cat /tmp/$room && failed "the tests of $room"; }
	say "$room: $(grep -c '^--- PASS' /tmp/$room) tests passed"
}
tests beneath
# Landlock confines truncate(2) from Linux 6.2 on.
tests removal -test.skip TestConfined/truncate \
	-test.run "^(TestPark|TestParkSwapped|TestPutBack|TestClear|TestRemoveByClass|TestHostileNames|TestConfined|TestConfinedMixUp)$"
say done
