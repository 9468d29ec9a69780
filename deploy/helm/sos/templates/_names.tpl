{{- define "sos.name" -}}{{ printf "%s-sos" .Release.Name | trunc 40 | trimSuffix "-" }}{{- end -}}
{{- define "sos.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}

{{- define "sos.labels" -}}
app.kubernetes.io/name: sos
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The servers as the service names them: each pod by its own name. */ -}}
{{- define "sos.servers" -}}
{{- $name := include "sos.name" . -}}
{{- range $number := until (int .Values.servers.replicas) -}}
{{- if $number }},{{ end -}}{{ $name }}-server-{{ $number }}.{{ $name }}-server:7400
{{- end -}}
{{- end -}}

{{- define "sos.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "sos.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Asked inside the pod, on loopback: the page is not published. A slow disk is no reason to kill: liveness has a minute. */ -}}
{{- define "sos.probes" -}}
startupProbe: {exec: {command: [healthy, "127.0.0.1:7480", /healthz]}, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 150}
livenessProbe: {exec: {command: [healthy, "127.0.0.1:7480", /healthz]}, periodSeconds: 15, timeoutSeconds: 5, failureThreshold: 4}
readinessProbe: {exec: {command: [healthy, "127.0.0.1:7480", /readyz]}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 2}
{{- end -}}
