//! The same for the slices of one controller for one Service. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::super::effects::Effects;
use super::super::exempt::Cause;
use super::super::model::{NOTE, World};
use super::super::ops::{HandMade, Key, Kind, Service, Window};
use super::super::snapshot::{GONE, Group, HEADLESS, Listed, Manager, Owned, Sliced, SlicesContent, is_of_family};
use super::{Need, Verdict, hints};

/// What a judgement knows besides the slices of both sides.
pub struct SliceFacts<'a> {
    /// The window that has just been applied.
    pub window: &'a Window,
    /// What it did.
    pub effects: &'a Effects,
    /// The world after it.
    pub world: &'a World,
    /// What has been done about this Service in this window already.
    pub done: &'a BTreeSet<(Key, Need)>,
    /// svcplane's and the reference's slices before the window.
    pub before: [Option<&'a Sliced>; 2],
    /// Whether the reference tried these slices again in this window.
    pub retried: bool,
    /// Whether something was edited so often lately that svcplane takes its time.
    pub patient: bool,
    /// Endpoints that may be in one slice.
    pub limit: usize,
}

/// Compares the slices of one controller for one Service.
pub fn judge_slices(owned: &Owned, ours: Option<&Sliced>, theirs: Option<&Sliced>, facts: &SliceFacts<'_>) -> Verdict {
    let service = facts.world.services.get(&owned.key);
    let kept = owned.manager == Manager::Mirroring || service.is_some_and(Service::is_live);
    let edited = facts.effects.slices.edited.contains(&owned.key);
    if kept && edited && facts.patient && !facts.is_done(owned, Need::Touch) {
        return Verdict::Needs(Need::Touch, Cause::Patience);
    }
    let none = Sliced::default();
    if kept && let Some(fault) = own_fault(owned, ours.unwrap_or(&none), facts) {
        return Verdict::Different(fault);
    }
    let [a, b] = [ours, theirs].map(|sliced| &sliced.unwrap_or(&none).content);
    if a == b {
        return same(owned, ours, theirs, facts);
    }
    if !kept && facts.world.strays.contains(&owned.key) {
        return Verdict::Exempt(Cause::StraySlices);
    }
    let auto = kept && service.is_some_and(Service::is_auto);
    if auto && with_presence_of_hints(a) == with_presence_of_hints(b) {
        return Verdict::Exempt(Cause::HintsWithinBounds);
    }
    match owned.manager {
        Manager::Selector if facts.world.is_frozen_in_slices(&owned.key) => Verdict::Exempt(Cause::FrozenSlices),
        Manager::Selector => selected(owned, a, b, facts),
        Manager::Mirroring if refused(owned, facts).is_some() => Verdict::Exempt(Cause::RefusedMirror),
        Manager::Mirroring => mirrored(owned, facts),
    }
}

impl SliceFacts<'_> {
    fn is_done(&self, owned: &Owned, need: Need) -> bool {
        self.done.contains(&(owned.key.clone(), need))
    }
}

