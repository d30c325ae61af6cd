//! Operations on slices.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::model::NOTE;
use super::super::ops::{Key, SKIP_MIRROR, SliceTamper};
use super::super::render;
use super::super::snapshot::{HEADLESS, Manager, SERVICE_NAME, SLICE_MANAGED_BY};
use super::Side;
use super::calls::{DONE, answer, outcome};

/// The finalizer that holds a slice while it is being deleted.
const HOLD: &str = "differential/hold";
/// Nobody's UID.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";
/// An annotation that is not mirrored.
const UNMIRRORED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// A controller's time to delete what it has mirrored.
const UNMIRRORING: Duration = Duration::from_secs(10);
/// Its cache has seen by then what its apiserver has done.
const SEEN: Duration = Duration::from_secs(1);
/// The pause between two looks.
const POLL: Duration = Duration::from_millis(250);

impl Side {
    /// Does it to the first or last slice that a controller has written for this Service, by family and ports.
    pub async fn tamper_slices(&self, key: &Key, how: &SliceTamper, last: bool) -> Result<String> {
        let slices = self.slices_of(key).await?;
        let slice = if last { slices.last() } else { slices.first() };
        let Some(slice) = slice else {
            return Ok("no slice".into());
        };
        let name = slice.metadata.name.clone().unwrap_or_default();
        let foreign = match slice.address_type.as_str() {
            "IPv6" => json!([{"addresses": ["2001:db8::77"], "conditions": {"ready": true}}]),
            _ => json!([{"addresses": ["203.0.113.77"], "conditions": {"ready": true}}]),
        };
        let patch = match how {
            SliceTamper::ForeignEndpoints => json!({"endpoints": foreign}),
            SliceTamper::NoEndpoints => json!({"endpoints": []}),
            SliceTamper::OtherPorts => json!({"ports": [{"name": "other", "port": 4711, "protocol": "TCP"}]}),
            SliceTamper::ExtraLabel => json!({"metadata": {"labels": {"tampered": "yes"}}}),
            SliceTamper::HeadlessLabel => json!({"metadata": {"labels": {HEADLESS: "mine"}}}),
            SliceTamper::Annotation => json!({"metadata": {"annotations": {NOTE: "mine"}}}),
            SliceTamper::NoOwner => json!({"metadata": {"ownerReferences": null}}),
            SliceTamper::OtherManager => json!({"metadata": {"labels": {SLICE_MANAGED_BY: "somebody.example"}}}),
            SliceTamper::OtherService(other) => json!({"metadata": {"labels": {SERVICE_NAME: other}}}),
            SliceTamper::Delete => return self.delete_slice(&Key::new(key.space, name)).await,
            SliceTamper::Double | SliceTamper::Orphan => {
                let copy = copy_of(slice, *how == SliceTamper::Orphan);
                let created = self.create::<EndpointSlice>(key, copy).await;
                return self.own_slice_write(created);
            }
            SliceTamper::Dying => {
                let slice = Key::new(key.space, name);
                let held = self
                    .patch_slice(&slice, json!({"metadata": {"finalizers": [HOLD]}}))
                    .await?;
                return if held == DONE {
                    self.delete_slice(&slice).await
                } else {
                    Ok(held)
                };
            }
        };
        let slice = Key::new(key.space, name);
        let patched = self.patch_slice(&slice, patch).await?;
        if *how == SliceTamper::OtherManager {
            self.note_foreign(&slice).await?;
        }
        Ok(patched)
    }

    /// The slices of our controllers for this Service, the mirrored ones if there are any, in an order that is the same on
    /// both sides.
    async fn slices_of(&self, key: &Key) -> Result<Vec<EndpointSlice>> {
        let of_service = ListParams::default().labels(&format!("{SERVICE_NAME}={}", key.name));
        let slices: Api<EndpointSlice> = self.api(key)?;
        let listed = answer("listing slices", slices.list(&of_service)).await?;
        let all = listed.map(|list| list.items).unwrap_or_default();
        let of = |manager: Manager| {
            let all = all.iter().filter(|slice| slice.metadata.deletion_timestamp.is_none());
            let of_manager = all.filter(|slice| Manager::of(slice) == Some(manager));
            of_manager.cloned().collect::<Vec<_>>()
        };
        let mirrored = of(Manager::Mirroring);
        let mut slices = if mirrored.is_empty() {
            of(Manager::Selector)
        } else {
            mirrored
        };
        slices.sort_by_cached_key(|slice| {
            let mut ports: Vec<String> = slice.ports.iter().flatten().map(|port| format!("{port:?}")).collect();
            ports.sort();
            (slice.address_type.clone(), ports)
        });
        Ok(slices)
    }

    async fn patch_slice(&self, slice: &Key, patch: Value) -> Result<String> {
        let slices: Api<EndpointSlice> = self.api(slice)?;
        let patched = outcome(
            "slice",
            slices.patch(&slice.name, &PatchParams::default(), &Patch::Merge(patch)),
        )
        .await;
        self.own_slice_write(patched)
    }

    async fn delete_slice(&self, slice: &Key) -> Result<String> {
        let deleted = self.delete::<EndpointSlice>(slice, 0).await;
        self.own_slice_write(deleted)
    }

    /// Counts a write of a slice that is not a controller's.
    fn own_slice_write(&self, outcome: Result<String>) -> Result<String> {
        if outcome.as_ref().is_ok_and(|outcome| outcome == DONE) {
            self.own_writes.lock().slices += 1;
        }
        outcome
    }

