//! A control plane with svcplane, and one with the real kube-controller-manager. Tests of one side come one after another.

use std::time::Duration;

use svcplane_tests::cluster::{self, Cluster, ENDPOINT_CONTROLLERS, Flavour, UNTHROTTLED};
use svcplane_tests::eventually::stays;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::slices::{self, MANAGED_BY, belongs};
use svcplane_tests::svcplane::Svcplane;
use tokio::sync::{Mutex, MutexGuard, OnceCell};
use tokio::time::{Instant, sleep};

/// Who writes the slices of Services with a selector.
pub const OURS: &str = "endpointslice-controller.k8s.io";
/// So long the reference is watched doing nothing. It does what it does in about a second.
pub const NEVER: Duration = Duration::from_secs(6);

/// It looks at slices again a second after it has seen them first.
const REST: Duration = Duration::from_secs(3);
/// The pause between two looks at metrics.
const POLL: Duration = Duration::from_millis(100);

/// One of the two, with a namespace of the test's own.
pub struct Side {
    pub namespace: TestNamespace,
    svcplane: Option<Svcplane>,
    cluster: &'static Cluster,
    _turn: MutexGuard<'static, ()>,
}

impl Side {
    /// svcplane's.
    pub async fn ours() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        Self::new(TURN.lock().await, cluster::shared()).await
    }

    /// kube-controller-manager's.
    pub async fn reference() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let turn = TURN.lock().await;
        // A test that failed may have left it running.
        reference().await.stop_controller_manager().await.unwrap();
        Self::new(turn, reference().await).await
    }

    async fn new(turn: MutexGuard<'static, ()>, cluster: &'static Cluster) -> Self {
        let namespace = TestNamespace::create(cluster).await.unwrap();
        slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
        let mut side = Self {
            namespace,
            svcplane: None,
            cluster,
            _turn: turn,
        };
        side.start().await;
        side
    }

    fn is_ours(&self) -> bool {
        std::ptr::eq(self.cluster, cluster::shared())
    }

    async fn start(&mut self) {
        if self.is_ours() {
            let builder = Svcplane::builder().cluster(self.cluster).arg("--leader-elect=false");
            let svcplane = builder.start().await.unwrap();
            svcplane.wait_leader().await.unwrap();
            self.svcplane = Some(svcplane);
        } else {
            let started = self
                .cluster
                .start_controller_manager_as("admin", &ENDPOINT_CONTROLLERS, &UNTHROTTLED)
                .await;
            started.unwrap();
        }
    }

    /// Ends the program and starts it again.
    pub async fn restart(&mut self) {
        match self.svcplane.take() {
            Some(svcplane) => drop(svcplane.terminate().await.unwrap()),
            None => self.cluster.stop_controller_manager().await.unwrap(),
        }
        self.start().await;
        self.is_at_work("restarted").await;
    }

    /// A new Service gets its slices: the program runs and is not held up.
    pub async fn is_at_work(&self, name: &str) {
        self.namespace.workload(name, &["10.9.9.9"]).await.unwrap();
        self.namespace
            .slices_become(name, &["IPv4 10.9.9.9/rs- -> :8080/TCP"])
            .await
            .unwrap();
    }

    pub fn svcplane(&self) -> &Svcplane {
        self.svcplane.as_ref().unwrap()
    }

    pub fn cluster(&self) -> &'static Cluster {
        self.cluster
    }

    /// Writes of slices that the apiserver refused with this status so far.
    pub async fn refused(&self, code: &str) -> f64 {
        let page = self.cluster.metrics().await.unwrap();
        let of_slices = [("resource", "endpointslices"), ("code", code)];
        page.sum("apiserver_request_total", &of_slices)
    }

    /// Whether more than so many are, before the deadline.
    pub async fn is_refused(&self, code: &str, more_than: f64, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        while self.refused(code).await <= more_than {
            if Instant::now() >= end {
                return false;
            }
            sleep(POLL).await;
        }
        true
    }

    /// Returns once the program has had nothing to do for longer than it waits for anything.
    pub async fn rests(&self) {
        if let Some(svcplane) = &self.svcplane {
            return svcplane.wait_idle().await.unwrap();
        }
        let worked = async || {
            let page = self.cluster.controller_manager_metrics().await.unwrap();
            page.sum("workqueue_work_duration_seconds_count", &[])
        };
        let (mut last, mut since) = (worked().await, Instant::now());
        while since.elapsed() < REST {
            sleep(POLL).await;
            let now = worked().await;
            if now > last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    /// For a while no slice of ours for this Service holds this address.
    pub async fn never_lists(&self, service: &str, address: &str) {
        let slices = self.namespace.slices();
        let what = format!("{service} without {address}");
        stays(&what, NEVER, &slices, "", |all| {
            let mut ours = all.iter().filter(|slice| belongs(slice, service, Some(OURS)));
            let lists = ours.any(|slice| {
                let mut endpoints = slices::endpoints(slice).iter();
                endpoints.any(|endpoint| endpoint.addresses.iter().any(|it| it == address))
            });
            if lists {
                Err(format!("{address} is listed"))
            } else {
                Ok(())
            }
        })
        .await
        .unwrap();
    }
}

/// The label that says who writes a slice.
pub fn claimed_by(manager: &str) -> serde_json::Value {
    serde_json::json!({"metadata": {"labels": {MANAGED_BY: manager}}})
}

async fn reference() -> &'static Cluster {
    static REFERENCE: OnceCell<Cluster> = OnceCell::const_new();
    let start = async || Cluster::start(Flavour::DualStack).await.unwrap();
    REFERENCE.get_or_init(start).await
}
