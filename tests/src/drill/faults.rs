//! The drills: what is done, what is waited for, and how long the Endpoints may stand still by design.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::rig::{Rig, Times};
use crate::lease;
use crate::process::{Exit, Signal};
use crate::proxy::{Action, Match, Refusal, Times as Often};

/// Ten minutes.
const WRONG: i64 = 600;
/// What a write, its watch and a busy machine add.
const LITTLE: Duration = Duration::from_secs(1);

/// One drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drill {
    /// Nothing happens.
    Calm,
    /// The leader gets SIGKILL.
    Kill,
    /// The leader gets SIGTERM.
    Terminate,
    /// The leader gets SIGSTOP, and SIGCONT after the outage.
    Stop,
    /// Nothing passes between the leader and the apiserver for the time of the outage, and nobody is told.
    Partition,
    /// The same, but connections are reset.
    Reset,
    /// All that the leader asks about Leases is refused for the time of the outage; all else works.
    Unrenewed,
    /// The leader's clock is ten minutes ahead of one candidate's and twenty of the other's; then it gets SIGKILL.
    LeaderAhead,
    /// The same, behind.
    LeaderBehind,
    /// The Lease is deleted.
    Delete,
    /// The Lease names nobody any more.
    Empty,
    /// The Lease names somebody who does not exist.
    Stranger,
    /// The Lease was renewed in the year 2099.
    RenewedLater,
    /// The Lease was renewed in the last second of the year 9999.
    RenewedUnreadable,
    /// The Lease is to be believed for 68 years.
    LongDuration,
    /// The leader gets SIGKILL, and then the Lease was renewed in the last second of the year 9999.
    KillRenewedUnreadable,
    /// The leader gets SIGKILL, and then the Lease is to be believed for 68 years.
    KillLongDuration,
    /// The apiserver is stopped and started again.
    Apiserver,
}

