//! A control plane for one workload, its load, and the observer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Endpoints, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::controllers::Controllers;
use super::observer::Observer;
use super::side::{OUR_USER, PEER_USER};
use crate::cluster::{Builder, Cluster, Flavour};
use crate::load::{self, Load};

/// Nothing takes longer, or the run is void.
pub const LIMIT: Duration = Duration::from_secs(600);

/// See the module.
pub struct Rig {
    /// etcd and kube-apiserver, the same processes for both sides.
    pub cluster: Arc<Cluster>,
    /// Watches from the start.
    pub observer: Observer,
    /// Which ones the sides run.
    pub controllers: Controllers,
}

impl Rig {
    /// Starts an empty one, etcd in memory if the system has such a directory.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(controllers: Controllers) -> Result<Self> {
        let builder = Cluster::builder(Flavour::Ipv4Only).etcd_below(memory_directory());
        Self::with(builder, controllers).await
    }

    /// Starts one that holds this load already, from a directory that an earlier one has left behind. The first time, that one is made.
    ///
    /// # Errors
    /// It does not start, or the load cannot be created.
    pub async fn start_saved(cache: &Path, load: Load, controllers: Controllers) -> Result<Self> {
        let saved = cache.join(load.label());
        if !saved.exists() {
            let half = cache.join(format!("{}.new", load.label()));
            if half.exists() {
                fs::remove_dir_all(&half)?;
            }
            fs::create_dir_all(&half)?;
            println!(
                "creating {} Pods once, to be kept in {}",
                load.services * load.pods,
                saved.display()
            );
            let builder = Cluster::builder(Flavour::Ipv4Only).etcd_data(&half);
            let rig = Self::with(builder, controllers).await?;
            rig.load(load).await?;
            rig.cluster.stop_apiserver().await?;
            rig.cluster.stop_etcd().await?;
            fs::rename(&half, &saved)?;
        }
        let copy = tempfile::Builder::new()
            .prefix("svcplane-etcd-")
            .tempdir_in(memory_directory())?;
        copy_directory(&saved, copy.path())?;
        let builder = Cluster::builder(Flavour::Ipv4Only).etcd_copy(copy.keep());
        Self::with(builder, controllers).await
    }

    async fn with(builder: Builder, controllers: Controllers) -> Result<Self> {
        let builder = builder.user(OUR_USER.0, OUR_USER.1).user(PEER_USER.0, PEER_USER.1);
        let cluster = Arc::new(builder.start().await?);
        let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
        let user = |name: &str| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name});
        let binding = json!({
            "metadata": {"name": "bench-controllers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [user(OUR_USER.0), user(PEER_USER.0)]
        });
        if bindings.get_opt("bench-controllers").await?.is_none() {
            let binding = serde_json::from_value(binding)?;
            bindings.create(&PostParams::default(), &binding).await?;
        }
        if controllers.slices() {
            load::create_nodes(&cluster.client()).await?;
        }
        let observer = Observer::start(&cluster, controllers.kinds());
        Ok(Self {
            cluster,
            observer,
            controllers,
        })
    }

    /// Creates the load and waits until the observer knows all its Pods.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn load(&self, load: Load) -> Result<()> {
        self.load_with_fan(load, 0).await
    }

    /// The same with this many further Services that select the Pods of the first one.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn load_with_fan(&self, load: Load, fan: usize) -> Result<()> {
        let (known, client) = (self.observer.pods(), self.cluster.client());
        load.create_services(&client).await?;
        if fan > 0 {
            let services = load.create_fan(&client, fan).await?;
            self.observer
                .fan(&load.namespace(0), &load.service(0), services.into_iter());
        }
        load.create_pods(&client).await?;
        self.observer.knows_pods(known + load.all(), LIMIT).await
    }

    /// Makes the Pods what they were when the load was new. No side may run.
    ///
    /// # Errors
    /// The apiserver refuses something.
    pub async fn renew_pods(&self, load: Load) -> Result<()> {
        let client = self.cluster.client();
        delete_all::<Pod>(&client, load, &DeleteParams::default().grace_period(0)).await?;
        self.observer.knows_pods(0, LIMIT).await?;
        load.create_pods(&client).await?;
        self.observer.knows_pods(load.all(), LIMIT).await
    }

    /// Deletes all Endpoints and slices. No side may run.
    ///
    /// # Errors
    /// The apiserver refuses it.
    pub async fn clear(&self, load: Load) -> Result<()> {
        let (client, params) = (self.cluster.client(), DeleteParams::default());
        delete_all::<Endpoints>(&client, load, &params).await?;
        if self.controllers.slices() {
            delete_all::<EndpointSlice>(&client, load, &params).await?;
        }
        self.observer.right(0, LIMIT).await
    }
}

async fn delete_all<K>(client: &Client, load: Load, params: &DeleteParams) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    for number in 0..load.namespaces {
        let objects: Api<K> = Api::namespaced(client.clone(), &load.namespace(number));
        objects
            .delete_collection(params, &ListParams::default())
            .await
            .with_context(|| format!("deleting {}", K::kind(&())))?;
    }
    Ok(())
}

/// For etcd, so that the disk does not take part.
fn memory_directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&copy)?;
            copy_directory(&entry.path(), &copy)?;
        } else {
            fs::copy(entry.path(), &copy).with_context(|| format!("copying {}", entry.path().display()))?;
        }
    }
    Ok(())
}
