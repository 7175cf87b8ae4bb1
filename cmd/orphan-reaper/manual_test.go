package main

// manual says of each key of the configuration file what a person should know of it, beside
// its default, its choices and its flag. It is the source of packaging/config.yaml and of
// orphan-reaper.yaml(5). Paragraphs are apart by an empty line.
var manual = map[string]string{
	"root_dir": `The kubelet's root directory, as its --root-dir. Left out, the kubelet that runs is asked. Name it only where several kubelets run: ` +
		`then it says which one is meant. A directory that no running kubelet uses stops everything (reason contradiction).`,
	"mode": `enforce acts. observe looks, judges and records what would be done, and changes nothing, not even in quarantine.

Start with observe on a node that you do not know, and read the journal before you enforce.`,
	"hold": `How long the evidence against a pod must stay good: two looks at least this far apart must agree, and its directory must not ` +
		`have changed for as long. With 0s one look is enough, which no node should have.`,
	"settle": `How long the kubelet must have run before anything is taken. After a restart living pods look dead until its sources are ready.`,
	"confirm": `How long a pod that was moved to quarantine waits for a sign of life before anything of it is removed. A kubelet makes the ` +
		`directory of a living pod again within 3 minutes; less than that is no proof. 0s is taken only with "hold: 0s", for tests and demos.`,
	"retention": `How long emptyDir content stays in quarantine, and an archive of CNI files in the state directory. Where the disk nears the ` +
		`kubelet's eviction thresholds, emptyDir content goes after 10 minutes. What may be data of a user does not go by itself at all.`,
	"max_per_look": `The most pods that are taken in one look; 0 is no limit. After each start the first pod goes all the way before the next one ` +
		`is touched, whatever is set here.`,
	"quarantine_dir": `Where pods are moved to. It must lie on the same mount as the pods directory, so that moving is one rename, and not within ` +
		`that directory. While anything that was taken lies in one quarantine, another one is refused.`,
	"state_dir": `Where the ledger, the holds, the places in the logs and the archives of CNI files are kept. It belongs to root, and nobody ` +
		`else may write to it. It is made where it is not there.`,
	"log_sources": `What is read for the kubelet's words: journald, file, or both. auto is journald where it runs, else the files; on RKE2 also ` +
		`the file into which its kubelet writes. Any other kubelet that writes a file of its own needs file here, and that file in log_files. A line ` +
		`only says when to look; nothing is removed because of it.`,
	"journal_units": `The units that run a kubelet; a service in which systemd started the kubelet that runs is found besides. What other units say ` +
		`in the journal is not believed. A list here replaces all of that.`,
	"log_files": `The logs that are followed where files are read: those into which syslog writes the kubelet's lines, or the kubelet's own. ` +
		`They may be rotated. A list here replaces this one.`,
	"runtime_endpoint": `The container runtime's CRI socket. auto takes what the kubelet was told, else the usual places. Another socket than the
kubelet's stops everything (reason contradiction).

none, only with "node_namespaces: self", says that there is neither kubelet nor runtime here: for tests and demos.`,
	"runtime.remove_sandboxes": `Have the runtime stop and remove sandboxes that are not ready, of pods that nobody else knows any more. That runs ` +
		`CNI DEL and frees their addresses. Without it such pods are shown and kept (reason sandbox-orphaned).`,
	"node_namespaces": `auto acts only from the mount namespace of the node's first process, or a slave of it, since from any other the ` +
		`node's mounts cannot be seen. self says that this process's own namespaces are the node: for tests and demos.`,
	"cgroup_root": `Where the cgroup file system is mounted. Where the cgroups of the pods that run are not found there, nothing is taken.`,
	"kubelet_token_file": `A bearer token for the kubelet's own port, which is then asked for its pods at each look. It must be allowed to ` +
		`get nodes/pods, nodes/metrics and nodes/healthz (Kubernetes 1.33 and later; before, nodes/proxy, which also lets its holder ` +
		`start programs in pods). Who lists a pod keeps it; a list that is known to be whole lets a pod go that the kubelet's log never names.`,
	"kubelet_client_certificate": `A client certificate for the kubelet's own port, instead of a token. On kubeadm's control planes: ` +
		`/etc/kubernetes/pki/apiserver-kubelet-client.crt.`,
	"kubelet_client_key": `The key of that certificate; none where it is in the same file.`,
	"kubeconfig": `A kubeconfig for the API server, which is then asked for the pods that are bound to this node. The node's own ` +
		`credentials may do that: on kubeadm's nodes /etc/kubernetes/kubelet.conf. One that starts programs (exec) is refused.`,
	"node_name": `Under which name the API server knows this node. auto: as the credentials say, else the kubelet, else the host's ` +
		`name. Used with kubeconfig, with orphan_report, and in what HTTP answers.`,
	"api_unreachable": `What holds while the API server that kubeconfig names cannot be asked. keep: everything is kept. ignore: the ` +
		`other facts decide alone.`,
	"cni_cache_dir": `libcni's cache; Multus and flannel keep their files below it, too.`,
	"cni_data_dir": `host-local's dataDir, with a directory of addresses for each network. Those that a configuration in cni_conf_dir ` +
		`names are looked at as well.`,
	"cni_conf_dir":   confDirMeaning,
	"cni_older_than": `How old what CNI left must be before it is judged.`,
	"metrics_file": `Where the metrics for the node exporter's textfile collector go; the name must end in .prom. auto writes ` +
		`orphan-reaper.prom into the directory that the running node exporter was told, else the one in the file of its arguments (/etc/default, ` +
		`/etc/sysconfig), else a usual place; no directory is made. A stop takes the file away. none writes none.`,
	"web.listen_addresses": `Where HTTP is answered, each as HOST:PORT; the word systemd takes the sockets that orphan-reaper.socket opens. Without ` +
		`one no port is open. /metrics, /healthz and /readyz are for all; /v1/orphans and POST /v1/sweep for clients of this host, and for ` +
		`those that web.config_file makes say who they are. Nothing can be removed, restored or resumed over HTTP.`,
	"web.config_file": `A web configuration of Prometheus: TLS, passwords (basic_auth_users) and client certificates, as for the node exporter. ` +
		`What changes in it holds at the next request. none: plain HTTP, and nobody has to say who it is.`,
	"web.token_review": `The API server that is asked whose a client's bearer token is (TokenReview, for the audience orphan-reaper), and ` +
		`whether that user may get /v1/orphans or post /v1/sweep (SubjectAccessReview). in-cluster takes the service account of the pod that the ` +
		`daemon runs in, a path a kubeconfig; the account needs create on tokenreviews and subjectaccessreviews. Tokens are taken by TLS only. ` +
		`none takes none.`,
	"tracing.endpoint": `An OpenTelemetry collector that gets a trace of each look by OTLP over HTTP: http://HOST:4318, or https. v1/traces is added to ` +
		`the path. A trace has counts and times, and names no pod. While the collector does not take them, traces are dropped, and the node is ` +
		`looked after as before. No environment variable is read (OTEL_EXPORTER_OTLP_ENDPOINT). none sends nothing.`,
	"tracing.ca_file": `The certificates by which an https collector is known. The file is read with each trace. none: the system's.`,
	"orphan_report": `Where the daemon writes this node's OrphanReport, which kubectl get orphans shows: in-cluster takes the service account of ` +
		`the pod that it runs in, a path a kubeconfig, none writes none. The account needs create and patch on ` +
		`orphanreports.orphan-reaper.github.io, and create on events in the namespace default: that the breaker has opened, and that pods wait ` +
		`for a person, is told there too. Nothing on the node depends on it.`,
	"log_level": `The least level of what the daemon says of itself. The records of what was taken or kept have no level, and are ` +
		`always written.`,
	"log_format": `How the daemon's words and records are written. auto is journal below systemd, text elsewhere; json is one object a line.`,

	"node_root": "The directory below which all places are that nothing else names: the directories of this file and the file itself, " +
		"logs, the runtime's sockets, network namespaces. With another directory than / nothing elsewhere on this machine is read or changed; " +
		`only processes, mounts and block devices are seen as the kernel shows them. Taken only with "node_namespaces: self", for tests and demos.`,
}

const confDirMeaning = `Where the runtime has its network configurations (network_dir of CRI-O). ` +
	`Where nothing is set, those of K3s, RKE2 and MicroK8s, and those that containerd names, are read besides. ` +
	`The addresses of a network that none of them names may be another engine's, and stay, unless a cache file says whose they are.`
