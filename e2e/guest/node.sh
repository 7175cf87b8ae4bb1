# What the guest does once systemd has booted: it becomes a node, once with each cgroup driver. Each line that begins with
# "guest:" is a step that TestNode waits for; set -e and the trap make every other end a failure.
set -eu
say() { echo "guest: $*"; }
failed() {
	say "FAILED in $driver: $*"
	systemctl status --no-pager --lines=5 kubelet containerd orphan-reaper || true
	journalctl --no-pager -u kubelet -u containerd --lines=60 || true
	journalctl --no-pager -u orphan-reaper -t orphan-reaper --lines=60 || true
	command -v orphan-reaper >/dev/null && orphan-reaper scan || true
	exit 1
}
# within SECONDS COMMAND...: repeats it until it succeeds.
within() {
	end=$(($(cut -d. -f1 /proc/uptime) + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(cut -d. -f1 /proc/uptime)" -lt $end ] || failed "$*"
		sleep 1
	done
}
driver=boot
trap '[ $? -eq 0 ] || say "FAILED in $driver"' EXIT
PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin
pods=/var/lib/kubelet/pods
manifests=/etc/kubernetes/manifests
mkdir -p $manifests /etc/containerd /etc/cni/net.d /var/lib/kubelet
for module in overlay bridge veth dummy; do modprobe $module; done
[ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] || failed "no cgroup v2"
# The kubelet takes the node's address from its default route.
/guest/busybox ip link set lo up
/guest/busybox ip link add node type dummy
/guest/busybox ip address add 192.0.2.1/24 dev node
/guest/busybox ip link set node up
/guest/busybox ip route add default via 192.0.2.2
hostname guest
printf '127.0.0.1 localhost\n192.0.2.1 guest\n' >/etc/hosts

cat >/etc/cni/net.d/10-guest.conflist <<'END'
{"cniVersion": "1.0.0", "name": "guest", "plugins": [
 {"type": "bridge", "bridge": "cni0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]]}}]}
END
unit() { # NAME COMMAND
	printf '[Service]\nExecStart=%s\nDelegate=yes\nKillMode=process\nRestart=always\n' "$2" >"/etc/systemd/system/$1.service"
}
unit containerd "/usr/bin/containerd"
unit kubelet "/usr/bin/kubelet --config=/etc/kubernetes/kubelet.yaml --hostname-override=guest"

manifest() { # NAME
	cat >"$manifests/$1.yaml" <<END
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - {name: app, image: "orphan-reaper.invalid/pause:1", imagePullPolicy: Never, args: [/data], volumeMounts: [{name: data, mountPath: /data}]}
END
}
# directory NAME: of the pod of that name, by the hosts file that the kubelet wrote for it.
directory() { dirname "$(grep -l "[[:space:]]$1-guest\$" $pods/*/etc-hosts)"; }
beats() { [ -n "$(find "$(directory "$1")/volumes/kubernetes.io~empty-dir/data/beat" -newermt '-60 seconds')" ]; }
leave() { # DIRECTORY: what a CSI driver forgot
	mkdir -p "$1/volumes/kubernetes.io~csi/pv/mount"
	echo '{}' >"$1/volumes/kubernetes.io~csi/pv/vol_data.json"
}
complains() { journalctl --no-pager -q -u kubelet --since "$1" --grep "rphaned pod" | grep -q .; }
none() { for d in "$@"; do [ ! -e "$d" ] || return 1; done; }
silent() { ! complains '-15 seconds'; }

for driver in systemd cgroupfs; do
	cat >/etc/containerd/config.toml <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "orphan-reaper.invalid/pause:1"
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = $([ $driver = systemd ] && echo true || echo false)
END
	cat >/etc/kubernetes/kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
staticPodPath: $manifests
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: $driver
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
fileCheckFrequency: 1s
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
END
	systemctl daemon-reload
	systemctl start containerd
	within 120 ctr version
	ctr -n k8s.io images import /guest/pause.tar >/dev/null
	for name in living dead; do manifest $driver-$name; done
	systemctl start kubelet
	for name in living dead; do within 600 beats $driver-$name; done
	say "$driver: two pods run"

	# One that ran and whose manifest goes, and a backlog of dead ones that are nobody's.
	living=$(directory $driver-living)
	orphans=$(directory $driver-dead)
	leave "$orphans"
	rm $manifests/$driver-dead.yaml
	for i in 01 02 03 04 05 06 07 08 09 10 11 12; do
		d=$pods/0badf00d-00$i-4000-8000-00000000000$([ $driver = systemd ] && echo 1 || echo 2)
		leave "$d"
		orphans="$orphans $d"
	done
	within 400 complains '-1 minute'
	say "$driver: the kubelet complains"

	if [ $driver = systemd ]; then
		mkdir -p /etc/orphan-reaper
		printf 'mode: enforce\nhold: 20s\nconfirm: 15s\n' >/etc/orphan-reaper/config.yaml
		dpkg --force-confold --install /guest/orphan-reaper.deb >/dev/null
		systemctl is-active orphan-reaper || systemctl start orphan-reaper
		say "$driver: the DEB is installed, $(orphan-reaper version)"
	fi
	# shellcheck disable=SC2086 # one word a directory
	within 600 none $orphans
	say "$driver: all orphans are gone"
	[ -d "$living" ] && beats $driver-living || failed "the living pod"
	say "$driver: the pod lives"
	within 300 silent
	say "$driver: the kubelet is silent"
	systemctl is-active --quiet orphan-reaper || failed "the service"
	say "$driver: peak of the service $(($(cat /sys/fs/cgroup/system.slice/orphan-reaper.service/memory.peak 2>/dev/null || echo 0) / 1048576)) MiB"

	rm -f $manifests/*.yaml
	within 300 none "$living"
	systemctl stop kubelet containerd
	ctr_left=$(pgrep -f containerd-shim || true)
	[ -z "$ctr_left" ] || kill -9 $ctr_left
	rm -f /var/lib/kubelet/cpu_manager_state /var/lib/kubelet/memory_manager_state
done
say done
