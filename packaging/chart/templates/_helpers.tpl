{{- define "orphan-reaper.name" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "orphan-reaper.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "orphan-reaper.labels" -}}
{{ include "orphan-reaper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "orphan-reaper.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "orphan-reaper.name" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "orphan-reaper.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "orphan-reaper.capabilities" -}}
- DAC_OVERRIDE
- FOWNER
- SYS_PTRACE
{{- if .Values.readHostJournal }}
- SYS_CHROOT
{{- end }}
{{- end }}

{{- /* One volume a directory of the node, and whether it is only read: name, path, hostPath type, read-only. */ -}}
{{- define "orphan-reaper.directories" -}}
{{- with .Values.host }}
- {name: kubelet, path: {{ .kubelet | quote }}, type: Directory, readOnly: false}
- {name: runtime, path: {{ .runtime | quote }}, type: Directory, readOnly: true}
- {name: cgroup, path: {{ .cgroup | quote }}, type: Directory, readOnly: true}
- {name: state, path: {{ .state | quote }}, type: DirectoryOrCreate, readOnly: false}
- {name: cni, path: {{ .cni | quote }}, type: DirectoryOrCreate, readOnly: false}
- {name: cni-conf, path: {{ .cniConf | quote }}, type: DirectoryOrCreate, readOnly: true}
- {name: journal, path: {{ .journal | quote }}, type: Directory, readOnly: true}
- {name: textfile, path: {{ .textfile | quote }}, type: Directory, readOnly: false}
{{- end }}
{{- end }}

{{- /* A DaemonSet's affinity. Each term asks for the label of its nodes too, since one matching term is enough.
Arguments: affinity, and label, which is an expression or nil. */ -}}
{{- define "orphan-reaper.affinity" -}}
{{- $affinity := deepCopy .affinity }}
{{- if .label }}
{{- $terms := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list dict) $affinity }}
{{- $labelled := list }}
{{- range $terms }}
{{- $labelled = append $labelled (set . "matchExpressions" (append (.matchExpressions | default list) $.label)) }}
{{- end }}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $labelled) }}
{{- $_ := set $affinity "nodeAffinity" (mergeOverwrite ($affinity.nodeAffinity | default dict) $required) }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- /* The Secret with the daemons' certificate and its authority. Empty: plain HTTP. */ -}}
{{- define "orphan-reaper.webSecret" -}}
{{- if .Values.web.configSecret }}{{ .Values.web.configSecret }}
{{- else if .Values.web.certificate }}{{ include "orphan-reaper.name" . }}-tls{{ end }}
{{- end }}

{{- define "orphan-reaper.caSecret" -}}
{{ default (include "orphan-reaper.webSecret" .) .Values.sweep.caSecret }}
{{- end }}
