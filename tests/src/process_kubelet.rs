//! A kubelet that runs what Pods say: the command, environment and service-account token of each Pod of one namespace as a process of
//! this machine. Nodes, addresses and status are the [status-kubelet](crate::kubelet)'s; a Pod is Ready while its process's `/readyz` says so.
//!
//! Containers share this machine's network, so every one listens on ports of loopback of its own instead of those that its flags say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

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
use crate::kubelet::StatusKubelet;
use crate::namespace::TestNamespace;
use crate::process::Exit;
use crate::proxy::FaultProxy;
use crate::svcplane::{Builder, Svcplane};

/// Between two looks at Pods and processes.
const LOOK: Duration = Duration::from_millis(200);

/// How long a Pod that was deleted stays.
const GRACE: Duration = Duration::from_secs(3);

/// A Pod's process.
struct Running {
    svcplane: Svcplane,
    ready: bool,
    /// It serves probes; else it runs to its end.
    serves: bool,
    told_to_end: bool,
}

type Pods = Arc<Mutex<BTreeMap<String, String>>>;

/// A running kubelet. Dropping it ends its processes.
pub struct ProcessKubelet {
    thread: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
    webhooks: Pods,
}

impl ProcessKubelet {
    /// Takes the Pods of this namespace. Requests of their processes go through `proxy`. It has a thread of its own, so that it works while
    /// a test waits for Helm.
    pub fn start(cluster: &Cluster, proxy: Arc<FaultProxy>, namespace: &str) -> Self {
        let webhooks = Pods::default();
        let (stop, stopped) = oneshot::channel();
        let (config, namespace) = (cluster.client_config("admin"), namespace.to_owned());
        let shown = Arc::clone(&webhooks);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let ended: Result<()> = runtime.map_err(Into::into).and_then(|runtime| {
                runtime.block_on(async {
                    let client = Client::try_from(config)?;
                    let kubelet = Loop::new(client, proxy, &namespace, shown).await?;
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
        }
    }

    /// Where the webhooks of ready Pods listen.
    pub fn webhooks(&self) -> Vec<String> {
        self.webhooks.lock().values().cloned().collect()
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

struct Loop {
    status: StatusKubelet,
    proxy: Arc<FaultProxy>,
    namespace: TestNamespace,
    webhooks: Pods,
    running: BTreeMap<String, Running>,
}

impl Loop {
    async fn new(client: Client, proxy: Arc<FaultProxy>, namespace: &str, webhooks: Pods) -> Result<Self> {
        let status = StatusKubelet::builder(client.clone())
            .namespace(namespace)
            .nodes(&["node-1", "node-2", "node-3"])
            .exit_after(GRACE)
            .not_ready_until_told()
            .start()
            .await?;
        Ok(Self {
            status,
            proxy,
            namespace: TestNamespace::existing(client, namespace),
            webhooks,
            running: BTreeMap::new(),
        })
    }

    async fn run(mut self) -> Result<()> {
        let pods: Api<Pod> = self.namespace.api();
        loop {
            let list = pods.list(&ListParams::default()).await?.items;
            for pod in &list {
                let name = pod.name_any();
                let started = pod.status.as_ref().is_some_and(|it| it.pod_ip.is_some());
                let ending = pod.metadata.deletion_timestamp.is_some();
                if let Some(running) = self.running.get_mut(&name) {
                    if ending && !running.told_to_end {
                        running.told_to_end = true;
                        self.webhooks.lock().remove(&name);
                        running.svcplane.signal(crate::process::Signal::TERM);
                    }
                } else if started && !ending {
                    let running = self.begin(pod).await.with_context(|| format!("starting Pod {name}"))?;
                    self.running.insert(name, running);
                }
            }
            self.running
                .retain(|name, _| list.iter().any(|pod| pod.name_any() == *name));
            self.look(&pods).await?;
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn begin(&self, pod: &Pod) -> Result<Running> {
        let spec = pod.spec.as_ref().context("no spec")?;
        let container = spec.containers.first().context("no container")?;
        let account = spec.service_account_name.as_deref().unwrap_or("default");
        let token = token(&self.namespace, account).await?;
        let builder = process(pod, container)?.kubeconfig(self.proxy.kubeconfig(&token)?);
        Ok(Running {
            svcplane: builder.spawn()?,
            ready: false,
            serves: container.readiness_probe.is_some(),
            told_to_end: false,
        })
    }

    /// Readiness of what serves, the end of what runs to its end.
    async fn look(&mut self, pods: &Api<Pod>) -> Result<()> {
        for (name, running) in &mut self.running {
            if running.told_to_end {
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
                if let Err(error) = self.status.set_ready(self.namespace.name(), name, ready).await {
                    // A Pod that is told to end meanwhile is not ready any more, and is seen to by the next look.
                    let pod = pods.get_opt(name).await?;
                    if pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

/// What the container says, with ports of its own.
fn process(pod: &Pod, container: &Container) -> Result<Builder> {
    let arguments = container.args.clone().unwrap_or_default();
    let (command, flags) = arguments.split_first().context("no arguments")?;
    let mut builder = Builder::bare(command).replica_named(&pod.name_any());
    for flag in flags {
        builder = builder.arg(flag);
    }
    for (flag, instead) in [("--admin-address", "127.0.0.1:0"), ("--webhook-address", "127.0.0.1:0")] {
        if flags.iter().any(|it| it.starts_with(flag)) {
            builder = builder.arg(&format!("{flag}={instead}"));
        }
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
