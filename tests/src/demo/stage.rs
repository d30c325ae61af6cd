//! What the demo plays on: a control plane, two replicas of svcplane with their webhook, a kubelet that only writes status, and `examples/`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::screen::Screen;
use crate::admission::{Credentials, address, install_crds, wait_choosing};
use crate::balancer::Balancer;
use crate::binaries;
use crate::cluster::{Cluster, Flavour};
use crate::eventually::eventually_one;
use crate::kubelet::StatusKubelet;
use crate::ran;
use crate::svcplane::Svcplane;

/// Namespace of svcplane's Lease.
pub const NAMESPACE: &str = "svcplane";
/// The apiserver's own range is 10.96.0.0/16; the examples have ClusterIPs from these as well.
const SERVICE_CIDRS: [(&str, &str); 2] = [("demo-10-106", "10.106.0.0/16"), ("demo-10-0", "10.0.0.0/16")];
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
const DEADLINE: Duration = Duration::from_secs(30);

/// Everything that runs. Dropping it ends all of it.
pub struct Stage {
    // Dropped in this order: what uses the apiserver before the apiserver.
    replicas: Vec<Option<Svcplane>>,
    credentials: Credentials,
    balancer: Balancer,
    /// Plays the Nodes.
    pub kubelet: StatusKubelet,
    /// The control plane.
    pub cluster: Cluster,
    /// svcplane.
    pub program: PathBuf,
}

impl Stage {
    /// Starts everything and applies the examples. That svcplane works is for the story to find out.
    ///
    /// # Errors
    /// A program is missing or does not start, or the examples cannot be applied.
    pub async fn build(screen: &Screen) -> anyhow::Result<Self> {
        let starting = "starting etcd and kube-apiserver on loopback";
        let cluster = screen.during(starting, Cluster::start(Flavour::Ipv4Only)).await?;
        let version = cluster.client().apiserver_version().await?.git_version;
        let starting = "starting kube-controller-manager without its endpoint controllers";
        screen.during(starting, cluster.start_controller_manager()).await?;
        screen.detail(format_args!("Kubernetes {version} at {}", cluster.server_url()));
        let client = cluster.client();
        screen
            .during(
                "adding the ServiceCIDRs 10.106.0.0/16 and 10.0.0.0/16",
                service_cidrs(&client),
            )
            .await?;

        create_namespace(&client).await?;
        screen
            .during(
                "installing the custom resources of svcplane crds",
                install_crds(&client),
            )
            .await?;
        let credentials = Credentials::make()?;
        let first = start_replica(&cluster, &credentials, 1).await?;
        let second = start_replica(&cluster, &credentials, 2).await?;
        let pids = format!("pids {} and {}", first.pid(), second.pid());
        screen.say(format_args!("two replicas of svcplane started, active, {pids}"));
        let balancer = Balancer::start(vec![address(&first).await?, address(&second).await?]).await?;
        let (before, replicas) = (balancer.address(), [&first, &second]);
        let registering = credentials.register(&client, &before, &replicas);
        screen
            .during("registering their admission webhook", registering)
            .await?;
        let golden = ["10.100.130.119", "10.100.152.254"].map(|a| a.parse());
        let [one, two] = golden;
        let kubelet = StatusKubelet::builder(client)
            .nodes(&["node-1", "node-2"])
            .pin("default", "hostnames-", &[one?, two?])
            .exit_after(Duration::from_secs(1))
            .start()
            .await?;
        screen
            .during("applying examples/ with kubectl", apply_examples(&cluster))
            .await?;
        Ok(Self {
            replicas: vec![Some(first), Some(second)],
            credentials,
            balancer,
            kubelet,
            cluster,
            program: binaries::svcplane()?,
        })
    }

    /// The replicas that run, and their logs.
    pub fn logs(&self) -> impl Iterator<Item = (String, &Path)> {
        let numbered = self.replicas.iter().zip(1..);
        numbered.filter_map(|(replica, number)| Some((format!("svcplane-{number}"), replica.as_ref()?.process().log())))
    }

