//! A release of the chart in a [private network](crate::private_network): three Nodes, the Pods' commands as processes at the Pods' addresses, and
//! an apiserver that asks the webhook at the ClusterIP of its Service, as on a cluster. Nothing of what the chart renders is changed.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use tokio::sync::{Mutex, OnceCell};

use crate::asked::{Asker, failed_open};
use crate::chart::{CHART, Helm, NAMESPACE};
use crate::cluster::{Cluster, Flavour};
use crate::cluster_ip::ClusterIp;
use crate::kubelet::is_ready;
use crate::namespace::{TestNamespace, create_named};
use crate::process_kubelet::{Place, ProcessKubelet};
use crate::proxy::FaultProxy;
use crate::ran;

/// How long kubectl may take.
const DEADLINE: Duration = Duration::from_secs(180);

/// What the apiserver says it is reached at, which leads nowhere.
pub const ADVERTISED: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// Values of every release: svcplane writes, and refuses `externalIPs`, by which an admission shows that it has answered.
const VALUES: [&str; 9] = [
    "--set=replicas=3",
    "--set=mode=active",
    "--set=takeover.acknowledgeBuiltinsDisabled=true",
    "--set=webhook.externalIPs=deny",
    "--set=preStopSeconds=3",
    "--set=leaderElection.leaseDuration=3s",
    "--set=leaderElection.renewDeadline=2s",
    "--set=leaderElection.retryPeriod=500ms",
    "--timeout=3m",
];

/// The chart's own values for those.
pub const WITHOUT_CANARY: &str = "--set=takeover.canary.enabled=false";

/// A cluster on which the chart is, or is about to be.
pub struct Installed {
    /// With kube-controller-manager.
    pub cluster: Cluster,
    /// The release's.
    pub own: TestNamespace,
    /// One that the webhook sees.
    pub guests: TestNamespace,
    /// Runs its Pods.
    pub kubelet: ProcessKubelet,
    /// Between its Pods and the apiserver.
    pub proxy: Arc<FaultProxy>,
    helm: Helm,
    /// With its address, which is another one in every release.
    webhook: Mutex<Option<(String, ClusterIp)>>,
}

impl Installed {
    /// The one of all tests of this process, with nothing installed at first.
    ///
    /// # Panics
    /// It cannot be started.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Installed> = OnceCell::const_new();
        SHARED.get_or_init(async || Self::start().await.unwrap()).await
    }

    async fn start() -> Result<Self> {
        let advertise = ADVERTISED;
        let cluster = Cluster::start(Flavour::LeaseReconciler { advertise }).await?;
        cluster.start_controller_manager().await?;
        let client = cluster.client();
        create_named(&client, NAMESPACE).await?;
        let proxy = Arc::new(FaultProxy::start(&cluster)?);
        Ok(Self {
            own: TestNamespace::existing(client.clone(), NAMESPACE),
            guests: TestNamespace::create_with(client, "guests").await?,
            kubelet: ProcessKubelet::start(&cluster, Arc::clone(&proxy), NAMESPACE, Place::PodAddress),
            proxy,
            helm: Helm::of("helm4")?,
            webhook: Mutex::default(),
            cluster,
        })
    }

    /// Runs Helm.
    ///
    /// # Errors
    /// It fails.
    pub async fn helm(&self, command: &[&str]) -> Result<String> {
        self.helm.run_on(&self.cluster, command).await
    }

    /// The chart as it is, with these values beside those of every release; returns when all its Pods are ready and the apiserver asks them.
    ///
    /// # Errors
    /// Helm fails, or the apiserver does not ask.
    pub async fn release(&self, values: &[&str]) -> Result<()> {
        self.release_of(CHART, &[&[WITHOUT_CANARY][..], values].concat()).await
    }

    /// The same of another chart.
    ///
    /// # Errors
    /// As [`Installed::release`].
    pub async fn release_of(&self, chart: &str, values: &[&str]) -> Result<()> {
        let command = ["upgrade", "svcplane", chart, "--install", "--wait"];
        self.helm(&[&command[..], &VALUES, values].concat()).await?;
        self.serve_webhook().await?;
        self.asker().wait_answered().await
    }

    /// From now on the ClusterIP of the webhook's Service leads to its Pods.
    ///
    /// # Errors
    /// There is none.
    pub async fn serve_webhook(&self) -> Result<()> {
        let service = self.own.services().get("svcplane-webhook").await?;
        let address = service.spec.and_then(|it| it.cluster_ip).unwrap_or_default();
        let mut webhook = self.webhook.lock().await;
        if webhook.as_ref().is_none_or(|(at, _)| *at != address) {
            *webhook = Some((address, ClusterIp::serve(&self.own, "svcplane-webhook").await?));
        }
        Ok(())
    }

    /// What the chart renders with these values, for other tools than Helm.
    ///
    /// # Errors
    /// Helm fails.
    pub async fn rendered(&self, values: &[&str]) -> Result<String> {
        let command = ["template", "svcplane", CHART, "--no-hooks", WITHOUT_CANARY];
        self.helm(&[&command[..], &VALUES, values].concat()).await
    }

    /// Runs kubectl, with this on its standard input, and returns what it prints.
    ///
    /// # Errors
    /// It fails; with what it says.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        ran::kubectl(&self.cluster, arguments, input, DEADLINE).await
    }

    /// Asks for Services that svcplane refuses.
    pub fn asker(&self) -> Asker {
        Asker::new(self.cluster.client(), self.guests.name())
    }

    /// Does this under 50 admissions a second, each of which svcplane must answer. Returns how many there were.
    ///
    /// # Errors
    /// One went past svcplane, or `work` fails.
    pub async fn under_load(&self, work: impl AsyncFnOnce() -> Result<()>) -> Result<usize> {
        let (before, stop) = (failed_open(&self.cluster).await?, AtomicBool::new(false));
        let (asker, work) = (self.asker(), async {
            let worked = work().await;
            stop.store(true, Ordering::Relaxed);
            worked
        });
        let (worked, asked) = tokio::join!(work, asker.keep_asking(&stop));
        worked?;
        let asked = asked?;
        let open = failed_open(&self.cluster).await? - before;
        ensure!(
            open.abs() < 0.5,
            "{open} of {asked} admissions went on without an answer"
        );
        Ok(asked)
    }

    /// The Pods of the release that are not about to end.
    ///
    /// # Errors
    /// The apiserver does not answer.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods = self.own.pods().list(&ListParams::default()).await?.items;
        let stay = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(stay.collect())
    }

    /// The names of those that are ready.
    ///
    /// # Errors
    /// As [`Installed::pods`].
    pub async fn ready(&self) -> Result<Vec<String>> {
        let pods = self.pods().await?;
        Ok(pods
            .iter()
            .filter(|pod| is_ready(pod))
            .map(ResourceExt::name_any)
            .collect())
    }

    /// Waits until so many Pods are ready.
    ///
    /// # Errors
    /// Not within a minute.
    pub async fn wait_ready(&self, count: usize) -> Result<()> {
        let end = tokio::time::Instant::now() + Duration::from_secs(60);
        while self.ready().await?.len() != count {
            ensure!(tokio::time::Instant::now() < end, "not {count} Pods are ready");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}
