//! One of the two clusters, with its controller.

mod apply;
mod calls;
mod controller;
mod look;
mod nodes;
mod retries;
mod slices;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use rand::distr::{Alphanumeric, SampleString as _};

pub use self::calls::DONE;
pub use self::controller::{Controller, Controllers, OurController};
pub use self::look::Versions;
pub use self::retries::{Retries, Tried};
use super::model::SPACES;
use super::ops::Key;
use crate::cluster::{Cluster, Flavour};
use crate::namespace::create_named;

/// What one call of the test's own may take on a busy machine.
const CALL: Duration = Duration::from_secs(60);

/// A cluster and what keeps its Endpoints.
pub struct Side {
    // Dropped before the cluster it talks to.
    controller: Controller,
    client: Client,
    cluster: Cluster,
    /// Names of the namespaces in use, by number.
    spaces: Vec<String>,
    pods: Mutex<Pods>,
    own_writes: Mutex<OwnWrites>,
    /// Slices that no controller writes, with the resourceVersion that the test gave them.
    foreign: Mutex<BTreeMap<Key, String>>,
}

/// Writes that the test itself has made.
#[derive(Clone, Copy, Default)]
struct OwnWrites {
    endpoints: u64,
    slices: u64,
}

/// Pods by UID, and how many of each name there were.
#[derive(Default)]
struct Pods {
    by_uid: HashMap<String, String>,
    incarnations: HashMap<Key, u32>,
}

impl Side {
    /// Starts the cluster, with empty namespaces, and the controller that `controller` makes.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(controller: impl FnOnce(&Cluster) -> Result<Controller>) -> Result<Self> {
        let cluster = Cluster::start(Flavour::DualStack).await?;
        let mut side = Self {
            controller: controller(&cluster)?,
            client: cluster.client(),
            cluster,
            spaces: Vec::new(),
            pods: Mutex::default(),
            own_writes: Mutex::default(),
            foreign: Mutex::default(),
        };
        side.fresh_spaces().await?;
        side.controller.start(&side.cluster).await?;
        Ok(side)
    }

    /// Goes on in new, empty namespaces, and empties the old ones.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn fresh_spaces(&mut self) -> Result<()> {
        for space in std::mem::take(&mut self.spaces) {
            self.empty(&space).await?;
        }
        self.delete_nodes().await?;
        let run = Alphanumeric.sample_string(&mut rand::rng(), 6).to_ascii_lowercase();
        for number in 0..SPACES {
            let name = format!("d{number}-{run}");
            create_named(&self.client, &name).await?;
            self.spaces.push(name);
        }
        *self.pods.lock() = Pods::default();
        self.foreign.lock().clear();
        Ok(())
    }

    async fn empty(&self, space: &str) -> Result<()> {
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        };
        let services: Api<Service> = Api::namespaced(self.client.clone(), space);
        for service in services.list_metadata(&ListParams::default()).await? {
            services.delete(&service.name_any(), &now).await?;
        }
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.client.clone(), space);
        pods.delete_collection(&now, &ListParams::default()).await?;
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), space);
        slices.delete_collection(&now, &ListParams::default()).await?;
        Ok(())
    }

    /// The name of a namespace.
    fn space(&self, number: usize) -> Result<&str> {
        let name = self.spaces.get(number).map(String::as_str);
        name.with_context(|| format!("no namespace number {number}"))
    }

    fn numbers(&self) -> HashMap<String, usize> {
        self.spaces
            .iter()
            .cloned()
            .enumerate()
            .map(|(number, name)| (name, number))
            .collect()
    }

    /// Writes of Endpoints and of slices by the controllers so far, as the apiserver counts them.
    ///
    /// # Errors
    /// The apiserver does not say.
    pub async fn writes(&self) -> Result<[u64; 2]> {
        let own = *self.own_writes.lock();
        let endpoints = self.cluster.writes("endpoints").await?;
        let slices = self.cluster.writes("endpointslices").await?;
        Ok([
            endpoints.saturating_sub(own.endpoints),
            slices.saturating_sub(own.slices),
        ])
    }

    /// Ends the disturbances of a window: the program runs, and nothing goes wrong for it.
    ///
    /// # Errors
    /// It does not start.
    pub async fn calm(&mut self) -> Result<()> {
        self.controller.calm();
        self.controller.start(&self.cluster).await
    }
}

/// With a deadline.
async fn timely<T>(what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout(CALL, call).await;
    answer
        .with_context(|| format!("{what}: no answer within {CALL:?}"))?
        .with_context(|| what.to_string())
}
