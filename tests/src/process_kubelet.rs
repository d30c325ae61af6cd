//! A kubelet that runs what Pods say: the command, environment and service-account token of each Pod of one namespace as a process of
//! this machine. Nodes, addresses and status are the [status-kubelet](crate::kubelet)'s; a Pod is Ready while its process's `/readyz` says so.
//! A process that ends is started again; one whose Pod is deleted gets SIGTERM after its preStop hook.
//!
//! Containers share one network: see [`Place`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;

use crate::admission::address;
use crate::chart::token;
use crate::cluster::Cluster;
use crate::kubelet::{StatusKubelet, pre_stop};
use crate::namespace::TestNamespace;
use crate::process::{Exit, Signal};
use crate::proxy::FaultProxy;
use crate::svcplane::{Builder, Svcplane};

/// Between two looks at Pods and processes.
const LOOK: Duration = Duration::from_millis(200);

/// How long a Pod that was deleted stays after its preStop hook.
const GRACE: Duration = Duration::from_secs(3);

/// Where processes listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On ports of loopback of their own instead of those that their flags say.
    Loopback,
    /// On the Pod's address and on the ports that their flags say: in a [private network](crate::private_network).
    PodAddress,
}

/// A Pod's process.
struct Running {
    /// The Pod's: another one may come under its name.
    uid: String,
    svcplane: Svcplane,
    ready: bool,
    /// It serves probes; else it runs to its end.
    serves: bool,
    restarts: usize,
    /// When it is to get SIGTERM: its Pod was deleted.
    ends: Option<Instant>,
    told_to_end: bool,
}

impl Running {
    /// It has ended though its Pod goes on.
    fn crashed(&self) -> bool {
        self.serves && self.ends.is_none() && self.svcplane.process().exit().is_some()
    }
}

type Pods = Arc<Mutex<BTreeMap<String, String>>>;

/// What a test wants to go wrong.
#[derive(Default)]
struct Orders {
    halted: bool,
    kill: Vec<String>,
}

/// A running kubelet. Dropping it ends its processes.
pub struct ProcessKubelet {
    thread: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
    webhooks: Pods,
    orders: Arc<Mutex<Orders>>,
}

impl ProcessKubelet {
    /// Takes the Pods of this namespace. Requests of their processes go through `proxy`. It has a thread of its own, so that it works while
    /// a test waits for Helm.
    pub fn start(cluster: &Cluster, proxy: Arc<FaultProxy>, namespace: &str, place: Place) -> Self {
        let (webhooks, orders) = (Pods::default(), Arc::<Mutex<Orders>>::default());
        let (stop, stopped) = oneshot::channel();
        let (config, namespace) = (cluster.client_config("admin"), namespace.to_owned());
        let (shown, obeyed) = (Arc::clone(&webhooks), Arc::clone(&orders));
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let ended: Result<()> = runtime.map_err(Into::into).and_then(|runtime| {
                runtime.block_on(async {
                    let client = Client::try_from(config)?;
                    let kubelet = Loop {
                        status: status_kubelet(client.clone(), &namespace, place).await?,
                        place,
                        proxy,
                        namespace: TestNamespace::existing(client, &namespace),
                        webhooks: shown,
                        orders: obeyed,
                        running: BTreeMap::new(),
                    };
                    tokio::select! {
                        ended = kubelet.run() => ended,
                        _ = stopped => Ok(()),
                    }
                })
            });
            if let Err(error) = ended {
                eprintln!("the process-kubelet has ended: {error:#}");
            }
        });
        Self {
            thread: Some(thread),
            stop: Some(stop),
            webhooks,
            orders,
        }
    }

    /// Where the webhooks of ready Pods listen.
    pub fn webhooks(&self) -> Vec<String> {
        self.webhooks.lock().values().cloned().collect()
    }

    /// Ends the process of this Pod with SIGKILL. It is started again.
    pub fn kill(&self, pod: &str) {
        self.orders.lock().kill.push(pod.to_owned());
    }

    /// Ends all processes with SIGKILL and starts none, until [`ProcessKubelet::resume`]. The cluster is not told, as by Nodes that lose their
    /// power: Pods stay Ready.
    pub fn halt(&self) {
        self.orders.lock().halted = true;
    }

    /// Starts them again.
    pub fn resume(&self) {
        self.orders.lock().halted = false;
    }
}

impl Drop for ProcessKubelet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn status_kubelet(client: Client, namespace: &str, place: Place) -> Result<StatusKubelet> {
    let builder = StatusKubelet::builder(client)
        .namespace(namespace)
        .nodes(&["node-1", "node-2", "node-3"])
        .exit_after(GRACE)
        .avoid_cordoned_nodes()
        .not_ready_until_told();
    let builder = match place {
        Place::Loopback => builder,
        // Its probes go on while its preStop hook runs.
        Place::PodAddress => builder.ready_while_terminating(),
    };
    builder.start().await
}

struct Loop {
    status: StatusKubelet,
    place: Place,
    proxy: Arc<FaultProxy>,
    namespace: TestNamespace,
    webhooks: Pods,
    orders: Arc<Mutex<Orders>>,
    running: BTreeMap<String, Running>,
}

