//! Operations on one cluster.

use std::collections::BTreeSet;

use anyhow::Result;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Binding, EndpointSubset, Endpoints, ObjectReference, Pod, Service};
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::model::NOTE;
use super::super::ops::{self, Key, Op, Tamper};
use super::super::render;
use super::super::snapshot::{MANAGED_BY, OVER_CAPACITY};
use super::Side;
use super::calls::{DONE, answer, outcome};

/// Operations under way at once, on different objects.
const AT_ONCE: usize = 16;
/// The annotation of a Service that a touch changes: no controller copies it.
const TOUCH: &str = "differential/touch";
/// The label of a Service that a forced write changes: controllers copy it.
const FORCE: &str = "differential/force";

impl Side {
    /// Applies operations: those on one object in their order, those on different objects side by side, and nothing
    /// across a disturbance. Returns what each came to: [`DONE`], or the server's reason to refuse.
    ///
    /// # Errors
    /// The server does not answer, or a program does not start or end.
    pub async fn apply(&mut self, ops: &[Op]) -> Result<Vec<String>> {
        let mut outcomes = Vec::with_capacity(ops.len());
        let mut rest = ops;
        while let Some(first) = rest.first() {
            if first.object().is_none() {
                outcomes.push(self.apply_alone(first).await?);
                rest = &rest[1..];
                continue;
            }
            let mut objects = BTreeSet::new();
            let wave = rest
                .iter()
                .take_while(|op| op.object().is_some_and(|object| objects.insert(object)));
            let (wave, later) = rest.split_at(wave.count());
            let side = &*self;
            let applied = stream::iter(wave)
                .map(async |op| side.apply_one(op).await)
                .buffered(AT_ONCE);
            outcomes.extend(applied.try_collect::<Vec<_>>().await?);
            rest = later;
        }
        Ok(outcomes)
    }

    async fn apply_alone(&mut self, op: &Op) -> Result<String> {
        match op {
            Op::Fault { fault, times } => self.controller.disturb(*fault, *times),
            Op::Stop { hard } => self.controller.stop(&self.cluster, *hard).await?,
            Op::Start => self.controller.start(&self.cluster).await?,
            Op::RestartReference => self.controller.restart_reference(&self.cluster).await?,
            Op::ReleaseSlices => return self.release_slices().await,
            Op::CreateCrowd { pods } => {
                let side = &*self;
                let created =
                    stream::iter(pods).map(async |(key, pod, status)| side.create_pod(key, pod, status).await);
                let outcomes: BTreeSet<String> = created.buffer_unordered(AT_ONCE).try_collect().await?;
                return Ok(outcomes.into_iter().collect::<Vec<_>>().join(", "));
            }
            Op::DeleteCrowd { keys } => {
                let side = &*self;
                let deleted = stream::iter(keys).map(async |key| side.delete::<Pod>(key, 0).await);
                let outcomes: BTreeSet<String> = deleted.buffer_unordered(AT_ONCE).try_collect().await?;
                return Ok(outcomes.into_iter().collect::<Vec<_>>().join(", "));
            }
            _ => {}
        }
        Ok(DONE.into())
    }

    async fn apply_one(&self, op: &Op) -> Result<String> {
        match op {
            Op::CreateService { key, service } => {
                self.create::<Service>(key, render::service(&key.name, service)).await
            }
            Op::ReplaceService { key, service } => {
                self.replace::<Service>(key, render::service(&key.name, service)).await
            }
            Op::DeleteService { key } => self.delete::<Service>(key, 0).await,
            Op::CreatePod { key, pod, status } => self.create_pod(key, pod, status).await,
            Op::SetPodStatus { key, status } => {
                let pods: Api<Pod> = self.api(key)?;
                let patch = Patch::Merge(render::status(status));
                outcome(
                    "Pod status",
                    pods.patch_status(&key.name, &PatchParams::default(), &patch),
                )
                .await
            }
            Op::LabelPod { key, labels } => {
                let whole = json!([{"op": "add", "path": "/metadata/labels", "value": labels}]);
                let patch = Patch::<()>::Json(serde_json::from_value(whole)?);
                let pods: Api<Pod> = self.api(key)?;
                outcome("Pod labels", pods.patch(&key.name, &PatchParams::default(), &patch)).await
            }
            Op::BindPod { key, node } => self.bind(key, node).await,
            Op::DeletePod { key, grace } => self.delete::<Pod>(key, *grace).await,
            Op::CreateEndpoints { key, content } => {
                let created = self
                    .create::<Endpoints>(key, render::hand_made(&key.name, content))
                    .await;
                self.own_write(created)
            }
            Op::ReplaceEndpoints { key, content } => {
                let replaced = self
                    .replace::<Endpoints>(key, render::hand_made(&key.name, content))
                    .await;
                self.own_write(replaced)
            }
            Op::DeleteEndpoints { key } => self.delete_endpoints(key).await,
            Op::TamperEndpoints { key, how } => self.tamper(key, how).await,
            Op::TamperSlices { key, how, last } => self.tamper_slices(key, how, *last).await,
            Op::PutForeignSlice { key, number, address } => self.put_foreign(key, *number, *address).await,
            Op::DeleteForeignSlice { key, number } => self.delete_foreign(key, *number).await,
            Op::PutNode { name, node } => self.put_node(name, node).await,
            Op::DeleteNode { name } => self.delete_node(name).await,
            _ => Ok(DONE.into()),
        }
    }

