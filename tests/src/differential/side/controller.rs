//! What keeps the Endpoints of one side, and what is done to it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::super::ops::Fault;
use crate::cluster::{Cluster, ENDPOINT_CONTROLLERS, UNTHROTTLED};
use crate::proxy::{Action, FaultProxy, Match, Refusal, Times, WatchEnd};
use crate::svcplane::Svcplane;

/// Which controllers run on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// Endpoints alone.
    Endpoints,
    /// Endpoints, EndpointSlices and mirrored EndpointSlices.
    #[default]
    All,
}

impl Controllers {
    /// As kube-controller-manager names them.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Endpoints => &["endpoints-controller"],
            Self::All => &ENDPOINT_CONTROLLERS,
        }
    }
}

/// Without its throttle and with as many workers as it likes: what it says does not depend on it, how long it takes
/// does. Verbose enough to say which Service it tries again.
const FLAGS: [&str; 6] = [
    UNTHROTTLED[0],
    UNTHROTTLED[1],
    "--concurrent-endpoint-syncs=10",
    "--concurrent-service-endpoint-syncs=10",
    "--mirroring-concurrent-service-endpoint-syncs=10",
    "--v=2",
];

/// A controller.
pub enum Controller {
    /// svcplane.
    Ours(Box<Ours>),
    /// kube-controller-manager.
    Reference {
        /// Which of its controllers run.
        controllers: Controllers,
        /// Endpoints in one slice.
        limit: usize,
        /// Whether it runs.
        runs: bool,
    },
}

/// svcplane behind a fault proxy.
pub struct Ours {
    // Dropped before the proxy.
    running: Option<Svcplane>,
    proxy: FaultProxy,
    how: OurController,
    controllers: Controllers,
    limit: usize,
}

/// What keeps Endpoints and slices on svcplane's side.
#[derive(Clone, Debug, Default)]
pub struct OurController {
    /// Another build.
    pub program: Option<PathBuf>,
    /// In observe mode.
    pub observes: bool,
    /// Further flags: the last one of a name counts.
    pub flags: Vec<String>,
}

impl Controller {
    /// svcplane, not started yet.
    ///
    /// # Errors
    /// The proxy does not start.
    pub fn ours(cluster: &Cluster, how: OurController, controllers: Controllers, limit: usize) -> Result<Self> {
        Ok(Self::Ours(Box::new(Ours {
            running: None,
            proxy: FaultProxy::start(cluster)?,
            how,
            controllers,
            limit,
        })))
    }

    /// kube-controller-manager, not started yet.
    pub fn reference(controllers: Controllers, limit: usize) -> Self {
        Self::Reference {
            controllers,
            limit,
            runs: false,
        }
    }

    /// Starts it if it does not run, and waits until it is at work.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(&mut self, cluster: &Cluster) -> Result<()> {
        match self {
            Self::Reference { runs: true, .. } => {}
            Self::Reference {
                controllers,
                limit,
                runs,
            } => {
                let limit = limit_flag(*limit);
                let flags: Vec<&str> = FLAGS.into_iter().chain([limit.as_str()]).collect();
                cluster
                    .start_controller_manager_as("admin", controllers.names(), &flags)
                    .await?;
                *runs = true;
            }
            Self::Ours(ours) => {
                if ours.running.is_none() {
                    ours.running = Some(ours.start(cluster).await?);
                }
            }
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn stop(&mut self, cluster: &Cluster, hard: bool) -> Result<()> {
        match self {
            Self::Ours(ours) => match ours.running.take() {
                Some(svcplane) if hard => drop(svcplane.kill9().await?),
                Some(svcplane) => drop(svcplane.terminate().await?),
                None => {}
            },
            Self::Reference { runs, .. } => {
                *runs = false;
                if hard {
                    cluster.kill_controller_manager().await?;
                } else {
                    cluster.stop_controller_manager().await?;
                }
            }
        }
        Ok(())
    }

    /// Ends the reference and starts it again; svcplane is left in peace.
    ///
    /// # Errors
    /// It cannot be ended, or does not start.
    pub async fn restart_reference(&mut self, cluster: &Cluster) -> Result<()> {
        if let Self::Reference { .. } = self {
            self.stop(cluster, false).await?;
            self.start(cluster).await?;
        }
        Ok(())
    }

    /// Lets something go wrong for svcplane; the reference is left in peace.
    pub fn disturb(&self, fault: Fault, times: u64) {
        let Self::Ours(ours) = self else { return };
        let proxy = &ours.proxy;
        let action = match fault {
            Fault::LoseReply => Action::LoseReply,
            Fault::ResetBefore => Action::ResetBefore,
            Fault::CutReply => Action::CutReply,
            Fault::Conflict => Action::Refuse(Refusal::conflict()),
            Fault::InternalError => Action::Refuse(Refusal::internal_error()),
            Fault::Unavailable => Action::Refuse(Refusal::unavailable()),
            Fault::TooManyRequests => Action::Refuse(Refusal::too_many_requests(1)),
            Fault::LateReply => Action::DelayReply(Duration::from_millis(500)),
            Fault::ResetWatches => {
                proxy.end_watches(&Match::all_watches(), &WatchEnd::Reset);
                return;
            }
            Fault::ExpireWatches => {
                proxy.end_watches(&Match::all_watches(), &WatchEnd::Error(Refusal::expired()));
                return;
            }
        };
        for resource in ["endpoints", "endpointslices"] {
            proxy.rule(Match::writes(resource), action.clone(), Times::First(times));
        }
    }

    /// Nothing goes wrong any more.
    pub fn calm(&self) {
        if let Self::Ours(ours) = self {
            ours.proxy.clear_rules();
            // They are not asked for, and a long run would fill them.
            ours.proxy.clear_records();
        }
    }
}

impl Ours {
    /// As the reference: without an election, so that the end of one process does not cost a Lease's time.
    async fn start(&self, cluster: &Cluster) -> Result<Svcplane> {
        let mut builder = Svcplane::builder()
            .kubeconfig(self.proxy.kubeconfig(cluster.admin_token())?)
            .arg("--leader-elect=false")
            .arg(&limit_flag(self.limit))
            .arg(&match self.controllers {
                Controllers::Endpoints => format!("--controllers={}", self.controllers.names().join(",")),
                Controllers::All => "--controllers=*".into(),
            });
        for flag in &self.how.flags {
            builder = builder.arg(flag);
        }
        if let Some(program) = &self.how.program {
            builder = builder.program(program, &["run"]);
        }
        if self.how.observes {
            builder = builder.observe();
        }
        let svcplane = builder.start().await?;
        svcplane.wait_ready().await?;
        Ok(svcplane)
    }
}

fn limit_flag(limit: usize) -> String {
    format!("--max-endpoints-per-slice={limit}")
}