impl Loop {
    async fn run(mut self) -> Result<()> {
        let pods: Api<Pod> = self.namespace.api();
        loop {
            // An apiserver that restarts ends no kubelet.
            let listed = pods.list(&ListParams::default()).await;
            let halted = self.obey();
            if let Ok(list) = listed {
                let uids: BTreeSet<String> = list.items.iter().filter_map(kube::ResourceExt::uid).collect();
                self.running.retain(|_, running| uids.contains(&running.uid));
                self.webhooks.lock().retain(|name, _| self.running.contains_key(name));
                for pod in &list.items {
                    self.tend(pod, halted)
                        .await
                        .with_context(|| format!("Pod {}", pod.name_any()))?;
                }
                if !halted {
                    self.look(&pods).await?;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Ends what is to be ended by force. Returns whether nothing is to run.
    fn obey(&self) -> bool {
        let mut orders = self.orders.lock();
        let kill = std::mem::take(&mut orders.kill);
        for (name, running) in &self.running {
            if orders.halted || kill.contains(name) {
                running.svcplane.signal(Signal::KILL);
            }
        }
        orders.halted
    }

    /// Starts a Pod's process, again if it has ended, and ends it.
    async fn tend(&mut self, pod: &Pod, halted: bool) -> Result<()> {
        let name = pod.name_any();
        let started = pod.status.as_ref().is_some_and(|it| it.pod_ip.is_some());
        let ending = pod.metadata.deletion_timestamp.is_some();
        let Some(running) = self.running.get_mut(&name) else {
            if started && !ending && !halted {
                let running = self.begin(pod, 0).await?;
                self.running.insert(name, running);
            }
            return Ok(());
        };
        if ending && running.ends.is_none() {
            running.ends = Some(Instant::now() + pre_stop(pod));
            self.webhooks.lock().remove(&name);
        }
        if running.ends.is_some_and(|at| at <= Instant::now()) && !running.told_to_end {
            running.told_to_end = true;
            running.svcplane.signal(Signal::TERM);
        }
        if running.crashed() && !halted {
            let (ready, restarts) = (running.ready, running.restarts + 1);
            if ready {
                self.webhooks.lock().remove(&name);
                self.tell(&name, false).await?;
            }
            let running = self.begin(pod, restarts).await?;
            self.running.insert(name, running);
        }
        Ok(())
    }

    async fn begin(&self, pod: &Pod, restarts: usize) -> Result<Running> {
        let spec = pod.spec.as_ref().context("no spec")?;
        let container = spec.containers.first().context("no container")?;
        let account = spec.service_account_name.as_deref().unwrap_or("default");
        let token = token(&self.namespace, account).await?;
        let builder = process(pod, container, self.place)?
            // A log of its own.
            .replica_named(&format!("{}-{restarts}", pod.name_any()))
            .kubeconfig(self.proxy.kubeconfig(&token)?);
        Ok(Running {
            uid: pod.uid().context("no uid")?,
            svcplane: builder.spawn()?,
            ready: false,
            serves: container.readiness_probe.is_some(),
            restarts,
            ends: None,
            told_to_end: false,
        })
    }

    /// Readiness of what serves, the end of what runs to its end.
    async fn look(&mut self, pods: &Api<Pod>) -> Result<()> {
        let mut changed = Vec::new();
        for (name, running) in &mut self.running {
            if running.told_to_end || running.ends.is_some() || running.crashed() {
                continue;
            }
            if !running.serves {
                if let Some(exit) = running.svcplane.process().exit() {
                    let phase = if exit == Exit::Code(0) { "Succeeded" } else { "Failed" };
                    let status = Patch::Merge(json!({"status": {"phase": phase}}));
                    pods.patch_status(name, &PatchParams::default(), &status).await?;
                    running.told_to_end = true;
                }
                continue;
            }
            running.svcplane.find_admin();
            let ready = running.svcplane.readyz().await.unwrap_or(false);
            if ready != running.ready {
                running.ready = ready;
                let webhook = if ready {
                    address(&running.svcplane).await.ok()
                } else {
                    None
                };
                match webhook {
                    Some(webhook) => self.webhooks.lock().insert(name.clone(), webhook),
                    None => self.webhooks.lock().remove(name),
                };
                changed.push((name.clone(), ready));
            }
        }
        for (name, ready) in changed {
            self.tell(&name, ready).await?;
        }
        Ok(())
    }

    /// Writes the readiness of a Pod.
    async fn tell(&self, name: &str, ready: bool) -> Result<()> {
        let told = self.status.set_ready(self.namespace.name(), name, ready).await;
        if let Err(error) = told {
            // A Pod that is told to end meanwhile is not ready any more, and is seen to by the next look.
            let pod = self.namespace.pods().get_opt(name).await?;
            if pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()) {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// What the container says, listening at this place.
fn process(pod: &Pod, container: &Container, place: Place) -> Result<Builder> {
    let arguments = container.args.clone().unwrap_or_default();
    let (command, flags) = arguments.split_first().context("no arguments")?;
    let address = pod.status.as_ref().and_then(|it| it.pod_ip.as_deref());
    let mut builder = Builder::bare(command);
    for flag in flags {
        builder = match flag.split_once('=') {
            Some((name @ ("--admin-address" | "--webhook-address"), given)) => {
                let port = given.rsplit(':').next().context("no port")?;
                let instead = match place {
                    Place::Loopback => "127.0.0.1:0".to_owned(),
                    Place::PodAddress => format!("{}:{port}", address.context("no address")?),
                };
                builder.arg(&format!("{name}={instead}"))
            }
            _ => builder.arg(flag),
        };
    }
    for variable in container.env.iter().flatten() {
        let field = variable.value_from.as_ref().and_then(|it| it.field_ref.as_ref());
        let value = match field.map(|field| field.field_path.as_str()) {
            Some("metadata.name") => Some(pod.name_any()),
            Some("metadata.namespace") => pod.namespace(),
            Some("metadata.uid") => pod.uid(),
            _ => variable.value.clone(),
        };
        builder = builder.env(&variable.name, &value.unwrap_or_default());
    }
    Ok(builder)
}