    /// A slice that no controller writes, to be left alone by all of them.
    pub async fn put_foreign(&self, key: &Key, number: u8, address: u8) -> Result<String> {
        let slice = foreign_key(key, number);
        let body = serde_json::from_value(render::foreign_slice(&slice.name, &key.name, number, address))?;
        let slices: Api<EndpointSlice> = self.api(key)?;
        let written = match answer("slice", slices.create(&PostParams::default(), &body)).await? {
            Ok(_) => Ok(DONE.into()),
            Err(_) => outcome("slice", slices.replace(&slice.name, &PostParams::default(), &body)).await,
        };
        self.note_foreign(&slice).await?;
        self.own_slice_write(written)
    }

    /// Takes it away again.
    pub async fn delete_foreign(&self, key: &Key, number: u8) -> Result<String> {
        let slice = foreign_key(key, number);
        self.foreign.lock().remove(&slice);
        self.delete_slice(&slice).await
    }

    async fn note_foreign(&self, slice: &Key) -> Result<()> {
        let slices: Api<EndpointSlice> = self.api(slice)?;
        if let Ok(stored) = answer("slice", slices.get_metadata(&slice.name)).await? {
            let version = stored.metadata.resource_version.unwrap_or_default();
            self.foreign.lock().insert(slice.clone(), version);
        }
        Ok(())
    }

    /// Lets go what [`SliceTamper::Dying`] holds.
    pub async fn release_slices(&self) -> Result<String> {
        for space in 0..self.spaces.len() {
            let slices: Api<EndpointSlice> = self.api(&Key::new(space, ""))?;
            let Ok(list) = answer("listing slices", slices.list_metadata(&ListParams::default())).await? else {
                continue;
            };
            let held = list
                .items
                .into_iter()
                .filter(|slice| slice.metadata.finalizers.is_some());
            for name in held.filter_map(|slice| slice.metadata.name) {
                self.patch_slice(&Key::new(space, name), json!({"metadata": {"finalizers": null}}))
                    .await?;
            }
        }
        Ok(DONE.into())
    }

    /// Plays the garbage collector, which does not run.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn collect(&self, garbage: &[Key]) -> Result<()> {
        for slice in garbage {
            self.foreign.lock().remove(slice);
            self.delete_slice(slice).await?;
        }
        Ok(())
    }

    /// Takes the stream's own annotation off the slices of a Service.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn strip_slice_note(&self, key: &Key) -> Result<()> {
        for slice in self.slices_of(key).await? {
            let noted = slice.metadata.annotations.is_some_and(|all| all.contains_key(NOTE));
            if let Some(name) = slice.metadata.name.filter(|_| noted) {
                let patch = json!({"metadata": {"annotations": {NOTE: null}}});
                self.patch_slice(&Key::new(key.space, name), patch).await?;
            }
        }
        Ok(())
    }

    /// Lets the mirroring controller look at Endpoints again, by an annotation that comes and goes and is not mirrored; after
    /// it was told for a while not to mirror them if it is to begin `anew`: it deletes what it has made of them and forgets
    /// it. A slice that the test deletes while the reference writes it stays in the reference's memory, which then waits for it
    /// without end ("informer cache is out of date").
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn remirror(&self, key: &Key, anew: bool) -> Result<()> {
        if anew && let Ok(endpoints) = answer("Endpoints", self.api::<Endpoints>(key)?.get_metadata(&key.name)).await? {
            let before = endpoints.metadata.labels.and_then(|all| all.get(SKIP_MIRROR).cloned());
            self.mark_endpoints(key, "labels", SKIP_MIRROR, json!("true")).await?;
            self.without_mirrored(key).await?;
            self.mark_endpoints(key, "labels", SKIP_MIRROR, json!(before)).await?;
        }
        for value in [json!("again"), Value::Null] {
            self.mark_endpoints(key, "annotations", UNMIRRORED, value).await?;
        }
        Ok(())
    }

    /// Waits until nothing of these Endpoints is mirrored, and the controller's cache may have seen that: a slice that is gone
    /// and still in its cache is as good as there to it. What stays too long is deleted.
    async fn without_mirrored(&self, key: &Key) -> Result<()> {
        let end = Instant::now() + UNMIRRORING;
        loop {
            let left = self.mirrored_of(key).await?;
            if left.is_empty() {
                break;
            }
            if Instant::now() >= end {
                for name in left {
                    self.delete_slice(&Key::new(key.space, name)).await?;
                }
                break;
            }
            sleep(POLL).await;
        }
        sleep(SEEN).await;
        Ok(())
    }

    /// The names of the slices that mirror Endpoints.
    async fn mirrored_of(&self, key: &Key) -> Result<Vec<String>> {
        let slices: Api<EndpointSlice> = self.api(key)?;
        let manager = Manager::Mirroring.as_str();
        let mirrored =
            ListParams::default().labels(&format!("{SERVICE_NAME}={},{SLICE_MANAGED_BY}={manager}", key.name));
        let list = answer("listing slices", slices.list_metadata(&mirrored)).await?;
        let all = list.map(|list| list.items).unwrap_or_default();
        Ok(all.into_iter().filter_map(|slice| slice.metadata.name).collect())
    }
}

fn foreign_key(service: &Key, number: u8) -> Key {
    Key::new(service.space, format!("foreign-{}-{number}", service.name))
}

/// A slice that says the same, under another name.
fn copy_of(slice: &EndpointSlice, orphan: bool) -> Value {
    let mut metadata = json!({
        "generateName": "copy-",
        "labels": slice.metadata.labels,
        "ownerReferences": slice.metadata.owner_references,
    });
    if orphan && let Some(owners) = metadata["ownerReferences"].as_array_mut() {
        for owner in owners {
            owner["uid"] = json!(NOBODY);
        }
    }
    json!({
        "metadata": metadata,
        "addressType": slice.address_type,
        "endpoints": slice.endpoints,
        "ports": slice.ports,
    })
}
