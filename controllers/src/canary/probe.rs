//! One probe.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use svcplane_runtime::api::{Failure, call};

use super::Verdict;
use crate::controller::Controller;
use crate::endpointslice::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use crate::model::{CANARY_LABEL, Manager, ObjectKey, Revision, Uid, Version};
use crate::write::Writer;

/// How long a built-in controller may take to make what it makes for the canary.
const WAIT: Duration = Duration::from_secs(10);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// What one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Asks whether built-in controllers live.
#[derive(Clone)]
pub struct Probe {
    client: Client,
    canary: ObjectKey,
    /// The controllers whose counterparts are asked after.
    whose: Vec<Controller>,
}

/// What was made for the canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    whose: Controller,
    key: ObjectKey,
    version: Version,
}

impl Found {
    fn new(whose: Controller, metadata: &ObjectMeta) -> Self {
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
        Self {
            whose,
            key: ObjectKey::new(text(&metadata.namespace), text(&metadata.name)),
            version: Version {
                uid: Uid::parse(&text(&metadata.uid)),
                revision: Revision::parse(&text(&metadata.resource_version)),
            },
        }
    }
}

impl Probe {
    /// By this Service. Of `running`, those are asked after whose counterparts a Service with a selector can show: mirrors are not.
    pub fn new(client: Client, canary: ObjectKey, running: &[Controller]) -> Self {
        let shown = |controller: &&Controller| matches!(controller, Controller::Endpoints | Controller::Slices);
        Self {
            client,
            canary,
            whose: running.iter().filter(shown).copied().collect(),
        }
    }

    /// The Service.
    pub fn canary(&self) -> &ObjectKey {
        &self.canary
    }

    /// Whose counterparts it asks after.
    pub fn whose(&self) -> &[Controller] {
        &self.whose
    }

