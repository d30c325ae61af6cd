//! Many Services and Pods at once, of the size that real ones have.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Endpoints, Namespace, Node, Pod, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Requests under way at once.
const IN_FLIGHT: usize = 24;
/// Nodes that the Pods are on.
const NODES: usize = 300;

/// What to fill a cluster with: `services` Services with `pods` Pods each, spread over `namespaces`.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What its namespaces are named after: `PREFIX-0`, `PREFIX-1`, …
    pub prefix: &'static str,
    /// How many of them.
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
        self.create_services(client).await?;
        self.create_pods(client).await
    }

    /// Creates its namespaces and Services alone.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn create_services(self, client: &Client) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for number in 0..self.namespaces {
            let body = serde_json::from_value(json!({"metadata": {"name": self.namespace(number)}}))?;
            namespaces.create(&PostParams::default(), &body).await?;
        }
        let services = (0..self.services).map(|number| self.create_service(client.clone(), number, number));
        at_once(services).await
    }

    /// Creates its Pods alone.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn create_pods(self, client: &Client) -> Result<()> {
        at_once((0..self.all()).map(|serial| self.create_pod(client.clone(), serial))).await
    }

    /// Pods in all.
    pub fn all(self) -> usize {
        self.services * self.pods
    }

    /// A name for it that changes with what [`Load::create`] makes of it.
    pub fn label(self) -> String {
        /// To be raised when the shape of Services or Pods changes.
        const SHAPE: u32 = 1;
        let Self {
            prefix,
            namespaces,
            services,
            pods,
        } = self;
        format!("{prefix}-{namespaces}-namespaces-{services}-services-{pods}-pods-{SHAPE}")
    }

    /// The namespace of the Service of this number.
    pub fn namespace(self, service: usize) -> String {
        format!("{}-{}", self.prefix, service % self.namespaces)
    }

    /// The name of the Service of this number.
    pub fn service(self, number: usize) -> String {
        format!("service-{number}")
    }

    /// The number of the Service of the Pod of this number.
    pub fn service_of(self, serial: usize) -> usize {
        serial % self.all() / self.pods
    }

    /// The name of the Pod of this number; the Pods of a Service follow each other. Numbers beyond all of them: those that take their places,
    /// in the same order, again and again.
    pub fn pod(self, serial: usize) -> String {
        let hash = serial.wrapping_mul(2_654_435_761) & 0xffff_ffff;
        let service = self.service(self.service_of(serial));
        format!("{service}-{hash:08x}-{}", serial % self.pods)
    }

    /// Creates `count` further Services that select the Pods of the first one, and returns their names.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn create_fan(self, client: &Client, count: usize) -> Result<Vec<String>> {
        let numbers = self.services..self.services + count;
        let services = numbers
            .clone()
            .map(|number| self.create_service(client.clone(), number, 0));
        at_once(services).await?;
        Ok(numbers.map(|number| self.service(number)).collect())
    }

    async fn create_service(self, client: Client, number: usize, selects: usize) -> Result<()> {
        let (name, app) = (self.service(number), self.service(selects));
        let services: Api<Service> = Api::namespaced(client, &self.namespace(selects));
        let service = json!({
            "metadata": {"name": name, "labels": {"app": name, "tier": "backend"}},
            "spec": {"selector": {"app": app, "tier": "backend"}, "ports": [
                {"name": "http", "port": 80, "targetPort": "http"}, {"name": "metrics", "port": 9090, "targetPort": 9090}]}
        });
        services
            .create(&PostParams::default(), &serde_json::from_value(service)?)
            .await?;
        Ok(())
    }

    /// Creates the Pod of this number; then it is running and ready.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn create_pod(self, client: Client, serial: usize) -> Result<()> {
        let service = self.service_of(serial);
        let name = self.pod(serial);
        let pods: Api<Pod> = Api::namespaced(client, &self.namespace(service));
        let body = serde_json::from_value(pod_body(&name, &self.service(service), serial))?;
        pods.create(&PostParams::default(), &body).await?;
        pods.patch_status(&name, &kubelet(), &Patch::Merge(pod_status(serial)))
            .await?;
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
            .is_some_and(|namespace| namespace.starts_with(self.prefix));
        let subsets = object.subsets.iter().flatten();
        let addresses: usize = subsets
            .map(|subset| subset.addresses.as_ref().map_or(0, Vec::len))
            .sum();
        ours && addresses == self.pods
    }
}

/// Creates the Nodes that Pods of any load are on, if they are not there: slices list no Pod of an unknown Node.
///
/// # Errors
/// The apiserver refuses something.
pub async fn create_nodes(client: &Client) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let create = |number: usize| {
        let nodes = nodes.clone();
        async move {
            let body = serde_json::from_value(json!({"metadata": {"name": node(number)}}))?;
            match nodes.create(&PostParams::default(), &body).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                created => Ok(created.map(drop)?),
            }
        }
    };
    at_once((0..NODES).map(create)).await
}

fn node(serial: usize) -> String {
    format!("node-{}", serial % NODES)
}

async fn at_once(work: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    stream::iter(work).buffer_unordered(IN_FLIGHT).try_collect().await
}

/// Who writes a Pod's status.
pub(crate) fn kubelet() -> PatchParams {
    PatchParams {
        field_manager: Some("kubelet".into()),
        ..PatchParams::default()
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
            "nodeName": node(serial),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_takes_a_place_is_of_the_same_service_and_has_another_name() {
        let load = Load {
            prefix: "load",
            namespaces: 2,
            services: 3,
            pods: 10,
        };
        let names: std::collections::BTreeSet<String> = (0..90).map(|serial| load.pod(serial)).collect();
        assert_eq!(names.len(), 90);
        assert_eq!(load.service_of(29), 2);
        assert_eq!(load.service_of(30), 0);
        assert!(load.pod(61).starts_with("service-0-"), "{}", load.pod(61));
        assert!(load.pod(61).ends_with("-1"), "{}", load.pod(61));
    }
}
