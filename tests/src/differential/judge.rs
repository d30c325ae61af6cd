//! Are two objects the same, or is there a written reason why they are not? Pure.

mod hints;
mod slices;

use std::collections::BTreeSet;

pub use self::slices::{SliceFacts, judge_slices};
use super::effects::Effects;
use super::exempt::Cause;
use super::model::{LEADER, NOTE, Stored, World};
use super::ops::{Key, Kind, Service, Window};
use super::snapshot::{Content, HEADLESS, MANAGED_BY, OVER_CAPACITY, Seen, Subset};

/// What is to be done before two objects can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Let the controllers look at the Service again.
    Touch,
    /// Let them write its Endpoints.
    Force,
    /// Take the stream's annotation off.
    StripNote,
    /// Delete svcplane's.
    DeleteOurs,
    /// Delete the reference's.
    DeleteTheirs,
    /// Take the stream's annotation off slices.
    StripSliceNote,
    /// Let the mirroring controllers look at Endpoints again, and the reference begin from nothing.
    Remirror,
}

/// What comes of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same. `by_value`: a trigger time that was written in this window is, too.
    Same { by_value: bool },
    /// Not the same, for a reason.
    Exempt(Cause),
    /// To be compared after this.
    Needs(Need, Cause),
    /// Not the same.
    Different(&'static str),
}

/// What a judgement knows besides the two objects.
pub struct Facts<'a> {
    /// The window that has just been applied.
    pub window: &'a Window,
    /// What it did.
    pub effects: &'a Effects,
    /// The world after it.
    pub world: &'a World,
    /// What has been done about this object in this window already.
    pub done: &'a BTreeSet<(Key, Need)>,
    /// What svcplane's said before the window.
    pub before: Option<&'a Content>,
    /// Whether a write of this window changed the object on either side.
    pub written: bool,
    /// Whether the trigger time of either side is another than before the window: the test writes Endpoints, too, and
    /// then an old time stays.
    pub retimed: bool,
    /// Whether the reference tried this Service again in this window.
    pub retried: bool,
    /// Whether it was edited so often lately that svcplane takes its time.
    pub patient: bool,
}

/// Compares one object.
pub fn judge(key: &Key, ours: Option<&Seen>, theirs: Option<&Seen>, facts: &Facts<'_>) -> Verdict {
    let live = facts.world.services.get(key).is_some_and(Service::is_live);
    let untouched = !facts.done.contains(&(key.clone(), Need::Touch));
    // Also if they are the same: svcplane may yet put right what the reference leaves. A touched Service is looked at at once.
    if live && untouched && facts.patient && facts.effects.edited.contains(key) {
        return Verdict::Needs(Need::Touch, Cause::Patience);
    }
    if let Some(fault) = ours.and_then(|ours| own_fault(key, ours, facts)) {
        return fault;
    }
    let same = match (ours, theirs) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => ours.content.says_the_same(&theirs.content),
        _ => false,
    };
    if !same && facts.world.is_frozen(key) {
        return Verdict::Exempt(Cause::FrozenReference);
    }
    match (ours, theirs) {
        (None, None) => Verdict::Same { by_value: false },
        (Some(ours), None) if is_leftover(key, ours, facts) => Verdict::Needs(Need::DeleteOurs, Cause::LeftoverAtStart),
        (None, Some(theirs)) if is_leftover_lock(key, theirs, facts) => {
            Verdict::Needs(Need::DeleteTheirs, Cause::LeftoverAtStart)
        }
        (Some(ours), Some(theirs)) if same => trigger_times(key, &ours.content, &theirs.content, facts),
        (Some(ours), Some(theirs)) => contents(key, &ours.content, &theirs.content, facts),
        (None, Some(_)) => unseen(key, facts).unwrap_or(Verdict::Different("svcplane has none")),
        (Some(_), None) => unseen(key, facts).unwrap_or(Verdict::Different("the reference has none")),
    }
}

/// What is wrong with svcplane's alone.
fn own_fault(key: &Key, ours: &Seen, facts: &Facts<'_>) -> Option<Verdict> {
    let live = facts.world.services.get(key).is_some_and(Service::is_live);
    if live && facts.written && !facts.effects.rearranged.contains(key) && ours.fault.is_some() {
        return Some(Verdict::Different(
            "svcplane's is out of order or lists an address twice",
        ));
    }
    // It had to be as if the Pod were not there, whatever else happened meanwhile.
    if facts.effects.thawed.contains(key) && facts.before.is_none_or(|before| !before.says_the_same(&ours.content)) {
        return Some(Verdict::Different(
            "svcplane's changed when a Pod went that may not be listed",
        ));
    }
    let unfit = |name: &str| {
        let pod = facts.world.pods.get(&Key::new(key.space, name));
        pod.is_some_and(Stored::freezes)
    };
    let addresses = ours
        .content
        .subsets
        .iter()
        .flat_map(|subset| subset.ready.iter().chain(&subset.not_ready));
    let mut names = addresses.filter_map(|address| address.target.split([' ', '/']).nth(2));
    (live && names.any(unfit)).then_some(Verdict::Different("svcplane lists a Pod that may not be listed"))
}

