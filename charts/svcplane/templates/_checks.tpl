{{/* Values that make no sense together. */}}
{{- define "svcplane.check" -}}
{{- if eq (include "svcplane.controllers" .) "" -}}
{{- fail "controllers: enable at least one of endpoints, endpointSlice, endpointSliceMirroring, repair, or loadBalancer.enabled" -}}
{{- end -}}
{{- if and (eq .Values.mode "active") (eq (include "svcplane.endpointControllers" .) "") -}}
{{- fail "mode=active has nothing to write: enable at least one of controllers.endpoints, controllers.endpointSlice, controllers.endpointSliceMirroring, or leave mode=observe" -}}
{{- end -}}
{{- if eq .Values.identity "own" -}}
{{- if ne .Values.mode "active" -}}
{{- fail "identity=own needs mode=active: an observer writes no slices, under no name" -}}
{{- end -}}
{{- if not .Values.controllers.endpointSlice.enabled -}}
{{- fail "identity=own needs controllers.endpointSlice.enabled: nothing else is kept beside kube-controller-manager" -}}
{{- end -}}
{{- else if and (eq .Values.mode "active") (not .Values.takeover.acknowledgeBuiltinsDisabled) -}}
{{- fail "mode=active needs takeover.acknowledgeBuiltinsDisabled=true: set it once kube-controller-manager runs without its endpoint controllers, because two writers of the same objects fight" -}}
{{- end -}}
{{- if and .Release.IsUpgrade (eq .Values.mode "observe") (not .Values.uninstall.allowFrozenEndpoints) -}}
{{- $before := lookup "apps/v1" "Deployment" (include "svcplane.namespace" .) (include "svcplane.fullname" .) -}}
{{- $containers := dig "spec" "template" "spec" "containers" list $before -}}
{{- $lease := lookup "coordination.k8s.io/v1" "Lease" (include "svcplane.namespace" .) (include "svcplane.fullname" .) -}}
{{- $told := dig "metadata" "annotations" "svcplane.io/mode-reason" "" $lease -}}
{{- range $containers -}}
{{- if and (has "--mode=active" (default list .args)) (not $told) -}}
{{- fail "mode would go from active to observe, and endpoints would freeze: run svcplane handback before, or give mode=active again, because an upgrade forgets values that it is not given (keep them in a file); uninstall.allowFrozenEndpoints=true does it all the same" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.podDisruptionBudget.enabled (le (int .Values.replicas) 1) -}}
{{- fail "podDisruptionBudget.enabled needs replicas of 2 or more: with one replica it would forbid every drain" -}}
{{- end -}}
{{- if and .Values.hostNetwork (eq (int .Values.webhook.port) 10250) .Values.webhook.enabled -}}
{{- fail "webhook.port=10250 is the kubelet's with hostNetwork: set another one, such as 9443" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (eq (int .Values.webhook.port) (int .Values.metrics.port)) -}}
{{- fail "webhook.port and metrics.port must differ" -}}
{{- end -}}
{{- if ge (int .Values.preStopSeconds) (int .Values.terminationGracePeriodSeconds) -}}
{{- fail "terminationGracePeriodSeconds must be more than preStopSeconds" -}}
{{- end -}}
{{- include "svcplane.checkTimes" . -}}
{{- if .Values.webhook.enabled -}}
{{- include "svcplane.checkRanges" . -}}
{{- if eq .Values.webhook.tls.mode "existing" -}}
{{- if not .Values.webhook.tls.existingSecret -}}{{- fail "webhook.tls.mode=existing needs webhook.tls.existingSecret" -}}{{- end -}}
{{- if not .Values.webhook.tls.caBundle -}}{{- fail "webhook.tls.mode=existing needs webhook.tls.caBundle: the apiserver must know whom to trust" -}}{{- end -}}
{{- end -}}
{{- if eq .Values.webhook.tls.mode "certManager" -}}
{{- if eq .Values.profile "controlPlane" -}}{{- fail "webhook.tls.mode=certManager cannot be used with profile=controlPlane: cert-manager's own webhook needs endpoints that svcplane writes" -}}{{- end -}}
{{- if not .Values.webhook.tls.certManager.issuerRef.name -}}{{- fail "webhook.tls.mode=certManager needs webhook.tls.certManager.issuerRef.name" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A duration in milliseconds: text, such as 1m30s. */}}
{{- define "svcplane.milliseconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- sub (mustDateModify . $start).UnixMilli $start.UnixMilli -}}
{{- end -}}

{{/* Durations that the process refuses at its start: better said here, where nothing runs yet. */}}
{{- define "svcplane.checkTimes" -}}
{{- with .Values.leaderElection -}}
{{- $lease := include "svcplane.milliseconds" .leaseDuration | int64 -}}
{{- $renew := include "svcplane.milliseconds" .renewDeadline | int64 -}}
{{- $retry := include "svcplane.milliseconds" .retryPeriod | int64 -}}
{{- if or (lt $lease 1000) (mod $lease 1000) -}}
{{- fail (printf "leaderElection.leaseDuration=%s must be whole seconds from 1s on: a Lease stores no others" .leaseDuration) -}}
{{- end -}}
{{- if ge $renew $lease -}}
{{- fail (printf "leaderElection.renewDeadline=%s must be less than leaderElection.leaseDuration=%s: others wait that long before they write" .renewDeadline .leaseDuration) -}}
{{- end -}}
{{- if or (le $retry 0) (ge (mul $retry 12) (mul $renew 10)) -}}
{{- fail (printf "leaderElection.retryPeriod=%s must be more than 0s, and 1.2 times as long less than leaderElection.renewDeadline=%s" .retryPeriod .renewDeadline) -}}
{{- end -}}
{{- end -}}
{{- if and (include "svcplane.canary" .) (lt (include "svcplane.milliseconds" .Values.takeover.canary.interval | int64) 1000) -}}
{{- fail (printf "takeover.canary.interval=%s must be 1s or longer, such as 5m" .Values.takeover.canary.interval) -}}
{{- end -}}
{{- if and .Values.controllers.repair.enabled (lt (include "svcplane.milliseconds" .Values.controllers.repair.period | int64) 1000) -}}
{{- fail (printf "controllers.repair.period=%s must be 1s or longer, such as 3m" .Values.controllers.repair.period) -}}
{{- end -}}
{{- if include "svcplane.selfManaged" . -}}
{{- $leaf := include "svcplane.milliseconds" .Values.webhook.tls.lifetime | int64 -}}
{{- $authority := include "svcplane.milliseconds" .Values.webhook.tls.authorityLifetime | int64 -}}
{{- if lt $leaf 30000 -}}
{{- fail (printf "webhook.tls.lifetime=%s must be 30s or longer, such as 2160h: a renewal takes time" .Values.webhook.tls.lifetime) -}}
{{- end -}}
{{- if lt $authority (mul $leaf 2) -}}
{{- fail (printf "webhook.tls.authorityLifetime=%s must be at least twice webhook.tls.lifetime=%s" .Values.webhook.tls.authorityLifetime .Values.webhook.tls.lifetime) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The same for ranges. */}}
{{- define "svcplane.checkRanges" -}}
{{- $range := .Values.allocator.nodePort.range -}}
{{- $ends := splitList "-" $range -}}
{{- $first := first $ends | int -}}
{{- $last := last $ends | int -}}
{{- if or (lt $first 1) (gt $last 65535) (gt $first $last) -}}
{{- fail (printf "allocator.nodePort.range=%s must be FIRST-LAST, both from 1 to 65535, such as 30000-32767" $range) -}}
{{- end -}}
{{- if not (has .Values.webhook.externalIPs (list "allow" "deny")) -}}
{{- range splitList "," .Values.webhook.externalIPs -}}
{{- include "svcplane.checkCIDR" (dict "value" "webhook.externalIPs" "text" .) -}}
{{- end -}}
{{- end -}}
{{- with .Values.allocator.clusterIP.ranges -}}
{{- $families := list -}}
{{- range . -}}
{{- $families = append $families (contains ":" .) -}}
{{- include "svcplane.checkCIDR" (dict "value" "allocator.clusterIP.ranges" "text" .) -}}
{{- end -}}
{{- if ne (len $families) (len (uniq $families)) -}}
{{- fail (printf "allocator.clusterIP.ranges=%s takes one CIDR, or one of each family, such as 10.96.0.0/16 and fd00:10::/112" (join "," .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A CIDR without bits behind its prefix; of IPv6 the process looks closer. */}}
{{- define "svcplane.checkCIDR" -}}
{{- $parts := splitList "/" .text -}}
{{- $length := last $parts | int -}}
{{- $right := le $length 128 -}}
{{- if not (contains ":" .text) -}}
{{- $octets := first $parts | splitList "." -}}
{{- $right = and (le $length 32) (eq (len $octets) 4) -}}
{{- $number := 0 | int64 -}}
{{- range $octets -}}
{{- $right = and $right (regexMatch "^(0|[1-9][0-9]{0,2})$" .) (le (int .) 255) -}}
{{- $number = add (mul $number 256) (int64 .) -}}
{{- end -}}
{{- $size := 1 | int64 -}}
{{- range until (sub 32 $length | int | max 0 | int) -}}
{{- $size = mul $size 2 -}}
{{- end -}}
{{- $right = and $right (eq (mod $number $size) 0) -}}
{{- end -}}
{{- if not $right -}}
{{- fail (printf "%s: %s must be a network without bits behind its prefix, such as 10.96.0.0/16" .value .text) -}}
{{- end -}}
{{- end -}}
