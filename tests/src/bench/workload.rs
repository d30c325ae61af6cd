//! One workload: load, then each side in turn from nothing, through the changes, to rest.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::account::{Account, Cost};
use super::controllers::Controllers;
use super::end_state::EndState;
use super::figures::row;
use super::generator;
use super::observer::{Answer, Kind, Seen};
use super::record::Row;
use super::rig::{LIMIT, Rig};
use super::side::{Running, Side, SliceSyncs};
use super::storm::Storms;
use super::stream::{Change, Stream};
use crate::load::Load;

/// No event for so long: at rest.
const QUIET: Duration = Duration::from_secs(3);
/// Between two runs.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a side rests before its memory is read.
const REST: Duration = Duration::from_secs(15);
/// Others had so much of the machine: the run's latencies say nothing.
const CROWDED: f64 = 1.0 / 3.0;

/// What is loaded and done.
#[derive(Clone, Debug)]
pub struct Workload {
    /// As it stands in rows.
    pub name: String,
    /// Which ones run.
    pub controllers: Controllers,
    /// What is stored before the first run.
    pub load: Load,
    /// Further Services that select the Pods of the first one.
    pub fan: usize,
    /// What happens after each start.
    pub phases: Vec<Phase>,
    /// Who runs, in order.
    pub turns: Vec<Side>,
    /// Keep latencies though others had the machine: a try, whose figures are not for comparison.
    pub trial: bool,
}

/// Changes of Pods, and what they count as.
#[derive(Clone, Debug)]
pub struct Phase {
    /// As it stands in rows.
    pub name: &'static str,
    /// What is done.
    pub stream: Stream,
    /// `flip`, `pod` or `storm`: what costs are shared between.
    pub unit: &'static str,
    /// How many of them.
    pub units: usize,
    /// The Service that a storm does not touch, if there are storms; the phase before it is the calm.
    pub unrelated: Option<usize>,
}

/// All that was spent and seen in a phase.
struct Taken {
    cost: Cost,
    endpoints: Seen,
    slices: Seen,
}

impl Workload {
    /// Runs it.
    ///
    /// # Errors
    /// A run is void or does not end.
    pub async fn run(&self) -> Result<Vec<Row>> {
        let rig = Rig::start(self.controllers).await?;
        rig.load_with_fan(self.load, self.fan).await?;
        let (mut rows, mut first) = (Vec::new(), None);
        for (turn, side) in self.turns.iter().enumerate() {
            rig.clear(self.load).await?;
            if turn > 0 && self.changes_pods() {
                rig.renew_pods(self.load).await?;
            }
            tokio::time::sleep(PAUSE).await;
            let run = self.one(&rig, *side, turn, &mut rows);
            run.await
                .with_context(|| format!("{}, run {turn} ({})", self.name, side.name()))?;
            let state = EndState::read(&rig.cluster.client(), self.controllers).await?;
            first.get_or_insert_with(|| state.clone()).must_equal(&state)?;
        }
        Ok(rows)
    }

    /// Whether Pods are others, or not all ready, after a run.
    fn changes_pods(&self) -> bool {
        let mut last = std::collections::BTreeMap::new();
        let steps = self.phases.iter().flat_map(|phase| &phase.stream);
        last.extend(steps.map(|step| (step.pod, step.change)));
        last.values().any(|change| *change != Change::Ready(true))
    }

    async fn one(&self, rig: &Rig, side: Side, turn: usize, rows: &mut Vec<Row>) -> Result<()> {
        let Rig { cluster, observer, .. } = rig;
        observer.reset();
        let before = Account::take(cluster, observer, None).await?;
        let running = side.start(cluster, self.controllers).await?;
        let taken = self.settle(rig, &before, &running).await?;
        let mut row = row(&self.name, "cold", side, turn);
        self.fill(&mut row, &taken);
        let last = taken.endpoints.last.max(taken.slices.last).context("no event")?;
        row.set("wall_s", (last - before.at()).as_secs_f64());
        row.memory(&running)?;
        rows.push(row);
        let mut calm = None;
        for phase in &self.phases {
            let row = self.phase(rig, (side, turn), phase, &running, calm.as_ref()).await?;
            calm = Some(row.clone());
            rows.push(row);
        }
        running.stop().await
    }

