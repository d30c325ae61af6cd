//! From the end of a window to a quiet point at which both sides say the same, or do not.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::super::exempt::Cause;
use super::super::judge::{Facts, Need, SliceFacts, Verdict, judge, judge_slices};
use super::super::look::{Look, Said, Subject};
use super::super::ops::Key;
use super::super::report::Difference;
use super::super::settle::Quiet;
use super::super::side::{Controllers, Tried};
use super::super::snapshot::{Manager, Owned, Snapshot};
use super::Pair;

/// Both sides quiet for this long: a first look. If all is the same, it was enough.
const FIRST_LOOK: Duration = Duration::from_millis(1_200);
/// svcplane's time after a window. What it says then it must not change any more.
const ALLOWANCE: Duration = Duration::from_secs(4);
/// The same if it was restarted, or something went wrong for it: a watch is tried again after a second, a refusal may
/// say "in a second".
const ALLOWANCE_DISTURBED: Duration = Duration::from_secs(10);
/// The reference is believed to have nothing more to say after this.
const REFERENCE_QUIET: Duration = Duration::from_secs(3);
/// The same if it had to try again: since the last time.
const REFERENCE_QUIET_AFTER_RETRY: Duration = Duration::from_secs(6);
/// The reference's time, with its stale caches and its back-off, since the window or since it was last helped.
const REFERENCE_BOUND: Duration = Duration::from_secs(45);
/// Addresses of one subset that are mirrored.
const MIRRORED: usize = 1000;

impl Pair {
    pub(super) async fn compare(&mut self, look: &mut Look<'_>) -> Result<Vec<Difference>> {
        let allowance = if look.window.is_disturbed() {
            ALLOWANCE_DISTURBED
        } else {
            ALLOWANCE
        };
        let (ours_due, mut bound) = (look.applied + allowance, look.applied + REFERENCE_BOUND);
        let mut quiet = Quiet::begin(&self.ours, &self.theirs).await?;
        let mut tries = (0, look.applied);
        loop {
            quiet.wait(&self.ours, &self.theirs, FIRST_LOOK, bound).await?;
            let (ours, theirs) = tokio::try_join!(self.ours.snapshot(), self.theirs.snapshot())?;
            if !ours.garbage.is_empty() || !theirs.garbage.is_empty() {
                tokio::try_join!(self.ours.collect(&ours.garbage), self.theirs.collect(&theirs.garbage))?;
                quiet = Quiet::begin(&self.ours, &self.theirs).await?;
                continue;
            }
            let tried = look.retries.tried(&self.theirs)?;
            if tried.count() > tries.0 {
                tries = (tried.count(), Instant::now());
            }
            let open = self.judge_all(look, &ours, &theirs, &tried);
            // Nothing says when svcplane is done with what the reference cannot write: it gets its time.
            let unsure = !look.effects.frozen.is_empty() && Instant::now() < ours_due;
            if open.is_empty() && !unsure {
                let mut differences = look.late(&ours, &theirs, |key| self.is_patient(key));
                differences.extend(overdone(look, &ours, &theirs));
                if differences.is_empty() {
                    self.finish(look, ours, theirs, &tried);
                }
                return Ok(differences);
            }
            if Instant::now() < ours_due {
                sleep(Duration::from_millis(250)).await;
                continue;
            }
            look.first.get_or_insert_with(|| Said::by(&ours));
            if self.intervene(look, &open).await? {
                // The reference may have been busy with another Service up to now. Each Service is helped once, so this ends.
                bound = Instant::now() + REFERENCE_BOUND;
                quiet = Quiet::begin(&self.ours, &self.theirs).await?;
                continue;
            }
            let calm = tries.0 == 0 || tries.1.elapsed() >= REFERENCE_QUIET_AFTER_RETRY;
            if (calm && quiet.theirs_for() >= REFERENCE_QUIET) || Instant::now() >= bound {
                return Ok(look.differences(&open, &ours, &theirs));
            }
            sleep(Duration::from_millis(250)).await;
        }
    }

    /// Whether the reference was started in this window or the one before: what it is late with then dates from its start.
    fn reference_is_new(&self, look: &Look<'_>) -> bool {
        look.window.restarts_reference() || self.reference_was_restarted
    }

