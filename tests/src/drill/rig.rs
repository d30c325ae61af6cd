//! Replicas of svcplane, each behind a fault proxy of its own, with a flipper and an observer beside them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::Method;
use serde_json::Value;

use super::clock;
use super::flipper::Flipper;
use super::history::PODS;
use super::observer::Observer;
use crate::cluster::Cluster;
use crate::namespace::TestNamespace;
use crate::proxy::{Match, Record};
use crate::svcplane::{Builder, Replica, SHORT_LEASE, Svcplane};

/// What a busy machine may need for anything that is waited for.
const SLACK: Duration = Duration::from_secs(60);

/// The durations of a drill.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// `--leader-elect-lease-duration`.
    pub lease: Duration,
    /// How long a stop or a cut lasts.
    pub outage: Duration,
    /// How long the flips go on before and after.
    pub calm: Duration,
}

impl Times {
    /// The default lease of 15 s, outages of 30 s.
    pub const DEFAULT: Self = Self {
        lease: Duration::from_secs(15),
        outage: Duration::from_secs(30),
        calm: Duration::from_secs(5),
    };

    /// A lease of 3 s, outages of 6 s.
    pub const SHORT: Self = Self {
        lease: SHORT_LEASE,
        outage: Duration::from_secs(6),
        calm: Duration::from_secs(1),
    };

    fn configure(&self, builder: Builder) -> Builder {
        if self.lease == SHORT_LEASE {
            builder.short_lease()
        } else {
            builder
        }
    }
}

/// One replica.
pub struct Member {
    /// It and its proxy.
    pub replica: Replica,
    /// Its name in the Lease.
    pub identity: String,
    /// How far its wall clock is ahead, in seconds.
    pub clock: i64,
    /// The drill ends it.
    pub to_end: bool,
}

/// A running drill. The first replica leads.
pub struct Rig<'cluster> {
    /// The control plane.
    pub cluster: &'cluster Cluster,
    /// Where Service, Pods and Lease are.
    pub namespace: TestNamespace,
    /// The replicas.
    pub members: Vec<Member>,
    /// What is seen.
    pub observer: Observer,
    /// The durations.
    pub times: Times,
    flipper: Option<Flipper>,
}

impl<'cluster> Rig<'cluster> {
    /// Starts as many replicas as there are `clocks` (seconds that each one's wall clock is ahead), and the flips. No other
    /// active svcplane may run on this cluster.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(cluster: &'cluster Cluster, times: Times, clocks: &[i64]) -> Result<Self> {
        let namespace = TestNamespace::create_with(cluster.client(), "drill").await?;
        let addresses: Vec<String> = (1..=PODS).map(|number| format!("10.201.0.{number}")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        namespace.workload("web", &addresses).await?;
        let observer = Observer::start(&namespace);
        let mut rig = Self {
            cluster,
            namespace,
            members: Vec::new(),
            observer,
            times,
            flipper: None,
        };
        for clock in clocks {
            rig.add(*clock, |builder| builder).await?;
            if rig.members.len() == 1 {
                rig.members[0].replica.wait_idle().await?;
            }
        }
        rig.observer
            .wait("the Endpoints complete", SLACK, |seen| {
                seen.history.is_right().then_some(())
            })
            .await?;
        rig.flipper = Some(Flipper::start(rig.namespace.clone()));
        Ok(rig)
    }

    /// Starts one more replica.
    ///
    /// # Errors
    /// It does not start.
    pub async fn add(&mut self, clock: i64, configure: impl FnOnce(Builder) -> Builder) -> Result<()> {
        let number = self.members.len() + 1;
        let builder = Svcplane::builder().lease_in(&self.namespace).replica(number);
        let builder = clock::shifted(configure(self.times.configure(builder)), clock)?;
        let replica = Replica::start(self.cluster, builder).await?;
        replica.wait_ready().await?;
        // Without an election it has none.
        let identity = replica.identity().await.unwrap_or_default();
        self.members.push(Member {
            replica,
            identity,
            clock,
            to_end: false,
        });
        Ok(())
    }

    /// What may pass until a Lease that nobody renews has another holder: the longest that a drill provokes.
    fn patience(&self) -> Duration {
        self.times.lease * 11 + SLACK
    }

    /// Waits until a replica has written itself into the Lease after this version, and gives its place. The replica of
    /// place `not` does not count.
    ///
    /// # Errors
    /// None does.
    pub async fn wait_leader(&self, after: u64, not: Option<usize>) -> Result<usize> {
        let found = self.observer.wait("a leader", self.patience(), |seen| {
            let later = seen.lease.iter().filter(|state| state.version > after);
            let mut leaders = later.filter_map(|state| {
                let place = self.place(&state.spec)?;
                (Some(place) != not && self.sent_by(state) == Some(place)).then_some(place)
            });
            leaders.next()
        });
        found.await
    }

    /// The newest version of the Lease that was seen.
    pub fn lease_version(&self) -> u64 {
        self.observer.sights().lease.last().map_or(0, |state| state.version)
    }

    /// Waits until a flip made from now on is in the Endpoints, and for as long as the calm lasts.
    ///
    /// # Errors
    /// None is.
    pub async fn wait_flips(&self) -> Result<()> {
        let now = Instant::now();
        let seen = self.observer.wait("a flip in the Endpoints", self.patience(), |seen| {
            seen.history.staleness(now).first().copied().flatten()
        });
        seen.await?;
        tokio::time::sleep(self.times.calm).await;
        Ok(())
    }

    /// Waits until the replica has read the Lease twice since `from` and does not lead: it knows what it missed.
    ///
    /// # Errors
    /// It does not.
    pub async fn wait_candidate(&self, place: usize, from: Instant) -> Result<()> {
        let replica = &self.members[place].replica;
        let reads = Match::any().resource("leases").method(Method::GET);
        let twice = |reads: &[Record]| reads.iter().filter(|it| it.at > from && it.status == Some(200)).count() >= 2;
        replica.proxy().wait_requests(&reads, SLACK, twice).await?;
        ensure!(!replica.leads().await?, "{} leads", self.members[place].identity);
        Ok(())
    }

    /// Ends the flips and waits until the Endpoints show the last one.
    ///
    /// # Errors
    /// They do not.
    pub async fn finish(&mut self) -> Result<()> {
        if let Some(flipper) = self.flipper.take() {
            flipper.stop().await?;
        }
        self.namespace.caught_up().await?;
        self.observer
            .wait("the last flip in the Endpoints", SLACK, |seen| {
                seen.history.is_right().then_some(())
            })
            .await
    }

    /// The replica that the Lease names.
    pub(super) fn place(&self, spec: &Value) -> Option<usize> {
        let holder = spec["holderIdentity"].as_str()?;
        self.members.iter().position(|member| member.identity == holder)
    }
}