/// What is wrong with svcplane's alone.
fn own_fault(owned: &Owned, ours: &Sliced, facts: &SliceFacts<'_>) -> Option<&'static str> {
    if let Some(fault) = ours.fault(facts.limit) {
        return Some(fault);
    }
    match owned.manager {
        Manager::Selector => own_fault_of_selected(owned, ours, facts),
        Manager::Mirroring => {
            let addresses = |listed: &Listed| listed.addresses.first().cloned().unwrap_or_default();
            let says: BTreeSet<String> = ours.content.endpoints().map(addresses).collect();
            let wrong = refused(owned, facts).is_some_and(|wanted| wanted != says);
            let timed = ours.triggers.values().any(Option::is_some);
            let timed = timed.then_some("svcplane's mirrored slices bear a trigger time");
            timed.or(wrong.then_some("svcplane does not mirror just the subsets that can be"))
        }
    }
}

fn own_fault_of_selected(owned: &Owned, ours: &Sliced, facts: &SliceFacts<'_>) -> Option<&'static str> {
    let key = &owned.key;
    let service = facts.world.services.get(key)?;
    if ours.versions.is_empty() {
        return Some("svcplane has no slices");
    }
    let unlistable = |listed: &Listed| {
        let name = listed.target.split([' ', '/']).nth(2).unwrap_or_default();
        let pod = facts.world.pods.get(&Key::new(key.space, name));
        pod.is_some_and(|pod| !facts.world.may_be_in_slices(service, pod))
    };
    if ours.content.endpoints().any(unlistable) {
        return Some("svcplane's slices list a Pod that may not be in slices");
    }
    // It had to be as if the Pod were not there; one without a Node is there if all are published.
    if facts.effects.thawed.contains(key)
        && !service.publish_not_ready
        && facts.before[0].is_none_or(|before| before.content != ours.content)
    {
        return Some("svcplane's slices changed when a Pod went that may not be in slices");
    }
    if service.is_auto() {
        return hints::fault(facts.world, &ours.content);
    }
    None
}

/// If the reference's slices of these Endpoints are refused: the addresses that svcplane has to mirror all the same.
fn refused(owned: &Owned, facts: &SliceFacts<'_>) -> Option<BTreeSet<String>> {
    let mirrors = facts.world.services.get(&owned.key)?.selector.is_none();
    let content: &HandMade = facts.world.loose.get(&owned.key).filter(|_| mirrors)?.as_ref()?;
    let (bad, good): (Vec<_>, Vec<_>) = content.subsets.iter().partition(|subset| content.is_doubled(subset));
    if bad.is_empty() || !content.is_mirrorable() {
        return None;
    }
    let addresses = good.iter().flat_map(|subset| subset.addresses());
    Some(addresses.map(|address| address.ip.clone()).collect())
}

fn selected(owned: &Owned, ours: &SlicesContent, theirs: &SlicesContent, facts: &SliceFacts<'_>) -> Verdict {
    let (key, effects) = (&owned.key, facts.effects);
    let cause = if effects.slices.edited.contains(key) {
        Some(Cause::TamperedSlices)
    } else if effects.unseen.get(key) == Some(&Cause::UnseenPodChange) {
        Some(Cause::UnseenPodChange)
    } else if effects.slices.nodes.contains(key) {
        Some(Cause::NodeChange)
    } else {
        facts.retried.then_some(Cause::RetriedSlices)
    };
    if let Some(cause) = cause.filter(|_| !facts.is_done(owned, Need::Touch)) {
        return Verdict::Needs(Need::Touch, cause);
    }
    let (ours_unnoted, theirs_unnoted) = (without_note(ours), without_note(theirs));
    let alike = without_headless(&ours_unnoted) == without_headless(&theirs_unnoted);
    if alike && ours_unnoted != theirs_unnoted && !facts.is_done(owned, Need::Force) {
        return Verdict::Needs(Need::Force, Cause::HeadlessLabel);
    }
    if ours_unnoted == theirs_unnoted && !facts.is_done(owned, Need::StripSliceNote) {
        return Verdict::Needs(Need::StripSliceNote, Cause::NoteOnSlices);
    }
    if with_owners_of_placeholders(theirs, ours) == *ours {
        return Verdict::Exempt(Cause::PlaceholderOwner);
    }
    if has_no_idle_slice(ours) && listing(theirs) == listing(ours) {
        return Verdict::Exempt(Cause::IdleSlice);
    }
    Verdict::Different("slices differ")
}

/// The slices that list something.
fn listing(content: &SlicesContent) -> BTreeMap<&String, &Group> {
    content
        .groups
        .iter()
        .filter(|(_, group)| !group.endpoints.is_empty())
        .collect()
}

/// Whether a slice that lists nothing is the only one of its family, and has no ports.
fn has_no_idle_slice(content: &SlicesContent) -> bool {
    content.groups.iter().all(|(name, group)| {
        let (family, ports) = name.split_once(' ').unwrap_or((name, ""));
        let of_family = content.groups.keys().filter(|other| is_of_family(other, family));
        !group.endpoints.is_empty() || (ports.is_empty() && of_family.count() == 1)
    })
}

/// `theirs`, but slices without endpoints have the owners that svcplane's have, if those are the Service.
fn with_owners_of_placeholders(theirs: &SlicesContent, ours: &SlicesContent) -> SlicesContent {
    let mut theirs = theirs.clone();
    for (name, group) in &mut theirs.groups {
        let right = ours.groups.get(name).map(|group| &group.owners);
        let is_service = |owner: &String| owner.starts_with("v1 Service ") && !owner.contains(GONE);
        if let Some(right) = right.filter(|right| right.len() == 1 && right.iter().all(is_service))
            && group.endpoints.is_empty()
        {
            group.owners.clone_from(right);
        }
    }
    theirs
}

fn mirrored(owned: &Owned, facts: &SliceFacts<'_>) -> Verdict {
    let slices = &facts.effects.slices;
    let cause = if slices.edited.contains(&owned.key) {
        Some(Cause::TamperedMirror)
    } else if slices.mixed.contains(&owned.key) {
        Some(Cause::MixedMirror)
    } else {
        facts.retried.then_some(Cause::RetriedMirror)
    };
    match cause.filter(|_| !facts.is_done(owned, Need::Remirror)) {
        Some(cause) => Verdict::Needs(Need::Remirror, cause),
        None => Verdict::Different("mirrored slices differ"),
    }
}

/// The content is the same; is the time of the change?
fn same(owned: &Owned, ours: Option<&Sliced>, theirs: Option<&Sliced>, facts: &SliceFacts<'_>) -> Verdict {
    let effects = facts.effects;
    let [before_ours, before_theirs] = facts.before;
    let (a, b) = (new_triggers(ours, before_ours), new_triggers(theirs, before_theirs));
    let is_some = |times: &BTreeSet<Option<&String>>| times.iter().any(Option::is_some);
    if a.is_empty() || b.is_empty() || a == b {
        let isolated = facts.window.kind == Kind::Isolated;
        return Verdict::Same {
            by_value: isolated && a == b && is_some(&a),
        };
    }
    let touched = [Need::Touch, Need::Force, Need::StripSliceNote];
    if effects.slices.frozen.contains(&owned.key) {
        Verdict::Exempt(Cause::TriggerAfterFreeze)
    } else if effects.slices.edited.contains(&owned.key) || touched.iter().any(|need| facts.is_done(owned, *need)) {
        Verdict::Exempt(Cause::TriggerAfterTouch)
    } else if facts.world.new_to_reference.contains(&owned.key) {
        Verdict::Exempt(Cause::TriggerAfterRestart)
    } else if facts.window.kind == Kind::Burst {
        let strictly_present = effects.flipped.contains(&owned.key)
            && !facts.window.is_disturbed()
            && !facts.retried
            && !effects.slices.nodes.contains(&owned.key);
        if strictly_present && is_some(&a) != is_some(&b) {
            return Verdict::Different("only one side's slices have a trigger time");
        }
        Verdict::Exempt(Cause::TriggerInBurst)
    } else if facts.retried {
        Verdict::Exempt(Cause::TriggerAfterRetry)
    } else if facts.world.services.get(&owned.key).is_some_and(Service::is_auto)
        && ours.is_some_and(|ours| hints::is_outside_zones(facts.world, &ours.content))
    {
        Verdict::Exempt(Cause::TriggerOutsideZones)
    } else if are_missed(a.difference(&b), &facts.world.times_missed(&owned.key)) {
        Verdict::Exempt(Cause::TriggerOfMissedFlip)
    } else {
        Verdict::Different("the trigger time of slices differs")
    }
}

/// Whether all of svcplane's times are of changes that it may have left over.
fn are_missed<'a>(times: impl Iterator<Item = &'a Option<&'a String>>, missed: &BTreeSet<String>) -> bool {
    let mut times = times.peekable();
    times.peek().is_some() && times.all(|time| time.is_some_and(|time| missed.contains(time)))
}

/// The trigger times of the slices that were written in the window.
fn new_triggers<'a>(now: Option<&'a Sliced>, before: Option<&Sliced>) -> BTreeSet<Option<&'a String>> {
    let Some(now) = now else { return BTreeSet::new() };
    let version = |name: &String| before.and_then(|before| before.versions.get(name));
    let written = now.versions.iter().filter(|(name, now)| version(name) != Some(now));
    written
        .filter_map(|(name, _)| now.triggers.get(name))
        .map(Option::as_ref)
        .collect()
}

fn with_presence_of_hints(content: &SlicesContent) -> SlicesContent {
    let mut content = content.clone();
    for group in content.groups.values_mut() {
        for endpoint in &mut group.endpoints {
            endpoint.for_zones.truncate(1);
            endpoint.for_zones.fill("some".into());
        }
        group.endpoints.sort();
    }
    content
}

fn without_note(content: &SlicesContent) -> SlicesContent {
    let mut content = content.clone();
    for group in content.groups.values_mut() {
        group.annotations = group.annotations.iter().map(|all| without(all, NOTE)).collect();
    }
    content
}

fn without_headless(content: &SlicesContent) -> SlicesContent {
    let mut content = content.clone();
    for group in content.groups.values_mut() {
        group.labels = group.labels.iter().map(|all| without(all, HEADLESS)).collect();
    }
    content
}

fn without(all: &BTreeMap<String, String>, key: &str) -> BTreeMap<String, String> {
    let mut all = all.clone();
    all.remove(key);
    all
}

#[cfg(test)]
mod tests;
