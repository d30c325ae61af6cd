//! Both sides: a window is applied to them, and then they are compared.

mod aftermath;
mod compare;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use super::effects::Effects;
use super::exempt::Tally;
use super::look::Look;
use super::model::World;
use super::ops::{Key, Op, Service, Window};
use super::report::Difference;
use super::side::{Controller, Controllers, DONE, OurController, Retries, Side};
use super::snapshot::Snapshot;

/// Edits of what belongs to one Service up to which svcplane answers within half a second.
const FEW_EDITS: usize = 2;
/// How long without an edit until they are counted anew: a little more than svcplane takes.
const PAUSE: Duration = Duration::from_secs(150);

/// The two sides and what the stream has made of them.
pub struct Pair {
    ours: Side,
    theirs: Side,
    world: World,
    setup: Setup,
    /// After the last window, svcplane's and the reference's.
    before: (Snapshot, Snapshot),
    /// In the last window.
    reference_was_restarted: bool,
    edits: BTreeMap<Key, (usize, Instant)>,
    interventions: u64,
    /// Whether the stream is whole, so that a refusal by both servers is a fault of the test.
    strict: bool,
    /// What was not compared, and what was.
    pub tally: Tally,
}

/// What is run on the sides.
#[derive(Clone, Debug)]
pub struct Setup {
    /// On svcplane's.
    pub ours: OurController,
    /// On both.
    pub controllers: Controllers,
    /// Endpoints in one slice, on both.
    pub slice_limit: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            ours: OurController::default(),
            controllers: Controllers::All,
            slice_limit: 100,
        }
    }
}

/// Of each side: writes of Endpoints, writes of slices, slices now.
pub type Figures = [[u64; 3]; 2];

impl Pair {
    /// Starts both clusters and both controllers.
    ///
    /// # Errors
    /// Something does not start.
    pub async fn start(setup: &Setup) -> Result<Self> {
        let Setup {
            ours,
            controllers,
            slice_limit,
        } = setup.clone();
        let (ours, theirs) = tokio::try_join!(
            Side::start(|cluster| Controller::ours(cluster, ours, controllers, slice_limit)),
            Side::start(|_| Ok(Controller::reference(controllers, slice_limit))),
        )?;
        Ok(Self {
            ours,
            theirs,
            world: World::default(),
            setup: setup.clone(),
            before: Default::default(),
            reference_was_restarted: false,
            edits: BTreeMap::new(),
            interventions: 0,
            strict: true,
            tally: Tally::default(),
        })
    }

    /// Begins again with an empty world, to replay parts of a stream.
    ///
    /// # Errors
    /// A server refuses.
    pub async fn restart_world(&mut self) -> Result<()> {
        tokio::try_join!(self.ours.calm(), self.theirs.calm())?;
        tokio::try_join!(self.ours.fresh_spaces(), self.theirs.fresh_spaces())?;
        (self.world, self.strict) = (World::default(), false);
        self.edits.clear();
        (self.before, self.reference_was_restarted) = (Default::default(), false);
        Ok(())
    }

    /// What each controller has written so far, and the slices there were after the last window.
    ///
    /// # Errors
    /// An apiserver does not say.
    pub async fn figures(&self) -> Result<Figures> {
        let (ours, theirs) = tokio::try_join!(self.ours.writes(), self.theirs.writes())?;
        let of = |[endpoints, slices]: [u64; 2], now: &Snapshot| [endpoints, slices, now.slice_count() as u64];
        Ok([of(ours, &self.before.0), of(theirs, &self.before.1)])
    }

    /// Applies a window, waits for a quiet point and compares everything. Empty: no difference.
    ///
    /// # Errors
    /// The clusters fail the test: no answer, or something does not start.
    pub async fn window(&mut self, window: &Window) -> Result<Vec<Difference>> {
        let retries = Retries::from_now(&self.theirs)?;
        let (ours, theirs) = tokio::try_join!(self.ours.apply(&window.ops), self.theirs.apply(&window.ops))?;
        let refused = self.outcomes(window, &ours, &theirs)?;
        tokio::try_join!(self.ours.calm(), self.theirs.calm())?;
        if !refused.is_empty() {
            return Ok(refused);
        }
        let effects = Effects::of(&mut self.world, window);
        self.note_edits(window, &effects);
        let mut look = Look::new(window, effects, retries);
        let differences = self.compare(&mut look).await?;
        for (cause, count) in look.tally.exempted {
            *self.tally.exempted.entry(cause).or_default() += count;
        }
        self.tally.compared += look.tally.compared;
        self.tally.slices_compared += look.tally.slices_compared;
        self.tally.triggers_by_value += look.tally.triggers_by_value;
        Ok(differences)
    }

    fn outcomes(&mut self, window: &Window, ours: &[String], theirs: &[String]) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for ((op, ours), theirs) in window.ops.iter().zip(ours).zip(theirs) {
            if ours != theirs && !self.is_chance(op) {
                differences.push(Difference::of_outcome(window, op, ours, theirs));
            } else if ours == theirs && ours != DONE {
                self.tally.refused_by_both += 1;
                if self.strict && !matches!(op.object(), Some(("endpoints" | "slices", _))) {
                    bail!("both servers refuse ({ours}) what the model takes for possible: {op:?}");
                }
            }
        }
        Ok(differences)
    }

    /// Slices of a Service that nobody keeps are those that were left or given to it.
    fn is_chance(&self, op: &Op) -> bool {
        let Op::TamperSlices { key, .. } = op else { return false };
        !self.world.services.get(key).is_some_and(Service::is_live)
    }

    fn note_edits(&mut self, window: &Window, effects: &Effects) {
        for op in &window.ops {
            if let Op::CreateEndpoints { key, .. }
            | Op::ReplaceEndpoints { key, .. }
            | Op::TamperEndpoints { key, .. }
            | Op::DeleteEndpoints { key } = op
            {
                self.note_edit(key);
            }
        }
        for key in &effects.slices.edited {
            self.note_edit(key);
        }
    }

    /// As svcplane counts them: a pause ends the count.
    fn note_edit(&mut self, key: &Key) {
        let now = Instant::now();
        let (count, last) = self.edits.entry(key.clone()).or_insert((0, now));
        if now.duration_since(*last) >= PAUSE {
            *count = 0;
        }
        (*count, *last) = (*count + 1, now);
    }

    fn is_patient(&self, key: &Key) -> bool {
        self.edits.get(key).is_some_and(|(count, _)| *count > FEW_EDITS)
    }
}