/// A start leaves svcplane's, and the reference's may be gone: hand-made, or a lock whose Service was deleted when the
/// programs were about to end.
fn is_leftover(key: &Key, ours: &Seen, facts: &Facts<'_>) -> bool {
    let content = &ours.content;
    let hand_made = content.labels.get(MANAGED_BY).map(String::as_str) != Some("endpoint-controller");
    let left = hand_made || !facts.window.restarts_svcplane();
    without_service_at_start(key, facts) && (left || is_leftover_lock(key, ours, facts))
}

/// A lock that one program has deleted with its Service, before it ended, and the other leaves at its start.
fn is_leftover_lock(key: &Key, seen: &Seen, facts: &Facts<'_>) -> bool {
    without_service_at_start(key, facts)
        && facts.effects.orphaned.contains(key)
        && seen.content.annotations.contains_key(LEADER)
}

fn without_service_at_start(key: &Key, facts: &Facts<'_>) -> bool {
    facts.window.restarts_reference() && !facts.world.services.contains_key(key)
}

fn unseen(key: &Key, facts: &Facts<'_>) -> Option<Verdict> {
    let cause = *facts.effects.unseen.get(key)?;
    let done = |need| facts.done.contains(&(key.clone(), need));
    if !done(Need::Touch) {
        Some(Verdict::Needs(Need::Touch, cause))
    } else if facts.effects.rearranged.contains(key) && !done(Need::Force) {
        Some(Verdict::Needs(Need::Force, Cause::Contradiction))
    } else {
        None
    }
}

fn contents(key: &Key, ours: &Content, theirs: &Content, facts: &Facts<'_>) -> Verdict {
    let without = |labels: &super::ops::Labels, key: &str| {
        let mut labels = labels.clone();
        labels.remove(key);
        labels
    };
    let done = |need| facts.done.contains(&(key.clone(), need));
    let same_subsets = ours.subsets == theirs.subsets;
    if let Some(verdict) = unseen(key, facts) {
        return verdict;
    }
    if same_subsets
        && ours.annotations == theirs.annotations
        && !done(Need::Force)
        && without(&ours.labels, HEADLESS) == without(&theirs.labels, HEADLESS)
    {
        return Verdict::Needs(Need::Force, Cause::HeadlessLabel);
    }
    if same_subsets
        && ours.labels == theirs.labels
        && facts.window.kind == Kind::Burst
        && !done(Need::StripNote)
        && without(&ours.annotations, NOTE) == without(&theirs.annotations, NOTE)
    {
        return Verdict::Needs(Need::StripNote, Cause::NoteOfDeletedService);
    }
    if ours.labels == theirs.labels && ours.annotations == theirs.annotations && cut_alike(ours, theirs) {
        return Verdict::Exempt(Cause::TruncationOrder);
    }
    Verdict::Different("subsets, labels or annotations differ")
}

/// Whether both list as many addresses as Endpoints may, and differ only in how much of each subset is left.
fn cut_alike(ours: &Content, theirs: &Content) -> bool {
    let cut = |content: &Content| content.annotations.contains_key(OVER_CAPACITY) && content.size() == 1000;
    let begins = |a: &Subset, b: &Subset| {
        let prefix = |a: &[_], b: &[_]| a.iter().zip(b).all(|(a, b)| a == b);
        a.ports == b.ports && prefix(&a.ready, &b.ready) && prefix(&a.not_ready, &b.not_ready)
    };
    cut(ours)
        && cut(theirs)
        && ours.subsets.len() > 1
        && ours.subsets.len() == theirs.subsets.len()
        && ours.subsets.iter().zip(&theirs.subsets).all(|(a, b)| begins(a, b))
}

/// The content is the same; is the time of the change?
fn trigger_times(key: &Key, ours: &Content, theirs: &Content, facts: &Facts<'_>) -> Verdict {
    if ours.trigger == theirs.trigger {
        let isolated = facts.window.kind == Kind::Isolated && facts.written;
        return Verdict::Same {
            by_value: isolated && ours.trigger.is_some(),
        };
    }
    // Judged when it was set.
    if !facts.retimed {
        return Verdict::Same { by_value: false };
    }
    let reserved = |service: &Service| {
        [HEADLESS, MANAGED_BY]
            .iter()
            .any(|label| service.labels.contains_key(*label))
    };
    if ours.annotations.contains_key(OVER_CAPACITY) {
        Verdict::Exempt(Cause::TriggerOverCapacity)
    } else if facts.world.services.get(key).is_some_and(reserved) {
        Verdict::Exempt(Cause::TriggerReservedLabels)
    } else if facts.effects.frozen.contains(key) {
        Verdict::Exempt(Cause::TriggerAfterFreeze)
    } else if facts.world.new_to_reference.contains(key) {
        Verdict::Exempt(Cause::TriggerAfterRestart)
    } else if facts.window.kind == Kind::Burst {
        let strictly_present = facts.effects.flipped.contains(key) && !facts.window.is_disturbed() && !facts.retried;
        if strictly_present && ours.trigger.is_some() != theirs.trigger.is_some() {
            return Verdict::Different("only one has a trigger time");
        }
        Verdict::Exempt(Cause::TriggerInBurst)
    } else if facts.retried {
        Verdict::Exempt(Cause::TriggerAfterRetry)
    } else if ours
        .trigger
        .as_ref()
        .is_some_and(|time| facts.world.times_missed(key).contains(time))
    {
        Verdict::Exempt(Cause::TriggerOfMissedFlip)
    } else {
        Verdict::Different("the trigger time differs")
    }
}

#[cfg(test)]
mod tests;
