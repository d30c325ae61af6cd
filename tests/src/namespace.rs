//! A namespace of a test's own.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Endpoints, Event, Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use rand::distr::{Alphanumeric, SampleString as _};
use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::svcplane;

/// A namespace that no other test uses. It stays when it is dropped; the cluster goes with the process.
#[derive(Clone)]
pub struct TestNamespace {
    name: String,
    client: Client,
}

/// Creates the namespace of this name, for one who looks after it himself.
///
/// # Errors
/// The apiserver refuses.
pub async fn create_named(client: &Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    let all: Api<Namespace> = Api::all(client.clone());
    all.create(&PostParams::default(), &namespace)
        .await
        .with_context(|| format!("creating namespace {name}"))?;
    Ok(())
}

impl TestNamespace {
    /// Creates one, named after the running test.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn create(cluster: &Cluster) -> Result<Self> {
        Self::create_with(cluster.client(), std::thread::current().name().unwrap_or("test")).await
    }

    /// Creates one through this client, with a name that begins so.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn create_with(client: Client, prefix: &str) -> Result<Self> {
        let name = unique_name(prefix);
        create_named(&client, &name).await?;
        Ok(Self { name, client })
    }

    /// Creates one on the shared cluster, whose Endpoints and slices [`svcplane::shared`] keeps.
    ///
    /// # Errors
    /// The apiserver refuses.
    ///
    /// # Panics
    /// Cluster or svcplane cannot be started.
    pub async fn served() -> Result<Self> {
        svcplane::shared();
        Self::create(cluster::shared()).await
    }

    /// As [`TestNamespace::served`], by [`svcplane::shared_behind_proxy`].
    ///
    /// # Errors
    /// The apiserver refuses.
    ///
    /// # Panics
    /// Cluster, proxy or svcplane cannot be started.
    pub async fn served_behind_proxy() -> Result<Self> {
        svcplane::shared_behind_proxy();
        Self::create(cluster::shared()).await
    }

    /// One that exists already.
    pub fn existing(client: Client, name: &str) -> Self {
        Self {
            name: name.into(),
            client,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client it was made with.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Objects of any kind in it.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Objects of a kind that has no namespace.
    pub fn cluster_wide<K>(&self) -> Api<K>
    where
        K: Resource<Scope = ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    /// Its Services.
    pub fn services(&self) -> Api<Service> {
        self.api()
    }

    /// Its Pods.
    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    /// Its Endpoints.
    pub fn endpoints(&self) -> Api<Endpoints> {
        self.api()
    }

    /// Its EndpointSlices.
    pub fn slices(&self) -> Api<EndpointSlice> {
        self.api()
    }

    /// Its Events.
    pub fn events(&self) -> Api<Event> {
        self.api()
    }

    /// Its Deployments.
    pub fn deployments(&self) -> Api<Deployment> {
        self.api()
    }

    /// Changes a Service by a merge patch.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn patch_service(&self, name: &str, patch: &Value) -> Result<Service> {
        let (services, params) = (self.services(), PatchParams::default());
        let patched = services.patch(name, &params, &Patch::Merge(patch)).await;
        patched.with_context(|| format!("Service {}/{name}", self.name))
    }

    /// Changes a Pod's status by a strategic merge patch, as a kubelet does.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn patch_pod_status(&self, name: &str, status: Value) -> Result<Pod> {
        let patch = Patch::Strategic(json!({ "status": status }));
        let patched = self.pods().patch_status(name, &PatchParams::default(), &patch).await;
        patched.with_context(|| format!("status of Pod {}/{name}", self.name))
    }

    /// Sets a Pod's Ready condition, with now as the time of its transition.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn set_pod_ready(&self, name: &str, ready: bool) -> Result<Pod> {
        self.patch_pod_status(name, json!({ "conditions": [ready_condition(ready)] }))
            .await
    }

    /// Deletes a Pod with a grace period. With a node and a grace that is not zero it stays, terminating, until it is
    /// deleted again with zero: there is no kubelet.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn delete_pod(&self, name: &str, grace: Duration) -> Result<()> {
        let seconds = u32::try_from(grace.as_secs()).context("grace period")?;
        let params = DeleteParams {
            grace_period_seconds: Some(seconds),
            ..DeleteParams::default()
        };
        self.pods()
            .delete(name, &params)
            .await
            .with_context(|| format!("deleting Pod {}/{name}", self.name))?;
        Ok(())
    }

    /// Deletes the namespace. Its objects go only where kube-controller-manager runs.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn delete(&self) -> Result<()> {
        self.cluster_wide::<Namespace>()
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

pub(crate) fn ready_condition(ready: bool) -> Value {
    json!({ "type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": seconds(Timestamp::now()) })
}

/// Kubernetes' `Time` has whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A DNS label of at most 46 characters that begins like the prefix and ends in random.
fn unique_name(prefix: &str) -> String {
    let own = prefix.rsplit("::").next().unwrap_or(prefix).to_ascii_lowercase();
    let mut label: String = own
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    if !label.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        label.insert(0, 't');
    }
    let random = Alphanumeric.sample_string(&mut rand::rng(), 5).to_ascii_lowercase();
    format!("{}-{random}", label.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::unique_name;

    #[test]
    fn names_are_labels() {
        for prefix in ["tests::a_service_is_followed", "main", "_x", "", &"long_".repeat(30)] {
            let name = unique_name(prefix);
            assert!(name.len() <= 47, "{name}");
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{name}"
            );
            assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
            assert_ne!(name, unique_name(prefix));
        }
        assert!(unique_name("tests::a_service").starts_with("a-service-"));
    }
}