    /// Kills this replica and returns its pid.
    pub async fn kill_replica(&mut self, number: usize) -> anyhow::Result<u32> {
        let place = number.checked_sub(1).and_then(|i| self.replicas.get_mut(i));
        let replica = place
            .and_then(Option::take)
            .with_context(|| format!("svcplane-{number} does not run"))?;
        let pid = replica.pid();
        replica.kill9().await?;
        Ok(pid)
    }

    /// Starts a replica again that was killed.
    pub async fn restart_replica(&mut self, number: usize) -> anyhow::Result<()> {
        let replica = start_replica(&self.cluster, &self.credentials, number).await?;
        if let Some(place) = number.checked_sub(1).and_then(|i| self.replicas.get_mut(i)) {
            *place = Some(replica);
        }
        let mut addresses = Vec::new();
        for replica in self.replicas.iter().flatten() {
            addresses.push(address(replica).await?);
        }
        self.balancer.point_at(addresses);
        Ok(())
    }

    /// Waits until every replica can choose ClusterIPs and nodePorts.
    pub async fn wait_choosing(&self) -> anyhow::Result<()> {
        for replica in self.replicas.iter().flatten() {
            wait_choosing(replica).await?;
        }
        Ok(())
    }

    /// Why replicas that should run do not, with the last lines of their logs; empty if all run.
    pub fn obituary(&self) -> String {
        let ended = self.replicas.iter().flatten().filter_map(|replica| {
            let exit = replica.process().exit()?;
            Some(format!(
                "\n{} ended, {exit}{}",
                replica.process().name(),
                replica.process().log_tail()
            ))
        });
        ended.collect()
    }
}

async fn start_replica(cluster: &Cluster, credentials: &Credentials, number: usize) -> anyhow::Result<Svcplane> {
    // A short lease, so that the fail-over can be watched. POD_NAME begins the holder identity.
    let builder = Svcplane::builder()
        .cluster(cluster)
        .replica(number)
        .env("POD_NAME", &format!("svcplane-{number}"))
        .arg(&format!("--leader-elect-resource-namespace={NAMESPACE}"))
        .arg("--leader-elect-lease-duration=5s")
        .arg("--leader-elect-renew-deadline=3s")
        .arg("--leader-elect-retry-period=1s")
        .arg("--allocate=all")
        .arg("--webhook-peers=svcplane-1,svcplane-2")
        .arg(&format!("--webhook-self=svcplane-{number}"));
    credentials.serve(builder).start().await
}

async fn create_namespace(client: &Client) -> anyhow::Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await?;
    Ok(())
}

/// Creates them and waits until the controller that looks after them says Ready.
async fn service_cidrs(client: &Client) -> anyhow::Result<()> {
    let api: Api<ServiceCIDR> = Api::all(client.clone());
    for (name, cidr) in SERVICE_CIDRS {
        let object = json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
    }
    for (name, cidr) in SERVICE_CIDRS {
        let ready = |object: Option<&ServiceCIDR>| {
            let conditions = object.and_then(|o| o.status.as_ref()?.conditions.as_ref());
            let ready = conditions
                .into_iter()
                .flatten()
                .any(|c| c.type_ == "Ready" && c.status == "True");
            if ready {
                Ok(())
            } else {
                Err("its condition Ready is not True".to_owned())
            }
        };
        eventually_one(&format!("ServiceCIDR {cidr}"), DEADLINE, &api, name, ready).await?;
    }
    Ok(())
}

/// Server-side apply of every manifest, as often as it takes: the apiserver allocates from a new ServiceCIDR only once
/// it has seen that it is Ready.
async fn apply_examples(cluster: &Cluster) -> anyhow::Result<()> {
    let end = Instant::now() + DEADLINE;
    loop {
        let apply = ["apply", "--server-side", "-f", EXAMPLES];
        match ran::kubectl(cluster, &apply, "", DEADLINE).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => {}
        }
        sleep(Duration::from_millis(300)).await;
    }
}
