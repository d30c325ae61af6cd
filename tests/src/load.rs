//! Many Services and Pods at once, of the size that real ones have.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Pod, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Requests under way at once.
const IN_FLIGHT: usize = 24;

/// What to fill a cluster with: `services` Services with `pods` Pods each, spread over `namespaces`.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Namespaces `load-0`, `load-1`, …
    pub namespaces: usize,
    /// Services in all.
    pub services: usize,
    /// Ready Pods of each Service.
    pub pods: usize,
}

impl Load {
    /// Creates it all; Pods are running and ready, with an address of their own.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn create(self, client: &Client) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for number in 0..self.namespaces {
            let body = serde_json::from_value(json!({"metadata": {"name": format!("load-{number}")}}))?;
            namespaces.create(&PostParams::default(), &body).await?;
        }
        let work = (0..self.services).map(|service| self.service(client.clone(), service));
        stream::iter(work).buffer_unordered(IN_FLIGHT).try_collect::<()>().await
    }

    async fn service(self, client: Client, number: usize) -> Result<()> {
        let namespace = format!("load-{}", number % self.namespaces);
        let name = format!("service-{number}");
        let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
        let service = json!({
            "metadata": {"name": name, "labels": {"app": name, "tier": "backend"}},
            "spec": {"selector": {"app": name, "tier": "backend"}, "ports": [
                {"name": "http", "port": 80, "targetPort": "http"}, {"name": "metrics", "port": 9090, "targetPort": 9090}]}
        });
        services
            .create(&PostParams::default(), &serde_json::from_value(service)?)
            .await?;
        let pods: Api<Pod> = Api::namespaced(client, &namespace);
        for pod in 0..self.pods {
            let serial = number * self.pods + pod;
            let pod_name = format!("{name}-{:08x}-{pod}", serial.wrapping_mul(2_654_435_761) & 0xffff_ffff);
            pods.create(
                &PostParams::default(),
                &serde_json::from_value(pod_body(&pod_name, &name, serial))?,
            )
            .await?;
            let manager = PatchParams {
                field_manager: Some("kubelet".into()),
                ..PatchParams::default()
            };
            pods.patch_status(&pod_name, &manager, &Patch::Merge(pod_status(serial)))
                .await?;
        }
        Ok(())
    }

    /// How many Services' Endpoints list all their Pods, by a fresh list.
    ///
    /// # Errors
    /// The list fails.
    pub async fn complete(self, client: &Client) -> Result<usize> {
        let endpoints: Api<Endpoints> = Api::all(client.clone());
        let mut complete = 0;
        let mut params = ListParams::default().limit(500);
        loop {
            let page = endpoints.list(&params).await.context("cannot list Endpoints")?;
            complete += page.items.iter().filter(|object| self.is_complete(object)).count();
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(complete),
            }
        }
    }

    fn is_complete(self, object: &Endpoints) -> bool {
        let ours = object
            .metadata
            .namespace
            .as_deref()
            .is_some_and(|namespace| namespace.starts_with("load-"));
        let subsets = object.subsets.iter().flatten();
        let addresses: usize = subsets
            .map(|subset| subset.addresses.as_ref().map_or(0, Vec::len))
            .sum();
        ours && addresses == self.pods
    }
}

/// About what a web application's Pod looks like; with its status and managedFields 4 to 6 kB of JSON.
fn pod_body(name: &str, app: &str, serial: usize) -> Value {
    let env: Vec<Value> = (0..6)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-{app}")}))
        .collect();
    let probe =
        |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10, "failureThreshold": 3});
    json!({
        "metadata": {
            "name": name,
            "labels": {"app": app, "tier": "backend", "pod-template-hash": format!("{:08x}", app.len() * 7919),
                "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "1.4.2"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
                "checksum/config": format!("{serial:064x}")}
        },
        "spec": {
            "nodeName": format!("node-{}", serial % 300),
            "serviceAccountName": "default",
            "containers": [{
                "name": "main", "image": "registry.invalid/team/application:1.4.2",
                "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
                "env": env,
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "livenessProbe": probe("/healthz"), "readinessProbe": probe("/ready"),
                "volumeMounts": [{"name": "config", "mountPath": "/etc/application", "readOnly": true}]
            }],
            "volumes": [{"name": "config", "configMap": {"name": app}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]
        }
    })
}

fn pod_status(serial: usize) -> Value {
    let address = format!(
        "10.{}.{}.{}",
        128 + serial / 62_500,
        serial / 250 % 250,
        serial % 250 + 1
    );
    let conditions: Vec<Value> = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .into_iter()
        .map(|kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z"}))
        .collect();
    json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "192.0.2.10", "hostIPs": [{"ip": "192.0.2.10"}],
        "startTime": "2026-01-01T00:00:00Z", "qosClass": "Burstable", "conditions": conditions,
        "containerStatuses": [{"name": "main", "ready": true, "started": true, "restartCount": 0,
            "image": "registry.invalid/team/application:1.4.2", "imageID": format!("registry.invalid/team/application@sha256:{serial:064x}"),
            "containerID": format!("containerd://{serial:064x}"), "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
    }})
}