impl Drill {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Calm,
        Self::Kill,
        Self::Terminate,
        Self::Stop,
        Self::Partition,
        Self::Reset,
        Self::Unrenewed,
        Self::LeaderAhead,
        Self::LeaderBehind,
        Self::Delete,
        Self::Empty,
        Self::Stranger,
        Self::RenewedLater,
        Self::RenewedUnreadable,
        Self::LongDuration,
        Self::KillRenewedUnreadable,
        Self::KillLongDuration,
        Self::Apiserver,
    ];

    /// Seconds that the wall clocks of so many replicas are ahead.
    pub fn clocks(self, replicas: usize) -> Vec<i64> {
        let steps = 0..i64::try_from(replicas).unwrap_or_default();
        let each: fn(i64) -> i64 = match self {
            Self::LeaderAhead => |place| WRONG - place * WRONG,
            Self::LeaderBehind => |place| place * WRONG - WRONG,
            _ => |_| 0,
        };
        steps.map(each).collect()
    }

    /// How long no right write may come, by design. A restart of the apiserver has no such time.
    pub fn limit(self, times: Times) -> Option<Duration> {
        let limit = match self {
            Self::Calm
            | Self::Terminate
            | Self::Delete
            | Self::Empty
            | Self::RenewedLater
            | Self::RenewedUnreadable
            | Self::LongDuration => Duration::ZERO,
            Self::Kill
            | Self::Stop
            | Self::Partition
            | Self::Reset
            | Self::Unrenewed
            | Self::LeaderAhead
            | Self::LeaderBehind
            | Self::Stranger
            | Self::KillRenewedUnreadable => times.lease,
            Self::KillLongDuration => times.lease * 10,
            Self::Apiserver => return None,
        };
        Some(limit + LITTLE)
    }

    /// Does it, and waits until somebody leads for certain. Returns when it began.
    ///
    /// # Errors
    /// Nobody leads, or something cannot be done.
    pub(super) async fn run(self, rig: &mut Rig<'_>) -> Result<Instant> {
        let from = Instant::now();
        let before = rig.lease_version();
        let edit = |spec: Value| Some(spec);
        let after_kill = match self {
            Self::Calm => return Ok(from),
            Self::Kill | Self::LeaderAhead | Self::LeaderBehind => None,
            Self::KillRenewedUnreadable => edit(json!({"renewTime": "9999-12-31T23:59:59.000000Z"})),
            Self::KillLongDuration => edit(json!({"leaseDurationSeconds": i32::MAX})),
            Self::Terminate => return terminate(rig, from, before).await,
            Self::Stop | Self::Partition | Self::Reset | Self::Unrenewed => {
                return self.outage(rig, from, before).await;
            }
            Self::Apiserver => {
                rig.cluster.restart_apiserver().await?;
                rig.wait_leader(rig.lease_version(), None).await?;
                return Ok(from);
            }
            _ => return self.by_hand(rig, from).await,
        };
        rig.members[0].to_end = true;
        rig.members[0].replica.kill9().await?;
        if let Some(spec) = after_kill {
            rig.namespace.edit_lease(spec).await?;
        }
        rig.wait_leader(before, Some(0)).await?;
        Ok(from)
    }

    async fn outage(self, rig: &Rig<'_>, from: Instant, before: u64) -> Result<Instant> {
        let leader = &rig.members[0].replica;
        let cut = match self {
            Self::Partition => Some(leader.proxy().partition("")),
            Self::Reset => Some(leader.proxy().cut_off("")),
            Self::Unrenewed => {
                let refused = Action::Refuse(Refusal::too_many_requests(1));
                Some(
                    leader
                        .proxy()
                        .rule(Match::any().resource("leases"), refused, Often::Always),
                )
            }
            _ => {
                leader.stop();
                None
            }
        };
        rig.wait_leader(before, Some(0)).await?;
        sleep(rig.times.outage.saturating_sub(from.elapsed())).await;
        let healed = Instant::now();
        match cut {
            Some(cut) => cut.remove(),
            None => leader.cont(),
        }
        rig.wait_candidate(0, healed).await?;
        Ok(from)
    }

    async fn by_hand(self, rig: &Rig<'_>, from: Instant) -> Result<Instant> {
        let edit = match self {
            Self::Empty => json!({"holderIdentity": ""}),
            Self::Stranger => json!({"holderIdentity": "a-stranger"}),
            Self::RenewedLater => json!({"renewTime": "2099-01-01T00:00:00.000000Z"}),
            Self::RenewedUnreadable => json!({"renewTime": "9999-12-31T23:59:59.000000Z"}),
            Self::LongDuration => json!({"leaseDurationSeconds": i32::MAX}),
            _ => Value::Null,
        };
        let edited = if edit.is_null() {
            let leases = rig.namespace.any_leases();
            leases.delete(lease::NAME, &DeleteParams::default()).await?;
            let gone = |seen: &super::observer::Sights| {
                let mut states = seen.lease.iter().rev();
                states.find(|state| state.spec.is_null()).map(|state| state.version)
            };
            rig.observer.wait("the Lease deleted", rig.times.lease, gone).await?
        } else {
            rig.namespace.edit_lease(edit).await?
        };
        rig.wait_leader(edited, None).await?;
        Ok(from)
    }
}

async fn terminate(rig: &mut Rig<'_>, from: Instant, before: u64) -> Result<Instant> {
    let leader = &mut rig.members[0];
    leader.to_end = true;
    leader.replica.signal(Signal::TERM);
    let exit = leader.replica.wait_exit(Duration::from_secs(10)).await?;
    ensure!(exit == Exit::Code(0), "it ended with {exit}");
    rig.wait_leader(before, Some(0)).await?;
    Ok(from)
}

impl fmt::Display for Drill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calm => "none",
            Self::Kill => "leader: kill -9",
            Self::Terminate => "leader: SIGTERM",
            Self::Stop => "leader: SIGSTOP, later SIGCONT",
            Self::Partition => "leader cut off, silent, later healed",
            Self::Reset => "leader cut off by resets, later healed",
            Self::Unrenewed => "leader refused its Lease alone, later healed",
            Self::LeaderAhead => "leader's clock 10 min ahead, kill -9",
            Self::LeaderBehind => "leader's clock 10 min behind, kill -9",
            Self::Delete => "Lease deleted",
            Self::Empty => "Lease: holderIdentity emptied",
            Self::Stranger => "Lease: holderIdentity of a stranger",
            Self::RenewedLater => "Lease: renewTime in 2099",
            Self::RenewedUnreadable => "Lease: renewTime 9999-12-31T23:59:59Z",
            Self::LongDuration => "Lease: leaseDurationSeconds 2147483647",
            Self::KillRenewedUnreadable => "kill -9, then renewTime 9999-12-31T23:59:59Z",
            Self::KillLongDuration => "kill -9, then leaseDurationSeconds 2147483647",
            Self::Apiserver => "apiserver restarted",
        })
    }
}
