//! The two that are compared, started and stopped alike.

use anyhow::{Context as _, Result, ensure};

use super::controllers::Controllers;
use crate::cluster::{Cluster, UNTHROTTLED};
use crate::svcplane::Svcplane;

/// Who keeps Endpoints and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// svcplane, at most 50 Services at the same time.
    Ours,
    /// The same with mirroring, too, when slices are kept. There is no other that it would be compared with.
    OursWithMirroring,
    /// kube-controller-manager with these controllers only and without its client's throttle ("U-max").
    Peer,
}

/// svcplane's user: as a kube-system service account it has the same priority level at the apiserver as the peer.
pub const OUR_USER: (&str, &[&str]) = (
    "system:serviceaccount:kube-system:svcplane",
    &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
);
/// The peer's user, and the name under which the apiserver's priority rules know it.
pub const PEER_USER: (&str, &[&str]) = ("system:kube-controller-manager", &[]);

/// Services that either side works on at the same time.
const AT_ONCE: usize = 50;
/// Seconds that the peer's client may have waited for its own throttle, on average. One that does not throttle waits for a lock and its turn
/// on the processor.
const THROTTLED: f64 = 0.005;

impl Side {
    /// As it stands in rows and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours | Self::OursWithMirroring => "svcplane",
            Self::Peer => "kcm",
        }
    }

    /// Starts it; it need not be ready.
    ///
    /// # Errors
    /// It ends at once.
    pub async fn start(self, cluster: &Cluster, controllers: Controllers) -> Result<Running<'_>> {
        let mut names = controllers.names().to_vec();
        if self == Self::OursWithMirroring && controllers.slices() {
            names.push("endpointslice-mirroring-controller");
        }
        let mut flags = vec![format!("--concurrent-endpoint-syncs={AT_ONCE}")];
        if controllers.slices() {
            flags.push(format!("--concurrent-service-endpoint-syncs={AT_ONCE}"));
        }
        let svcplane = match self {
            Self::Ours | Self::OursWithMirroring => {
                let builder = Svcplane::builder()
                    .kubeconfig(cluster.kubeconfig_for(OUR_USER.0))
                    .arg(&format!("--controllers={}", names.join(",")));
                let builder = flags.iter().fold(builder, |builder, flag| builder.arg(flag));
                Some(builder.start().await?)
            }
            Self::Peer => {
                let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                flags.extend(UNTHROTTLED);
                cluster.start_controller_manager_as(PEER_USER.0, &names, &flags).await?;
                None
            }
        };
        Ok(Running { cluster, svcplane })
    }
}

/// One of them, running.
pub struct Running<'a> {
    cluster: &'a Cluster,
    svcplane: Option<Svcplane>,
}

/// Looks at a Service's slices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SliceSyncs {
    /// All of them.
    pub all: f64,
    /// Those that were given up because the cache was known to be out of date; the peer comes back to them after a second or more.
    pub stale: f64,
}

impl Running<'_> {
    /// Its process id.
    ///
    /// # Errors
    /// It does not run any more.
    pub fn pid(&self) -> Result<u32> {
        let pid = match &self.svcplane {
            Some(svcplane) => Some(svcplane.pid()),
            None => self.cluster.controller_manager_pid(),
        };
        pid.context("it does not run any more")
    }

    /// By its own metrics since its start.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn slice_syncs(&self) -> Result<SliceSyncs> {
        let (metrics, name, of_slices) = match &self.svcplane {
            Some(svcplane) => {
                let label = [("controller", "endpointslice-controller")];
                (svcplane.metrics().await?, "svcplane_syncs_total", label.to_vec())
            }
            None => {
                let metrics = self.cluster.controller_manager_metrics().await?;
                (metrics, "endpoint_slice_controller_syncs", Vec::new())
            }
        };
        Ok(SliceSyncs {
            all: metrics.sum(name, &of_slices),
            stale: metrics.sum(name, &[of_slices.as_slice(), &[("result", "stale")]].concat()),
        })
    }

    /// Ends it. Fails when the peer's client was throttled: then the run says nothing.
    ///
    /// # Errors
    /// The run is void, or it does not end.
    pub async fn stop(self) -> Result<()> {
        if let Some(svcplane) = self.svcplane {
            svcplane.terminate().await?;
            return Ok(());
        }
        let metrics = self.cluster.controller_manager_metrics().await?;
        let waited = metrics.sum("rest_client_rate_limiter_duration_seconds_sum", &[]);
        let waits = metrics.sum("rest_client_rate_limiter_duration_seconds_count", &[]);
        ensure!(
            waited <= THROTTLED * waits,
            "void: kube-controller-manager's client waited {waited} s for its own throttle in {waits} requests"
        );
        self.cluster.stop_controller_manager().await
    }
}
