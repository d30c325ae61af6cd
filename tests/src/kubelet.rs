//! A kubelet that only writes status: it takes Pods that no other Node has, gives them a Node and addresses, says that
//! they run and are ready, and lets them end. No container runs.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

mod addresses;
mod run;
mod status;
mod step;

use addresses::{Addresses, Pin};
use run::Loop;
use step::Ending;
pub(crate) use step::pre_stop;

/// How long a readiness that a test asks for may take to be stored.
const READINESS_DEADLINE: Duration = Duration::from_secs(20);

/// Where Pods have their addresses.
pub const POD_RANGE: &str = "10.244.0.0/16";

/// Namespace and name of a Pod.
type Key = (String, String);

/// Which Pods' readiness fails. Clones share it.
#[derive(Clone, Debug)]
struct Readiness {
    /// Those of which something else was said than what counts at first.
    differing: Arc<Mutex<HashSet<Key>>>,
    at_first: bool,
}

impl Readiness {
    fn fails(&self, key: &Key) -> bool {
        self.differing.lock().contains(key) == self.at_first
    }

    fn set(&self, key: &Key, fails: bool) {
        if fails == self.at_first {
            self.differing.lock().insert(key.clone());
        } else {
            self.differing.lock().remove(key);
        }
    }

    fn forget(&self, key: &Key) {
        self.differing.lock().remove(key);
    }
}

#[derive(Clone, Debug)]
struct Node {
    name: String,
    address: IpAddr,
}

/// What a [`StatusKubelet`] is to do.
pub struct Builder {
    client: Client,
    namespaces: Vec<String>,
    nodes: Vec<String>,
    ranges: Vec<String>,
    pins: Vec<Pin>,
    ending: Ending,
    ready_at_first: bool,
    avoid_cordoned: bool,
}

impl Builder {
    /// Adds a namespace; with none, the kubelet takes the Pods of all.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// The Nodes it plays, instead of one `status-kubelet`. Pods are spread over them in turn.
    pub fn nodes(mut self, names: &[&str]) -> Self {
        self.nodes = names.iter().map(|&n| n.to_owned()).collect();
        self
    }

    /// The Pod ranges, instead of [`POD_RANGE`]: at most one per family, the primary family first.
    pub fn pod_ranges(mut self, cidrs: &[&str]) -> Self {
        self.ranges = cidrs.iter().map(|&c| c.to_owned()).collect();
        self
    }

    /// The Pods of `namespace` whose names begin so get these addresses, in order, while there are any.
    pub fn pin(mut self, namespace: &str, name_prefix: &str, addresses: &[IpAddr]) -> Self {
        self.pins.push(Pin {
            namespace: namespace.to_owned(),
            name_prefix: name_prefix.to_owned(),
            addresses: addresses.iter().copied().collect(),
        });
        self
    }

    /// Pods get no Node that is cordoned, and wait if all are. It takes a look at the Nodes for every Pod.
    pub fn avoid_cordoned_nodes(mut self) -> Self {
        self.avoid_cordoned = true;
        self
    }

    /// The containers exit this long after a deletion and their preStop hooks; without it they use the whole grace period.
    pub fn exit_after(mut self, after: Duration) -> Self {
        self.ending.exit_after = after;
        self
    }

    /// A terminating Pod stays Ready until its containers exit; without it it is not Ready from the deletion on.
    pub fn ready_while_terminating(mut self) -> Self {
        self.ending.stay_ready = true;
        self
    }

    /// A Pod is not Ready until [`StatusKubelet::set_ready`] says so.
    pub fn not_ready_until_told(mut self) -> Self {
        self.ready_at_first = false;
        self
    }

    /// Makes the Nodes and begins, on the current runtime.
    ///
    /// # Errors
    /// A range cannot be read, or the Nodes cannot be written.
    pub async fn start(self) -> anyhow::Result<StatusKubelet> {
        let addresses = Addresses::new(&self.ranges, self.pins.clone())?;
        ensure!(!self.nodes.is_empty(), "a kubelet needs at least one Node");
        let mut nodes = Vec::new();
        for (name, last) in self.nodes.into_iter().zip(1..=250) {
            let address = IpAddr::V4(Ipv4Addr::new(192, 168, 240, last));
            write_node(&self.client, &name, address)
                .await
                .with_context(|| format!("writing Node {name}"))?;
            nodes.push(Node { name, address });
        }
        let failing = Readiness {
            differing: Arc::new(Mutex::new(HashSet::new())),
            at_first: self.ready_at_first,
        };
        let (nudge, nudges) = mpsc::channel(64);
        let task = tokio::spawn(run::run(Loop {
            client: self.client.clone(),
            namespaces: self.namespaces,
            nodes,
            avoid_cordoned: self.avoid_cordoned,
            ending: self.ending,
            pins: self.pins,
            addresses,
            failing: failing.clone(),
            nudges,
        }));
        Ok(StatusKubelet {
            client: self.client,
            failing,
            nudge,
            task,
        })
    }
}

/// A running kubelet. Dropping it stops it; its Pods and Nodes stay as they are.
pub struct StatusKubelet {
    client: Client,
    failing: Readiness,
    nudge: mpsc::Sender<Key>,
    task: JoinHandle<()>,
}

impl StatusKubelet {
    /// Says what is to be done; `client` needs write access to Nodes and Pods.
    pub fn builder(client: Client) -> Builder {
        Builder {
            client,
            namespaces: Vec::new(),
            nodes: vec!["status-kubelet".to_owned()],
            ranges: vec![POD_RANGE.to_owned()],
            pins: Vec::new(),
            ending: Ending {
                exit_after: Duration::MAX,
                stay_ready: false,
            },
            ready_at_first: true,
            avoid_cordoned: false,
        }
    }

    /// Makes the Pod's readiness fail, or restores it, and returns once that is stored.
    ///
    /// # Errors
    /// It is not stored in time: the Pod is not there, not ours, or the apiserver is away.
    pub async fn set_ready(&self, namespace: &str, name: &str, ready: bool) -> anyhow::Result<()> {
        let key = (namespace.to_owned(), name.to_owned());
        self.failing.set(&key, !ready);
        self.nudge.send(key).await.context("the kubelet has ended")?;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let stored = await_condition(api, name, move |pod: Option<&Pod>| pod.map(is_ready) == Some(ready));
        timeout(READINESS_DEADLINE, stored)
            .await
            .with_context(|| format!("Pod {namespace}/{name} did not become ready={ready}"))??;
        Ok(())
    }
}

impl Drop for StatusKubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whether the Pod's `Ready` condition is true.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

async fn write_node(client: &Client, name: &str, address: IpAddr) -> anyhow::Result<()> {
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    let (object, status) = status::node(name, address);
    match api
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await
    {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error.into()),
    }
    api.patch_status(name, &PatchParams::default(), &Patch::Strategic(status))
        .await?;
    Ok(())
}
