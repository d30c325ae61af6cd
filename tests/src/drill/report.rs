//! One drill from start to end, and what came of it as a line of a table.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::faults::Drill;
use super::judge::Verdict;
use super::rig::{Rig, Times};
use crate::cluster::Cluster;

/// What came of a drill.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which.
    pub drill: Drill,
    /// How many replicas took part.
    pub replicas: usize,
    /// The longest time between two right writes, the last before the fault included.
    pub gap: Duration,
    /// What [`Report::gap`] may be by design.
    pub limit: Option<Duration>,
    /// The longest time that the Endpoints did not show a flip.
    pub staleness: Duration,
    /// Flips from the fault on.
    pub flips: usize,
    /// Flips that the Endpoints never showed, nor a later one.
    pub unseen: usize,
    /// Flips a second, from the fault on.
    pub rate: f64,
    /// Writes that changed an object, of all replicas.
    pub writes: usize,
    /// Those of a leader from whom a person had taken the Lease, in its own term.
    pub taken_by_hand: usize,
    /// Those of a replica without a valid term.
    pub without_term: usize,
    /// Replicas that ended although the drill did not end them.
    pub ended: Vec<String>,
}

impl Report {
    /// Runs a drill. No other active svcplane may run on this cluster.
    ///
    /// # Errors
    /// Something does not come to an end: nobody leads, flips do not arrive, the Endpoints are wrong at last.
    pub async fn of(drill: Drill, replicas: usize, cluster: &Cluster, times: Times) -> Result<Self> {
        let run = async {
            let mut rig = Rig::start(cluster, times, &drill.clocks(replicas)).await?;
            rig.wait_flips().await?;
            let from = drill.run(&mut rig).await?;
            rig.wait_flips().await?;
            let until = Instant::now();
            rig.finish().await?;
            rig.check_clocks()?;
            Self::read(drill, &rig, from, until)
        };
        run.await.with_context(|| format!("{replicas} replicas, {drill}"))
    }

    fn read(drill: Drill, rig: &Rig<'_>, from: Instant, until: Instant) -> Result<Self> {
        let history = rig.observer.sights().history.clone();
        let stale = history.staleness(from);
        let verdicts = rig.verdicts();
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        #[expect(clippy::cast_precision_loss, reason = "hundreds")]
        let rate = stale.len() as f64 / (until - from).as_secs_f64();
        Ok(Self {
            drill,
            replicas: rig.members.len(),
            gap: history.longest_gap(from).context("no two right writes")?,
            limit: drill.limit(rig.times),
            staleness: stale.iter().flatten().copied().max().context("no flip was seen")?,
            flips: stale.len(),
            unseen: stale.iter().filter(|seen| seen.is_none()).count(),
            rate,
            writes: verdicts.len(),
            taken_by_hand: count(Verdict::TakenByHand),
            without_term: count(Verdict::Without),
            ended: rig.ended(),
        })
    }

    /// The head of the table.
    pub const HEAD: &str = "| drill | replicas | gap (s) | by design (s) | stalest (s) | flips | never shown | writes | Lease taken by hand | without a term | ended |\n\
                            | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self
            .limit
            .map_or("-".to_owned(), |limit| format!("{:.0}", limit.as_secs_f64()));
        let ended = if self.ended.is_empty() {
            "none".to_owned()
        } else {
            self.ended.join(" ")
        };
        write!(
            f,
            "| {} | {} | {:.2} | {limit} | {:.2} | {} ({:.1}/s) | {} | {} | {} | {} | {ended} |",
            self.drill,
            self.replicas,
            self.gap.as_secs_f64(),
            self.staleness.as_secs_f64(),
            self.flips,
            self.rate,
            self.unseen,
            self.writes,
            self.taken_by_hand,
            self.without_term,
        )
    }
}
