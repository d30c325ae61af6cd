{{/* Every name goes through here. Short enough for the longest suffix and prefix (63). */}}
{{- define "svcplane.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "svcplane.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 46 | trimSuffix "-" -}}
{{- end -}}

{{- define "svcplane.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "svcplane.selectorLabels" -}}
app.kubernetes.io/name: {{ include "svcplane.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "svcplane.labels" -}}
{{- $own := dict
      "app.kubernetes.io/name" (include "svcplane.name" .)
      "app.kubernetes.io/instance" .Release.Name
      "app.kubernetes.io/version" (.Chart.AppVersion | toString)
      "app.kubernetes.io/managed-by" .Release.Service
      "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{/* Metadata of an object in the namespace: (dict "root" $ "suffix" "-webhook") */}}
{{- define "svcplane.metadata" -}}
name: {{ include "svcplane.fullname" .root }}{{ .suffix | default "" }}
namespace: {{ include "svcplane.namespace" .root }}
labels:
  {{- include "svcplane.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The same of an object of the cluster: (dict "root" $ "name" "zz-…") */}}
{{- define "svcplane.clusterMetadata" -}}
name: {{ .name | default (include "svcplane.fullname" .root) }}
labels:
  {{- include "svcplane.labels" .root | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "svcplane.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "svcplane.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "svcplane.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry -}}
{{- $repository := ternary (printf "%s/%s" $registry .Values.image.repository) .Values.image.repository (ne $registry "") -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Both webhook configurations. The name sorts last, so that other webhooks have run. */}}
{{- define "svcplane.webhookConfiguration" -}}
zz-{{ include "svcplane.fullname" . }}
{{- end -}}

{{- define "svcplane.webhookSecret" -}}
{{- if eq .Values.webhook.tls.mode "existing" -}}
{{- .Values.webhook.tls.existingSecret -}}
{{- else -}}
{{- include "svcplane.fullname" . }}-webhook-tls
{{- end -}}
{{- end -}}

{{/* The host of webhook.url, if there is one. */}}
{{- define "svcplane.webhookHost" -}}
{{- with .Values.webhook.url -}}
{{- $url := urlParse . -}}
{{- regexReplaceAll "^\\[|\\]$" (regexReplaceAll ":[0-9]+$" $url.host "") "" -}}
{{- end -}}
{{- end -}}

{{- define "svcplane.writes" -}}
{{- if eq .Values.mode "active" }}true{{ end -}}
{{- end -}}

{{/* Are Endpoints and mirrors kept? With slices of its own nothing else is. */}}
{{- define "svcplane.endpoints" -}}
{{- if and .Values.controllers.endpoints.enabled (eq .Values.identity "dropIn") }}true{{ end -}}
{{- end -}}

{{- define "svcplane.mirrors" -}}
{{- if and .Values.controllers.endpointSliceMirroring.enabled (eq .Values.identity "dropIn") }}true{{ end -}}
{{- end -}}

{{/* Is there anything that keeps slices? */}}
{{- define "svcplane.slices" -}}
{{- if or .Values.controllers.endpointSlice.enabled (include "svcplane.mirrors" .) }}true{{ end -}}
{{- end -}}

{{- define "svcplane.selfManaged" -}}
{{- if and .Values.webhook.enabled (eq .Values.webhook.tls.mode "selfManaged") }}true{{ end -}}
{{- end -}}

{{/* The flag --controllers: those that are on. */}}
{{- define "svcplane.endpointControllers" -}}
{{- $on := list -}}
{{- if include "svcplane.endpoints" . }}{{ $on = append $on "endpoints-controller" }}{{ end -}}
{{- if .Values.controllers.endpointSlice.enabled }}{{ $on = append $on "endpointslice-controller" }}{{ end -}}
{{- if include "svcplane.mirrors" . }}{{ $on = append $on "endpointslice-mirroring-controller" }}{{ end -}}
{{- join "," $on -}}
{{- end -}}

{{/* All that run. */}}
{{- define "svcplane.controllers" -}}
{{- $repair := ternary "repair-controller" "" .Values.controllers.repair.enabled -}}
{{- $loadBalancer := ternary "loadbalancer-controller" "" .Values.loadBalancer.enabled -}}
{{- compact (list (include "svcplane.endpointControllers" .) $repair $loadBalancer) | join "," -}}
{{- end -}}

{{/* Something if a canary is rendered: only Endpoints and EndpointSlices of a Service with a selector can show by it. */}}
{{- define "svcplane.canary" -}}
{{- if and (eq .Values.mode "active") (eq .Values.identity "dropIn") .Values.takeover.canary.enabled (or .Values.controllers.endpoints.enabled .Values.controllers.endpointSlice.enabled) -}}
{{ include "svcplane.fullname" . }}-canary
{{- end -}}
{{- end -}}

{{/* Where an entry of the webhook leads: (dict "root" $ "path" "/mutate") */}}
{{- define "svcplane.clientConfig" -}}
{{- with .root.Values.webhook.url -}}
url: {{ trimSuffix "/" . }}{{ $.path }}
{{- else -}}
service:
  name: {{ include "svcplane.fullname" .root }}-webhook
  namespace: {{ include "svcplane.namespace" .root }}
  path: {{ .path }}
  port: 443
{{- end }}
{{- if eq .root.Values.webhook.tls.mode "existing" }}
caBundle: {{ .root.Values.webhook.tls.caBundle | b64enc }}
{{- end }}
{{- end -}}

{{/* Which Services the webhook sees. Nothing that heals a cluster waits for it; what touches no allocation does not ask it. */}}
{{- define "svcplane.seenServices" -}}
{{- $exempt := concat (list "kube-system" "kube-node-lease" "kube-public" .Release.Namespace (include "svcplane.namespace" .)) .Values.webhook.excludedNamespaces -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        {{- toYaml (uniq $exempt) | nindent 8 }}
    - key: svcplane.io/webhook
      operator: NotIn
      values: [disabled]
rules:
  - apiGroups: [""]
    apiVersions: [v1]
    operations: [CREATE, UPDATE]
    resources: [services]
    scope: Namespaced
matchConditions:
  - name: not-the-apiserver
    expression: request.userInfo.username != 'system:apiserver'
  - name: not-svcplane
    expression: request.userInfo.username != 'system:serviceaccount:{{ include "svcplane.namespace" . }}:{{ include "svcplane.serviceAccountName" . }}'
  - name: not-the-kubernetes-service
    # A name that is yet to be generated is absent, and an expression that fails is an answer that fails.
    expression: request.namespace != 'default' || !has(request.name) || request.name != 'kubernetes'
  - name: spec-differs
    expression: request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec
  {{- with .Values.webhook.matchConditions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
matchPolicy: Equivalent
admissionReviewVersions: [v1]
{{- end -}}

{{/* Annotations of both configurations. */}}
{{- define "svcplane.webhookAnnotations" -}}
{{- $annotations := deepCopy .Values.webhook.annotations -}}
{{- if eq .Values.webhook.tls.mode "certManager" -}}
{{- $certificate := printf "%s/%s-webhook" (include "svcplane.namespace" .) (include "svcplane.fullname" .) -}}
{{- $annotations = set $annotations "cert-manager.io/inject-ca-from" $certificate -}}
{{- end -}}
{{- toYaml $annotations -}}
{{- end -}}

{{/*
A hook of Helm's: a Pod that runs one command of svcplane under an account of its own, which has just the right to that.
(dict "root" $ "suffix" "-test" "hook" "test" "rules" (list …) "args" (list …))
*/}}
{{- define "svcplane.hook" -}}
{{- $ := .root }}
{{- $namespace := include "svcplane.namespace" $ }}
{{- $name := printf "%s%s" (include "svcplane.fullname" $) .suffix }}
{{- $annotations := dict "helm.sh/hook" .hook "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded" }}
{{- $first := merge (dict "helm.sh/hook-weight" "-2") $annotations }}
{{- $second := merge (dict "helm.sh/hook-weight" "-1") $annotations -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "svcplane.metadata" (dict "root" $ "suffix" .suffix "annotations" $first) | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "svcplane.metadata" (dict "root" $ "suffix" .suffix "annotations" $first) | nindent 2 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "svcplane.metadata" (dict "root" $ "suffix" .suffix "annotations" $second) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $namespace }}
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  # None of the labels that Services and monitors of this release select by.
  labels:
    app.kubernetes.io/name: {{ include "svcplane.name" $ }}{{ .suffix }}
    {{- with $.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- toYaml (merge (dict "helm.sh/hook-weight" "0") $annotations) | nindent 4 }}
spec:
  serviceAccountName: {{ $name }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  restartPolicy: Never
  dnsPolicy: {{ $.Values.dnsPolicy }}
  {{- with $.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $.Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ first .args }}
      image: {{ include "svcplane.image" $ }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      args:
        {{- toYaml .args | nindent 8 }}
      {{- with $.Values.apiServer.host }}
      env:
        - name: KUBERNETES_SERVICE_HOST
          value: {{ . | quote }}
        - name: KUBERNETES_SERVICE_PORT
          value: {{ $.Values.apiServer.port | quote }}
      {{- end }}
      {{- with $.Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