    async fn phase(
        &self,
        rig: &Rig,
        (side, turn): (Side, usize),
        phase: &Phase,
        running: &Running<'_>,
        calm: Option<&Row>,
    ) -> Result<Row> {
        // Outside the accounts: the page costs it something.
        let syncs = self.slice_syncs(running).await?;
        rig.observer.reset();
        let start = Account::take(&rig.cluster, &rig.observer, Some(running)).await?;
        let sent = generator::send(&rig.cluster, self.load, phase.stream.clone()).await?;
        let taken = self.settle(rig, &start, running).await?;
        let mut row = row(&self.name, phase.name, side, turn);
        self.fill(&mut row, &taken);
        row.set("behind_ms", sent.behind.as_secs_f64() * 1e3);
        row.set("generator_cpu_s", sent.cpu.as_secs_f64());
        row.shares(phase.unit, phase.units, &taken.cost);
        let told = self.trial || taken.cost.others <= CROWDED;
        row.latencies("", taken.endpoints.answers.iter(), told);
        if self.controllers.slices() {
            row.latencies("slice_", taken.slices.answers.iter(), told);
            row.slice_syncs(syncs, self.slice_syncs(running).await?, taken.cost.slices);
        }
        if let Some(service) = phase.unrelated {
            let answers = taken.endpoints.answers.iter().chain(&taken.slices.answers);
            let answers: Vec<Answer> = answers.cloned().collect();
            let storms = Storms::of(&answers, &self.load.service(service));
            row.storms(&storms, calm, phase, told);
        }
        let seen = [taken.endpoints, taken.slices];
        if told {
            row.settled(rig.observer.last_pod(), &seen);
        }
        row.memory(running)?;
        Ok(row)
    }

    async fn slice_syncs(&self, running: &Running<'_>) -> Result<SliceSyncs> {
        if self.controllers.slices() {
            return running.slice_syncs().await;
        }
        Ok(SliceSyncs::default())
    }

    /// Waits for the end and takes stock since `before`.
    async fn settle(&self, rig: &Rig, before: &Account, running: &Running<'_>) -> Result<Taken> {
        rig.observer.right(self.load.services + self.fan, LIMIT).await?;
        rig.observer.quiet(QUIET, LIMIT).await?;
        let (endpoints, slices) = (rig.observer.seen(Kind::Endpoints), rig.observer.seen(Kind::Slices));
        let after = Account::take(&rig.cluster, &rig.observer, Some(running)).await?;
        Ok(Taken {
            cost: before.until(&after),
            endpoints,
            slices,
        })
    }

    fn fill(&self, row: &mut Row, taken: &Taken) {
        row.cost(&taken.cost);
        row.objects("", taken.cost.endpoints, &taken.endpoints);
        if self.controllers.slices() {
            row.objects("slice_", taken.cost.slices, &taken.slices);
        }
    }
}

/// Memory of the sides on a rig whose objects are complete: started, and left alone.
///
/// # Errors
/// A side does not run, or it writes.
pub async fn memory_at_rest(rig: &Rig, name: &str, turns: &[Side]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (turn, side) in turns.iter().enumerate() {
        rig.observer.reset();
        let before = Account::take(&rig.cluster, &rig.observer, None).await?;
        let running = side.start(&rig.cluster, rig.controllers).await?;
        tokio::time::sleep(REST).await;
        let after = Account::take(&rig.cluster, &rig.observer, Some(&running)).await?;
        let cost = before.until(&after);
        let mut row = row(name, "rest", *side, turn);
        row.cost(&cost);
        row.objects("", cost.endpoints, &rig.observer.seen(Kind::Endpoints));
        if rig.controllers.slices() {
            row.objects("slice_", cost.slices, &rig.observer.seen(Kind::Slices));
        }
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        row.set("pods", rig.observer.pods() as f64);
        row.memory(&running)?;
        rows.push(row);
        running.stop().await?;
    }
    Ok(rows)
}

/// Lets svcplane complete all objects of this many Services.
///
/// # Errors
/// It does not.
pub async fn complete(rig: &Rig, services: usize) -> Result<()> {
    let running = Side::Ours.start(&rig.cluster, rig.controllers).await?;
    rig.observer.right(services, LIMIT).await?;
    rig.observer.quiet(QUIET, LIMIT).await?;
    running.stop().await
}
