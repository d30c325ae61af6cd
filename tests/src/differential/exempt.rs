//! What is not compared as it stands, and why. Every cause is counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Why two objects that differ are no difference, or what had to be done before they could be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// Touched: an edit of Endpoints, which the reference does not look at.
    Tampered,
    /// Touched: svcplane is patient with those who edit the same Endpoints again and again; it follows a Service at once.
    Patience,
    /// Touched: a Pod's phase or node changed without its readiness, which the reference does not look at.
    UnseenPodChange,
    /// A label forced: an edit that the reference takes for right once it is put into canonical form.
    Contradiction,
    /// A label forced: a wrong headless label alone is no reason to write.
    HeadlessLabel,
    /// The stream's annotation taken off: whether it outlives the Service depends on how deletion and creation fall
    /// into syncs.
    NoteOfDeletedService,
    /// Deleted by hand: at its start the reference deletes Endpoints without a Service, hand-made ones too; and a leader
    /// lock stays if the program ended before it saw its Service go.
    LeftoverAtStart,
    /// The reference's object is refused by the apiserver; svcplane's may not list the Pod that is the reason.
    FrozenReference,
    /// Which addresses of several subsets survive the cut depends on the order of subsets; counts and prefixes are
    /// compared.
    TruncationOrder,
    /// Touched: somebody else's edit of slices, of which the reference sees only some, and slowly.
    TamperedSlices,
    /// Touched: a Node came, went or changed, and the reference does not look at Pods or hints because of that.
    NodeChange,
    /// Touched: the reference failed at these slices (a stale cache, a Pod on an unknown Node), and the pauses between its
    /// tries grow to minutes.
    RetriedSlices,
    /// The stream's annotation taken off slices: whether it outlives a name that is used again depends on who uses it.
    NoteOnSlices,
    /// Slices of one Service given to another that nobody keeps: which Pods are in them is a matter of chance.
    StraySlices,
    /// The reference keeps a slice that lists nothing as long as some Pod without an address of its family has such ports.
    IdleSlice,
    /// The reference does not mind whose its placeholder is; svcplane's must be the Service's.
    PlaceholderOwner,
    /// The reference's slices are refused by the apiserver; svcplane's may not list the Pod that is the reason.
    FrozenSlices,
    /// The reference told not to mirror and then to, so that it makes its slices again: with both families in play it uses
    /// names of slices wrongly.
    MixedMirror,
    /// The same: an edit of mirrored slices that the reference does not look at.
    TamperedMirror,
    /// The same: the reference failed at these slices.
    RetriedMirror,
    /// The reference's mirrored slices are refused by the apiserver (one name for two ports), all of those Endpoints;
    /// svcplane's must list the other subsets.
    RefusedMirror,
    /// Hints in proportion to CPUs: which endpoint is meant for which zone is anybody's choice within bounds; the bounds are
    /// checked by rule.
    HintsWithinBounds,
    /// Trigger time: slices were written when the Service was touched.
    TriggerAfterTouch,
    /// Trigger time: in a burst it depends on how changes fall into syncs.
    TriggerInBurst,
    /// Trigger time: the reference tried this Service again in this window, and forgets it then.
    TriggerAfterRetry,
    /// Trigger time: the reference alone was started again while the Service had no Pods of its own, so that it is new to it.
    TriggerAfterRestart,
    /// Trigger time: the reference was frozen, and saw the changes when it could not write them.
    TriggerAfterFreeze,
    /// Trigger time: a Pod flipped there and back while svcplane's watches had expired, which is no reason to look at its Services; the time
    /// is news to it when it looks at them next.
    TriggerOfMissedFlip,
    /// Trigger time: the reference writes Endpoints over capacity at every sync.
    TriggerOverCapacity,
    /// Trigger time: the reference writes at every sync for a Service that carries the controllers' own labels.
    TriggerReservedLabels,
    /// Trigger time: the reference writes slices of topology mode `Auto` at every sync while one of their ready endpoints is in no zone
    /// that counts.
    TriggerOutsideZones,
}

/// How often each cause was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// By cause.
    pub exempted: BTreeMap<Cause, u64>,
    /// Endpoints compared.
    pub compared: u64,
    /// Sets of slices of one controller for one Service compared.
    pub slices_compared: u64,
    /// Of these with their trigger time by value, where a write had set it.
    pub triggers_by_value: u64,
    /// Operations that both servers refused alike: edits of Endpoints that are not there.
    pub refused_by_both: u64,
}

impl Tally {
    /// Counts one.
    pub fn note(&mut self, cause: Cause) {
        *self.exempted.entry(cause).or_default() += 1;
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "Endpoints compared {}, sets of slices compared {}, trigger times compared by value {}, operations that both refused {}\n",
            self.compared, self.slices_compared, self.triggers_by_value, self.refused_by_both
        );
        for (cause, count) in &self.exempted {
            let _ = writeln!(text, "  exempted {:<22} {count:>7}", format!("{cause:?}"));
        }
        text
    }
}
