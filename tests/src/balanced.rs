//! Services of type LoadBalancer on a cluster with LoadBalancerPools, and an svcplane behind a fault proxy that serves them. One test at a time
//! has the cluster, because pools are everybody's.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::admission::{Credentials, Said, address, install_crds, send};
use crate::binaries;
use crate::cluster::{self, Cluster};
use crate::eventually::{eventually_gone, eventually_one};
use crate::namespace::TestNamespace;
use crate::proxy::{Match, Record};
use crate::ran;
use crate::svcplane::{Builder, Replica, Svcplane};

/// How long a state may take to come.
pub const SOON: Duration = Duration::from_secs(30);

/// The class that svcplane serves by default.
pub const CLASS: &str = "svcplane.io/lb";

/// The condition that svcplane keeps.
pub const CONDITION: &str = "svcplane.io/AddressesAssigned";

/// One test's turn: a namespace, no pools, no Services of other tests, and a leading svcplane in observe mode.
pub struct Balanced {
    /// For its Services.
    pub namespace: TestNamespace,
    /// Serves them.
    pub svcplane: Replica,
    flags: Vec<String>,
    _turn: MutexGuard<'static, bool>,
}

impl Balanced {
    /// With the default flags.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// With the default flags and the webhook, which the apiserver asks.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start_with_webhook(credentials: &Credentials) -> Result<Self> {
        let rig = Self::start_as(&[], |builder| credentials.serve(builder)).await?;
        let address = address(&rig.svcplane).await?;
        let client = rig.namespace.client();
        credentials.register(&client, &address, &[&rig.svcplane]).await?;
        Ok(rig)
    }

    /// With these flags, too.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start_with(flags: &[&str]) -> Result<Self> {
        Self::start_as(flags, |builder| builder).await
    }

    async fn start_as(flags: &[&str], change: impl Fn(Builder) -> Builder) -> Result<Self> {
        static TURN: Mutex<bool> = Mutex::const_new(false);
        let mut turn = TURN.lock().await;
        let cluster = cluster::shared();
        if !*turn {
            install_crds(&cluster.client()).await?;
            *turn = true;
        }
        clear(cluster).await?;
        let namespace = TestNamespace::create(cluster).await?;
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        let svcplane = lead(change(builder(&namespace, &flags, 1))).await?;
        Ok(Self {
            namespace,
            svcplane,
            flags,
            _turn: turn,
        })
    }

    /// Another svcplane of the same flags, which contends for the same Lease.
    ///
    /// # Errors
    /// It does not start.
    pub async fn another(&self) -> Result<Replica> {
        let builder = builder(&self.namespace, &self.flags, 2);
        let replica = Replica::start(cluster::shared(), builder).await?;
        replica.wait_ready().await?;
        Ok(replica)
    }

    /// Ends svcplane, does this, and starts it again.
    ///
    /// # Errors
    /// It does not end, or not start.
    pub async fn restart(&mut self, meanwhile: impl AsyncFnOnce(&TestNamespace)) -> Result<()> {
        self.svcplane.terminate().await?;
        meanwhile(&self.namespace).await;
        self.svcplane = lead(builder(&self.namespace, &self.flags, 1)).await?;
        Ok(())
    }

    /// Ends svcplane and starts it with these flags.
    ///
    /// # Errors
    /// It does not end, or not start.
    pub async fn restart_with(&mut self, flags: &[&str]) -> Result<()> {
        self.flags = flags.iter().map(ToString::to_string).collect();
        self.restart(async |_| {}).await
    }

    /// Runs a command of svcplane as `admin` with this standard input, and returns what it prints.
    ///
    /// # Panics
    /// It fails.
    pub async fn command(&self, args: &[&str], input: &str) -> String {
        let (svcplane, kubeconfig) = (binaries::svcplane().unwrap(), cluster::shared().kubeconfig());
        let ran = ran::program(&svcplane, &kubeconfig, args, input, SOON).await;
        ran.unwrap().succeeded().unwrap()
    }

    /// The same for kubectl.
    ///
    /// # Panics
    /// It fails.
    pub async fn kubectl(&self, args: &[&str], input: &str) -> String {
        ran::kubectl(cluster::shared(), args, input, SOON).await.unwrap()
    }

    /// Creates a pool.
    ///
    /// # Panics
    /// The apiserver refuses.
    pub async fn pool(&self, name: &str, spec: &Value) {
        let pool = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool", "metadata": {"name": name}, "spec": spec});
        self.send("POST", POOLS, Some(&pool)).await.accepted().unwrap();
    }

    /// Changes a pool's spec by a merge patch.
    ///
    /// # Panics
    /// The apiserver refuses.
    pub async fn edit_pool(&self, name: &str, spec: &Value) {
        let patch = json!({"spec": spec});
        let said = self.send("PATCH", &format!("{POOLS}/{name}"), Some(&patch)).await;
        said.accepted().unwrap();
    }

    /// Deletes a pool.
    ///
    /// # Panics
    /// The apiserver refuses.
    pub async fn delete_pool(&self, name: &str) {
        let said = self.send("DELETE", &format!("{POOLS}/{name}"), None).await;
        said.accepted().unwrap();
    }

    /// Waits until a pool's status is accepted.
    ///
    /// # Panics
    /// It is not in time.
    pub async fn pool_status(&self, name: &str, accept: impl Fn(&Value) -> bool) -> Value {
        let end = tokio::time::Instant::now() + SOON;
        loop {
            let said = self.send("GET", &format!("{POOLS}/{name}"), None).await.body;
            if accept(&said["status"]) {
                return said["status"].clone();
            }
            assert!(tokio::time::Instant::now() < end, "{said:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asks the apiserver as `admin`.
    ///
    /// # Panics
    /// There is no answer.
    pub async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Said {
        send(&self.namespace.client(), method, path, body).await.unwrap()
    }

    /// Creates a Service of our class with port 80, changed by a merge.
    ///
    /// # Panics
    /// The apiserver refuses.
    pub async fn service(&self, name: &str, change: &Value) -> Service {
        let mut service = json!({"metadata": {"name": name}, "spec": {
            "type": "LoadBalancer", "loadBalancerClass": CLASS, "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}});
        merge(&mut service, change);
        let path = format!("/api/v1/namespaces/{}/services", self.namespace.name());
        let said = self.send("POST", &path, Some(&service)).await.accepted().unwrap();
        serde_json::from_value(said).unwrap()
    }

    /// Deletes a Service and waits until it is gone.
    ///
    /// # Panics
    /// It stays.
    pub async fn delete(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{}/services/{name}", self.namespace.name());
        self.send("DELETE", &path, None).await.accepted().unwrap();
        eventually_gone("the Service", SOON, &self.namespace.services(), name)
            .await
            .unwrap();
    }

    /// Waits until the status of a Service shows exactly these addresses, in this order, and the condition this reason. Returns its message.
    ///
    /// # Panics
    /// It does not.
    pub async fn becomes(&self, name: &str, reason: &str, addresses: &[&str]) -> String {
        let check = |service: Option<&Service>| {
            let service = service.ok_or("no Service")?;
            let (shown, condition) = (shown(service), condition(service));
            let condition = condition.ok_or_else(|| format!("no condition, shows {shown:?}"))?;
            if shown == addresses && condition.reason == reason {
                Ok(condition.message.clone())
            } else {
                Err(format!(
                    "shows {shown:?} because of {}: {}",
                    condition.reason, condition.message
                ))
            }
        };
        let what = format!("{name}: {reason} {addresses:?}");
        eventually_one(&what, SOON, &self.namespace.services(), name, check)
            .await
            .unwrap()
    }

    /// Changes the status of a Service as this manager, by a merge patch.
    ///
    /// # Panics
    /// The apiserver refuses.
    pub async fn patch_status(&self, name: &str, manager: &str, status: &Value) {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"status": status}));
        let services = self.namespace.services();
        services.patch_status(name, &params, &patch).await.unwrap();
    }

    /// The writes of Services by this svcplane that reached the apiserver.
    pub fn writes(&self) -> Vec<Record> {
        self.svcplane.proxy().writes_of(&Match::writes("services"))
    }

    /// Waits until nothing is decided and not yet written.
    ///
    /// # Panics
    /// Something stays so.
    pub async fn at_rest(&self) {
        at_rest(&self.svcplane).await.unwrap();
    }
}

const POOLS: &str = "/apis/svcplane.io/v1alpha1/loadbalancerpools";

fn builder(namespace: &TestNamespace, flags: &[String], number: usize) -> Builder {
    let builder = Svcplane::builder().observe().lease_in(namespace).replica(number);
    flags.iter().fold(builder, |builder, flag| builder.arg(flag))
}

/// Starts it, and waits until it leads.
async fn lead(builder: Builder) -> Result<Replica> {
    let replica = Replica::start(cluster::shared(), builder).await?;
    replica.wait_log("loadbalancer-controller is leading", SOON).await?;
    Ok(replica)
}

/// Waits until this svcplane has written all that it has decided.
///
/// # Errors
/// It has not in time.
pub async fn at_rest(svcplane: &Svcplane) -> Result<()> {
    let calm = |value: f64| value < 0.5;
    svcplane
        .wait_metric("svcplane_loadbalancer_divergence", &[], SOON, calm)
        .await?;
    let queue = [("name", "loadbalancer")];
    svcplane.wait_metric("workqueue_depth", &queue, SOON, calm).await?;
    svcplane
        .wait_metric("workqueue_unfinished_work_seconds", &queue, SOON, |value| value <= 0.0)
        .await?;
    Ok(())
}

/// Takes away what other tests have left.
async fn clear(cluster: &Cluster) -> Result<()> {
    let client = cluster.client();
    let services: Api<Service> = Api::all(client.clone());
    let balanced = ListParams::default().fields("spec.type=LoadBalancer");
    for service in services.list(&balanced).await? {
        let namespace = service.namespace().context("no namespace")?;
        let there: Api<Service> = Api::namespaced(client.clone(), &namespace);
        there
            .delete(&service.name_any(), &kube::api::DeleteParams::default())
            .await?;
    }
    send(&client, "DELETE", POOLS, None)
        .await?
        .accepted()
        .map(drop)
        .map_err(|error| anyhow!("pools stay: {error}"))
}

/// The addresses that a status shows.
pub fn shown(service: &Service) -> Vec<String> {
    let status = service.status.as_ref();
    let ingress = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let entries = ingress.into_iter().flatten();
    entries
        .map(|entry| entry.ip.clone().or(entry.hostname.clone()).unwrap_or_default())
        .collect()
}

/// svcplane's condition.
pub fn condition(service: &Service) -> Option<&Condition> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == CONDITION)
}

/// A JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, change) in changes {
        if change.is_null() {
            if let Some(object) = target.as_object_mut() {
                object.remove(name);
            }
        } else {
            merge(&mut target[name], change);
        }
    }
}
