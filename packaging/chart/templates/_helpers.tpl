{{- define "orphan-reaper.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "orphan-reaper.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "orphan-reaper.labels" -}}
{{ include "orphan-reaper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
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