    fn facts<'a>(
        &'a self,
        look: &'a Look<'_>,
        key: &Key,
        ours: &Snapshot,
        theirs: &Snapshot,
        tried: &Tried,
    ) -> Facts<'a> {
        let (our_past, their_past) = (self.before.0.endpoints.get(key), self.before.1.endpoints.get(key));
        let (our_now, their_now) = (ours.endpoints.get(key), theirs.endpoints.get(key));
        let both = [(our_past, our_now), (their_past, their_now)];
        let version = both.map(|(past, now)| [past, now].map(|seen| seen.map(|seen| &seen.version)));
        let trigger =
            both.map(|(past, now)| [past, now].map(|seen| seen.and_then(|seen| seen.content.trigger.as_ref())));
        Facts {
            window: look.window,
            effects: &look.effects,
            world: &self.world,
            done: &look.done,
            before: our_past.map(|seen| &seen.content),
            written: version.iter().any(|[past, now]| past != now),
            retimed: trigger.iter().any(|[past, now]| past != now),
            retried: tried.endpoints.contains(key) || self.reference_is_new(look),
            patient: self.is_patient(key),
        }
    }

    fn slice_facts<'a>(&'a self, look: &'a Look<'_>, owned: &Owned, tried: &Tried) -> SliceFacts<'a> {
        let (tried, limit) = match owned.manager {
            Manager::Selector => (&tried.slices, self.setup.slice_limit),
            Manager::Mirroring => (&tried.mirrored, MIRRORED),
        };
        SliceFacts {
            window: look.window,
            effects: &look.effects,
            world: &self.world,
            done: &look.done,
            before: [self.before.0.slices.get(owned), self.before.1.slices.get(owned)],
            retried: tried.contains(&owned.key) || self.reference_is_new(look),
            patient: self.is_patient(&owned.key),
            limit,
        }
    }

    fn verdict(
        &self,
        look: &Look<'_>,
        subject: &Subject,
        ours: &Snapshot,
        theirs: &Snapshot,
        tried: &Tried,
    ) -> Verdict {
        match subject {
            Subject::Endpoints(key) => {
                let facts = self.facts(look, key, ours, theirs, tried);
                judge(key, ours.endpoints.get(key), theirs.endpoints.get(key), &facts)
            }
            // Nobody keeps any.
            Subject::Slices(_) if self.setup.controllers == Controllers::Endpoints => Verdict::Same { by_value: false },
            Subject::Slices(owned) => {
                let facts = self.slice_facts(look, owned, tried);
                judge_slices(owned, ours.slices.get(owned), theirs.slices.get(owned), &facts)
            }
        }
    }

    /// What is not the same, or not yet.
    fn judge_all(&self, look: &Look<'_>, ours: &Snapshot, theirs: &Snapshot, tried: &Tried) -> Vec<(Subject, Verdict)> {
        let verdicts = Subject::all(&self.world, ours, theirs).into_iter().map(|subject| {
            let verdict = self.verdict(look, &subject, ours, theirs, tried);
            (subject, verdict)
        });
        verdicts
            .filter(|(_, verdict)| matches!(verdict, Verdict::Needs(..) | Verdict::Different(_)))
            .collect()
    }

    /// Does what has to be done before the objects can be compared, once for each Service. `false`: nothing.
    async fn intervene(&mut self, look: &mut Look<'_>, open: &[(Subject, Verdict)]) -> Result<bool> {
        let mut needs: BTreeSet<(&Key, Need)> = BTreeSet::new();
        let mut causes: Vec<(&Subject, Cause)> = Vec::new();
        for (subject, verdict) in open {
            if let Verdict::Needs(need, cause) = verdict {
                needs.insert((subject.key(), *need));
                causes.push((subject, *cause));
            }
        }
        for (key, need) in &needs {
            self.interventions += 1;
            self.meet(key, *need, self.interventions).await?;
            look.done.insert(((*key).clone(), *need));
        }
        for (subject, cause) in causes {
            look.count(subject, cause);
        }
        Ok(!needs.is_empty())
    }

    async fn meet(&mut self, key: &Key, need: Need, count: u64) -> Result<()> {
        match need {
            Need::Touch => {
                tokio::try_join!(self.ours.touch(key, count), self.theirs.touch(key, count))?;
            }
            Need::Force => {
                tokio::try_join!(self.ours.force(key, count), self.theirs.force(key, count))?;
            }
            Need::StripNote => {
                tokio::try_join!(self.ours.strip_note(key), self.theirs.strip_note(key))?;
                self.note_edit(key);
            }
            Need::DeleteOurs => {
                self.ours.delete_endpoints(key).await?;
                self.note_edit(key);
            }
            Need::DeleteTheirs => {
                self.theirs.delete_endpoints(key).await?;
            }
            Need::StripSliceNote => {
                tokio::try_join!(self.ours.strip_slice_note(key), self.theirs.strip_slice_note(key))?;
                self.note_edit(key);
            }
            Need::Remirror => {
                tokio::try_join!(self.ours.remirror(key, false), self.theirs.remirror(key, true))?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, look: &mut Look<'_>, ours: Snapshot, theirs: Snapshot, tried: &Tried) {
        for subject in Subject::all(&self.world, &ours, &theirs) {
            match self.verdict(look, &subject, &ours, &theirs, tried) {
                Verdict::Exempt(cause) => look.count(&subject, cause),
                Verdict::Same { by_value: true } => look.tally.triggers_by_value += 1,
                _ => {}
            }
            match subject {
                Subject::Endpoints(_) => look.tally.compared += 1,
                Subject::Slices(_) => look.tally.slices_compared += 1,
            }
        }
        self.before = (ours, theirs);
        self.reference_was_restarted = look.window.restarts_reference();
    }
}

/// What svcplane has done to slices of others, and whether it takes more slices than the reference.
fn overdone(look: &Look<'_>, ours: &Snapshot, theirs: &Snapshot) -> Vec<Difference> {
    let trespasses = ours.trespasses.iter();
    let mut found: Vec<Difference> = trespasses
        .map(|(slice, what)| Difference::of_trespass(look.window, slice, what))
        .collect();
    let (a, b) = (ours.slice_count(), theirs.slice_count());
    if are_too_many(a, b) {
        found.push(Difference::of_counts(look.window, a, b));
    }
    found
}

/// A third more than the reference, and a few for small numbers, is left to chance.
fn are_too_many(ours: usize, theirs: usize) -> bool {
    ours > theirs + theirs / 3 + 3
}

#[cfg(test)]
mod tests {
    use super::are_too_many;

    #[test]
    fn more_than_a_third_more_slices_are_too_many() {
        assert!(!are_too_many(123, 90) && are_too_many(124, 90));
        assert!(!are_too_many(3, 0) && are_too_many(4, 0));
    }
}