    /// Takes away what earlier lives have left, and waits for new. The error says in one line what must be put right.
    pub async fn run(&self) -> Result<Verdict, String> {
        self.check().await?;
        self.clear().await?;
        let cannot = |failure| self.cannot(&failure);
        let bait = self.lay().await.map_err(cannot)?;
        let alive = self.watch(bait.as_ref()).await;
        if let Some(bait) = &bait {
            self.remove(bait).await.map_err(cannot)?;
        }
        Ok(Verdict {
            time: Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH),
            alive: alive.map_err(cannot)?.into_iter().collect(),
            asked: self.whose.clone(),
        })
    }

    async fn watch(&self, bait: Option<&Found>) -> Result<BTreeSet<Controller>, Failure> {
        let (started, mut alive) = (Instant::now(), BTreeSet::new());
        while started.elapsed() < WAIT && alive.len() < self.whose.len() {
            tokio::time::sleep(PAUSE).await;
            alive.extend(self.alive(bait).await?);
        }
        Ok(alive)
    }

    /// Makes a slice that the canary should not have. endpointslice-controller misses slices only if this very process of it has made them,
    /// but whoever adds one in its name has it look at the Service: it takes this one away or writes another.
    pub async fn lay(&self) -> Result<Option<Found>, Failure> {
        if !self.whose.contains(&Controller::Slices) {
            return Ok(None);
        }
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &self.canary.namespace);
        let labels = [
            (SERVICE_NAME_LABEL, &*self.canary.name),
            (MANAGED_BY_LABEL, Manager::Selector.as_str()),
        ];
        let bait = EndpointSlice {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", self.canary.name)),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                ..ObjectMeta::default()
            },
            address_type: "IPv4".to_owned(),
            // A port without a number and without endpoints: nobody can take it for more than it is.
            ports: Some(vec![EndpointPort {
                name: Some("canary".to_owned()),
                ..EndpointPort::default()
            }]),
            endpoints: Some(Vec::new()),
        };
        let made = call(CALL_LIMIT, slices.create(&PostParams::default(), &bait)).await?;
        Ok(Some(Found::new(Controller::Slices, &made.metadata)))
    }

    /// Takes away what was made for the canary so far. The error is one line.
    pub async fn clear(&self) -> Result<(), String> {
        let cannot = |failure| self.cannot(&failure);
        for left in self.look().await.map_err(cannot)? {
            self.remove(&left).await.map_err(cannot)?;
        }
        Ok(())
    }

    fn cannot(&self, failure: &Failure) -> String {
        format!("cannot probe by canary {}: {failure}", self.canary)
    }

    /// Whose counterparts have made something, now or earlier, or have touched the bait.
    pub async fn alive(&self, bait: Option<&Found>) -> Result<BTreeSet<Controller>, Failure> {
        Ok(signs(self.look().await?, bait))
    }

    /// Whether the Service is one by which anything can be told. The error says what would be right.
    pub async fn check(&self) -> Result<(), String> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.canary.namespace);
        let canary = &self.canary;
        let stored = call(CALL_LIMIT, services.get_opt(&canary.name)).await;
        let stored = stored.map_err(|failure| format!("cannot read canary {canary}: {failure}"))?;
        let Some(service) = stored else {
            return Err(format!("canary {canary} does not exist: {}", needed()));
        };
        let spec = service.spec.unwrap_or_default();
        let marked = service
            .metadata
            .labels
            .is_some_and(|labels| labels.contains_key(CANARY_LABEL));
        let selects = spec.selector.is_some_and(|selector| !selector.is_empty());
        if marked && selects && spec.cluster_ip.as_deref() == Some("None") {
            Ok(())
        } else {
            Err(format!("canary {canary} cannot be used: {}", needed()))
        }
    }

    async fn look(&self) -> Result<Vec<Found>, Failure> {
        let mut found = Vec::new();
        let canary = &self.canary;
        if self.whose.contains(&Controller::Endpoints) {
            let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), &canary.namespace);
            let stored = call(CALL_LIMIT, endpoints.get_metadata_opt(&canary.name)).await?;
            found.extend(stored.map(|stored| Found::new(Controller::Endpoints, &stored.metadata)));
        }
        if self.whose.contains(&Controller::Slices) {
            let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &canary.namespace);
            let (name, manager) = (&canary.name, Manager::Selector.as_str());
            let of_canary = format!("{SERVICE_NAME_LABEL}={name},{MANAGED_BY_LABEL}={manager}");
            let stored = call(
                CALL_LIMIT,
                slices.list_metadata(&ListParams::default().labels(&of_canary)),
            )
            .await?;
            found.extend(
                stored
                    .items
                    .iter()
                    .map(|it| Found::new(Controller::Slices, &it.metadata)),
            );
        }
        Ok(found)
    }

    async fn remove(&self, found: &Found) -> Result<(), Failure> {
        match found.whose {
            Controller::Endpoints => self.delete::<Endpoints>(found).await,
            _ => self.delete::<EndpointSlice>(found).await,
        }
    }

    async fn delete<K>(&self, found: &Found) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned + Clone + std::fmt::Debug,
    {
        let writer = Writer::new(self.client.clone());
        match writer.delete::<K>(&found.key, &found.version, CALL_LIMIT).await {
            // Somebody has just written it: it will be found.
            Ok(_) | Err(Failure::Conflict) => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

/// Of whom this tells.
fn signs(found: Vec<Found>, bait: Option<&Found>) -> BTreeSet<Controller> {
    let untouched = bait.is_none_or(|bait| found.contains(bait));
    let bait_gone = (!untouched).then_some(Controller::Slices);
    let others = found.into_iter().filter(|it| Some(it) != bait);
    others.map(|it| it.whose).chain(bait_gone).collect()
}

fn needed() -> String {
    format!("it must be a Service with the label {CANARY_LABEL}, clusterIP None and a selector that matches no Pod")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(whose: Controller, name: &str, revision: &str) -> Found {
        Found {
            whose,
            key: ObjectKey::new("svcplane", name),
            version: Version {
                uid: Uid::parse(name),
                revision: Revision::parse(revision),
            },
        }
    }

    #[test]
    fn a_bait_that_stays_as_it_is_is_no_sign_of_life() {
        let slice = |name, revision| found(Controller::Slices, name, revision);
        let endpoints = || found(Controller::Endpoints, "canary", "9");
        let bait = || slice("bait", "5");
        let table = [
            ("nothing", vec![], None, vec![]),
            (
                "a slice",
                vec![slice("placeholder", "6")],
                None,
                vec![Controller::Slices],
            ),
            ("the bait alone", vec![bait()], Some(bait()), vec![]),
            ("the bait is gone", vec![], Some(bait()), vec![Controller::Slices]),
            (
                "the bait was written",
                vec![slice("bait", "6")],
                Some(bait()),
                vec![Controller::Slices],
            ),
            (
                "a slice beside it",
                vec![slice("placeholder", "6"), bait()],
                Some(bait()),
                vec![Controller::Slices],
            ),
            (
                "Endpoints beside it",
                vec![endpoints(), bait()],
                Some(bait()),
                vec![Controller::Endpoints],
            ),
        ];
        for (what, found, bait, want) in table {
            assert_eq!(signs(found, bait.as_ref()), want.into_iter().collect(), "{what}");
        }
    }
}
