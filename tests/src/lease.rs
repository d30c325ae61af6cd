//! The Lease that replicas of svcplane contend for.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::eventually::eventually_one;
use crate::namespace::TestNamespace;
use crate::svcplane::Replica;

/// Its name.
pub const NAME: &str = "svcplane";

impl TestNamespace {
    /// Leases in it.
    pub fn leases(&self) -> Api<Lease> {
        self.api()
    }

    /// The same without their type, which has no room for all that a person can write into one.
    pub fn any_leases(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), self.name(), &ApiResource::erase::<Lease>(&()))
    }

    /// Edits the Lease's spec by hand, and returns the resourceVersion that this made.
    ///
    /// # Errors
    /// There is no Lease, or the apiserver refuses.
    pub async fn edit_lease(&self, spec: Value) -> Result<u64> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let edited = self.any_leases().patch(NAME, &PatchParams::default(), &patch).await?;
        let version = edited.metadata.resource_version.context("no resourceVersion")?;
        Ok(version.parse()?)
    }

    /// Waits until an annotation of the Lease begins and ends so.
    ///
    /// # Errors
    /// It does not within a minute.
    pub async fn lease_is_annotated(&self, name: &str, begins: &str, ends: &str) -> Result<()> {
        let noted = |lease: Option<&Lease>| {
            let annotations = lease.and_then(|lease| lease.metadata.annotations.as_ref());
            let text = annotations.and_then(|all| all.get(name)).ok_or("not noted")?;
            let fits = text.starts_with(begins) && text.ends_with(ends);
            fits.then_some(()).ok_or_else(|| format!("{name}={text}"))
        };
        eventually_one(name, Duration::from_mins(1), &self.leases(), NAME, noted).await?;
        Ok(())
    }

    /// What the Lease says now.
    ///
    /// # Errors
    /// There is none.
    pub async fn lease(&self) -> Result<LeaseSpec> {
        let lease = self.leases().get(NAME).await.context("the Lease")?;
        lease.spec.context("a Lease without spec")
    }

    /// The Lease as the apiserver spells it.
    ///
    /// # Errors
    /// There is none.
    pub async fn lease_text(&self) -> Result<Value> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{NAME}", self.name());
        let text = self
            .client()
            .request_text(http::Request::get(path).body(Vec::new())?)
            .await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until the Lease satisfies the check, and returns what it says.
    ///
    /// # Errors
    /// It does not before the deadline.
    pub async fn wait_lease(
        &self,
        what: &str,
        deadline: Duration,
        check: impl Fn(&LeaseSpec) -> bool,
    ) -> Result<LeaseSpec> {
        let accept = |lease: Option<&Lease>| {
            let spec = lease.and_then(|lease| lease.spec.as_ref()).ok_or("there is no Lease")?;
            if check(spec) {
                Ok(spec.clone())
            } else {
                Err(format!("{spec:?}"))
            }
        };
        eventually_one(what, deadline, &self.leases(), NAME, accept).await
    }

    /// Waits until the Lease is held by this identity.
    ///
    /// # Errors
    /// It is not before the deadline.
    pub async fn wait_holder(&self, identity: &str, deadline: Duration) -> Result<LeaseSpec> {
        let held = |spec: &LeaseSpec| spec.holder_identity.as_deref() == Some(identity);
        self.wait_lease(&format!("the Lease held by {identity}"), deadline, held)
            .await
    }

    /// Waits until one of these holds the Lease and knows it, and returns its place.
    ///
    /// # Errors
    /// None does within half a minute.
    pub async fn wait_leader_among(&self, replicas: &[Replica]) -> Result<usize> {
        let mut identities = Vec::new();
        for replica in replicas {
            identities.push(Some(replica.identity().await?));
        }
        let place = |spec: &LeaseSpec| identities.iter().position(|it| *it == spec.holder_identity);
        let deadline = Duration::from_secs(30);
        let held = self.wait_lease("held by one of them", deadline, |spec| place(spec).is_some());
        let leader = place(&held.await?).context("nobody holds the Lease")?;
        replicas[leader].wait_leader().await?;
        Ok(leader)
    }

    /// Sets the annotation `svcplane.io/mode` of the Lease, or takes it off.
    ///
    /// # Errors
    /// There is no Lease.
    pub async fn set_lease_mode(&self, mode: Option<&str>) -> Result<()> {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "svcplane.io/mode": mode } } }));
        self.leases().patch(NAME, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}
