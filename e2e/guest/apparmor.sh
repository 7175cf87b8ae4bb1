#!/bin/busybox sh
# The first process of the guest with AppArmor. Each line that begins with "guest:" is a step that TestAppArmor waits for.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin:/sbin
say() { echo "guest: $*"; }
failed() {
	say "FAILED: $*"
	cat /tmp/* 2>/dev/null
	poweroff -f
}
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t securityfs securityfs /sys/kernel/security
mount -t cgroup2 cgroup /sys/fs/cgroup
profile=cri-containerd.apparmor.d
profiles=/sys/kernel/security/apparmor/profiles

# containerd makes its profile for containers, and loads it, when it starts the first one.
printf 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' >/etc/containerd.toml
containerd --config /etc/containerd.toml --log-level warn >/tmp/containerd 2>&1 &
for _ in $(seq 60); do
	! ctr version >/dev/null 2>&1 || break
	sleep 1
done
ctr images import --snapshotter native /pause.tar >/tmp/import 2>&1 || failed import
ctr run --detach --snapshotter native --apparmor-default-profile $profile orphan-reaper.invalid/pause:1 app >/tmp/run 2>&1
grep "^$profile (enforce)" $profiles || failed "$profile is not loaded: $(apparmor_parser --version 2>&1)"

# A node of a kubelet and a runtime that are played.
cart=1d6f0c5e-5b1f-4c55-9d0a-6f1f1b7a2c01
export DEMO_LIVING=a35b97e0-1f4d-4b62-9e83-c8d70a12f504
DEMO_LINE=$(cat /line)
export DEMO_LINE
pods=/var/lib/kubelet/pods
for volume in $cart/volumes/kubernetes.io~projected/token $DEMO_LIVING/volumes/kubernetes.io~empty-dir/cache; do
	mkdir -p $pods/$volume
	echo data >$pods/$volume/file
done
mkdir -p /sys/fs/cgroup/kubepods/pod$DEMO_LIVING /var/log/pods
cat >/config.yaml <<END
log_sources: [file]
log_files: [/var/log/messages]
log_format: text
runtime_endpoint: unix:///run/cri.sock
metrics_file: none
hold: 3s
settle: 1s
confirm: 3s
END
/programs/kubelet --root-dir=/var/lib/kubelet --container-runtime-endpoint=unix:///run/cri.sock >>/var/log/messages 2>/tmp/kubelet &
# below PROFILE COMMAND...
below() { sh -c 'echo "exec $0" >/proc/self/attr/exec && exec "$@"' "$@"; }
# prints WORDS: the daemon within a minute.
prints() {
	for _ in $(seq 120); do
		! grep -q "$1" /tmp/daemon || return 0
		sleep 0.5
	done
	failed "the daemon does not print $1"
}

below $profile /programs/orphan-reaper run --config /config.yaml >/tmp/daemon 2>&1 &
prints "$cart kept: .*could not be read"
below $profile /programs/orphan-reaper doctor --config /config.yaml -o json >/tmp/doctor 2>&1
say "doctor: $(grep -o 'AppArmor: [^"]*' /tmp/doctor)"
say "below the profile: $(grep "$cart" /tmp/daemon | tail -n 1)"
kill "$(pidof orphan-reaper)"
wait $!
[ -d $pods/$cart ] || failed "an orphan went below $profile"
/programs/orphan-reaper run --config /config.yaml >/tmp/daemon 2>&1 &
prints "$cart removed: "
[ ! -e $pods/$cart ] || failed "the orphan is there"
[ -e $pods/$DEMO_LIVING/volumes/kubernetes.io~empty-dir/cache/file ] || failed "the living pod"
say "without the profile the orphan was removed"
say done
poweroff -f
