{{- define "roamq.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- define "roamq.labels" -}}
app.kubernetes.io/name: roamq
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
{{- define "roamq.selector" -}}
app.kubernetes.io/name: roamq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
