{{- define "orphan-reaper.name" -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "orphan-reaper.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "orphan-reaper.labels" -}}
{{ include "orphan-reaper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The metadata of an object. Arguments: the root, what follows the name, more labels. */ -}}
{{- define "orphan-reaper.metadata" -}}
{{- $root := index . 0 }}
name: {{ include "orphan-reaper.name" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels: {{- mergeOverwrite (include "orphan-reaper.labels" $root | fromYaml) (index . 2) | toYaml | nindent 2 }}
{{- end }}

{{- define "orphan-reaper.image" -}}
{{- with .Values.image -}}
{{- if and .digest (not .tag) }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "orphan-reaper.capabilities" -}}
- DAC_OVERRIDE # the directories of other users, which containers have made
- FOWNER # files of other users in directories with the sticky bit
- SYS_PTRACE # the kubelet's root directory and log, and other mount namespaces
- SYS_CHROOT # the node's own journalctl
{{- end }}

{{- /* The directories of the node: name, path, hostPath type, read-only. Only the state directory is created. */ -}}
{{- define "orphan-reaper.directories" -}}
- {name: state, path: /var/lib/orphan-reaper, type: DirectoryOrCreate, readOnly: false}
- {name: cgroup, path: /sys/fs/cgroup, type: Directory, readOnly: true}
{{- with .Values.host }}
- {name: kubelet, path: {{ .kubelet }}, type: Directory, readOnly: false}
- {name: runtime, path: {{ .runtime }}, type: Directory, readOnly: true}
{{- if .cni }}
- {name: cni, path: {{ .cni }}, type: Directory, readOnly: false}
- {name: cni-conf, path: {{ .cniConf }}, type: Directory, readOnly: true}
{{- end }}
{{- if .journal }}
- {name: journal, path: {{ .journal }}, type: Directory, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Secret with the certificate and its authority. */ -}}
{{- define "orphan-reaper.certificate" -}}
{{- if .Values.web.issuerRef }}{{ include "orphan-reaper.name" . }}-tls{{ else }}{{ .Values.web.secret }}{{ end }}
{{- end }}