    /// Deletes Endpoints.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn delete_endpoints(&self, key: &Key) -> Result<String> {
        let deleted = self.delete::<Endpoints>(key, 0).await;
        self.own_write(deleted)
    }

    /// Lets controllers look at a Service again, without a change that they copy.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn touch(&self, key: &Key, count: u64) -> Result<String> {
        self.patch_service(key, json!({"annotations": {TOUCH: count.to_string()}}))
            .await
    }

    /// Lets controllers write the Endpoints of a Service, whatever they hold.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn force(&self, key: &Key, count: u64) -> Result<String> {
        self.patch_service(key, json!({"labels": {FORCE: count.to_string()}}))
            .await
    }

    /// Takes the stream's own annotation off Endpoints.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn strip_note(&self, key: &Key) -> Result<String> {
        self.mark_endpoints(key, "annotations", NOTE, Value::Null).await
    }

    /// Sets one of the `labels` or `annotations` of Endpoints, or takes it off.
    pub async fn mark_endpoints(&self, key: &Key, field: &str, name: &str, value: Value) -> Result<String> {
        let patched = self
            .patch_endpoints(key, json!({"metadata": {field: {name: value}}}))
            .await;
        self.own_write(patched)
    }

    /// Two calls, as a client and a kubelet make them; Endpoints change with the second alone.
    async fn create_pod(&self, key: &Key, pod: &ops::Pod, status: &ops::Status) -> Result<String> {
        let pods: Api<Pod> = self.api(key)?;
        let body = serde_json::from_value(render::pod(&key.name, pod))?;
        let created = match answer("creating a Pod", pods.create(&PostParams::default(), &body)).await? {
            Ok(created) => created,
            Err(refused) => return Ok(refused),
        };
        {
            let mut known = self.pods.lock();
            let incarnation = known.incarnations.entry(key.clone()).or_default();
            *incarnation += 1;
            let words = format!("incarnation {incarnation}");
            known.by_uid.insert(created.metadata.uid.unwrap_or_default(), words);
        }
        let patch = Patch::Merge(render::status(status));
        outcome(
            "Pod status",
            pods.patch_status(&key.name, &PatchParams::default(), &patch),
        )
        .await
    }

    async fn bind(&self, key: &Key, node: &str) -> Result<String> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".into()),
                name: Some(node.into()),
                ..ObjectReference::default()
            },
        };
        let pods: Api<Pod> = self.api(key)?;
        let params = PostParams::default();
        let bound = pods.create_subresource::<Binding, Value>("binding", &key.name, &params, &binding);
        outcome("binding", bound).await
    }

    async fn patch_service(&self, key: &Key, metadata: Value) -> Result<String> {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let services: Api<Service> = self.api(key)?;
        outcome("Service", services.patch(&key.name, &PatchParams::default(), &patch)).await
    }

    async fn patch_endpoints(&self, key: &Key, patch: Value) -> Result<String> {
        let endpoints: Api<Endpoints> = self.api(key)?;
        outcome(
            "Endpoints",
            endpoints.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)),
        )
        .await
    }

    async fn tamper(&self, key: &Key, how: &Tamper) -> Result<String> {
        let foreign = json!([{"addresses": [{"ip": "203.0.113.7"}], "ports": [{"port": 4711}]}]);
        let patch = match how {
            Tamper::ExtraLabel => json!({"metadata": {"labels": {"tampered": "yes"}}}),
            Tamper::NoManagedBy => json!({"metadata": {"labels": {MANAGED_BY: null}}}),
            Tamper::ForeignSubsets => json!({"subsets": foreign}),
            Tamper::NoSubsets => json!({"subsets": null}),
            Tamper::Annotation => json!({"metadata": {"annotations": {NOTE: "mine"}}}),
            Tamper::OverCapacity => json!({"metadata": {"annotations": {OVER_CAPACITY: "warning"}}}),
            Tamper::Contradiction | Tamper::Reorder => {
                let endpoints: Api<Endpoints> = self.api(key)?;
                let mut subsets = match answer("Endpoints", endpoints.get(&key.name)).await? {
                    Ok(stored) => stored.subsets.unwrap_or_default(),
                    Err(refused) => return Ok(refused),
                };
                rearrange(&mut subsets, how);
                json!({"subsets": subsets})
            }
        };
        let patched = self.patch_endpoints(key, patch).await;
        self.own_write(patched)
    }

    /// Counts a write of Endpoints that is not the controller's.
    fn own_write(&self, outcome: Result<String>) -> Result<String> {
        if outcome.as_ref().is_ok_and(|outcome| outcome == DONE) {
            self.own_writes.lock().endpoints += 1;
        }
        outcome
    }
}

fn rearrange(subsets: &mut [EndpointSubset], how: &Tamper) {
    for subset in subsets {
        if *how == Tamper::Reorder {
            subset.addresses.iter_mut().for_each(|addresses| addresses.reverse());
        } else if let Some(doubtful) = subset
            .not_ready_addresses
            .as_ref()
            .and_then(|addresses| addresses.first())
        {
            subset.addresses.get_or_insert_default().push(doubtful.clone());
        }
    }
}
