//! When to stop writing beside somebody who writes the same: the rule, without clock or client.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use k8s_openapi::jiff::Timestamp;

use crate::controller::Controller;
use crate::model::Uid;

/// The field manager of the built-in controllers: their program's name.
pub const BUILT_IN: &str = "kube-controller-manager";

/// Our own: what the apiserver makes of our user agent.
pub const OURS: &str = "svcplane";

/// So many revisions by a built-in controller within [`WINDOW`] are a fight, and no remains of an earlier one.
pub const LIMIT: usize = 3;

/// See [`LIMIT`].
pub const WINDOW: Duration = Duration::from_mins(1);

/// Marks have whole seconds, and so has the apiserver's clock where it is read: a mark counts only if it is later than the moment from
/// which this process may write by more than this.
const MARGIN: Duration = Duration::from_secs(2);

/// Objects whose last mark is remembered.
const REMEMBERED: usize = 1000;

/// A mark counts if it is later than this, by the apiserver's clock, which sets the marks. `now` is that clock's time, when this process
/// has been allowed to write for so long. What was written before was not written beside us; what was written longer than [`WINDOW`] ago
/// is no part of a fight, although it may be the last mark of an object that a person has just edited: removing a field leaves none.
pub fn counts_after(now: Timestamp, writing_for: Duration) -> Timestamp {
    let back = |by: Duration| now.checked_sub(by).unwrap_or(Timestamp::MIN);
    let opened = back(writing_for).checked_add(MARGIN).unwrap_or(Timestamp::MAX);
    opened.max(back(WINDOW))
}

/// When a built-in controller wrote this object, if that was later than `after` and nobody has written it since: neither anybody else nor we.
pub fn built_in_write(fields: &[ManagedFieldsEntry], after: Timestamp) -> Option<Timestamp> {
    let marks = fields
        .iter()
        .filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    let marks = marks.filter_map(|entry| Some((entry.time.as_ref()?.0, entry.manager.as_deref()?)));
    // Within one second, who was last is not known: of strangers nobody is accused, and our own answer may have come at once.
    let (time, manager) = marks.max_by_key(|(time, manager)| (*time, rank(manager)))?;
    (manager == BUILT_IN && time > after).then_some(time)
}

/// Who counts as last within one second.
fn rank(manager: &str) -> u8 {
    match manager {
        OURS => 0,
        BUILT_IN => 1,
        _ => 2,
    }
}

/// Counts revisions by built-in controllers. Each counts once, however often it is seen.
#[derive(Debug, Default)]
pub struct Breaker {
    counted: VecDeque<(Instant, Controller)>,
    marks: HashMap<Uid, Timestamp, ahash::RandomState>,
}

impl Breaker {
    /// An object of ours was seen `now` to have been written by a built-in controller at `time`. If that is once too often: the
    /// controllers whose objects were written, each once.
    pub fn note(&mut self, whose: Controller, uid: &Uid, time: Timestamp, now: Instant) -> Option<Vec<Controller>> {
        if self.marks.get(uid).is_some_and(|last| *last >= time) {
            return None;
        }
        if self.marks.len() >= REMEMBERED {
            self.marks.clear();
        }
        self.marks.insert(uid.clone(), time);
        self.counted.push_back((now, whose));
        while let Some((noted, _)) = self.counted.front()
            && now.saturating_duration_since(*noted) >= WINDOW
        {
            self.counted.pop_front();
        }
        if self.counted.len() < LIMIT {
            return None;
        }
        let mut all: Vec<Controller> = self.counted.drain(..).map(|(_, whose)| whose).collect();
        all.sort_unstable();
        all.dedup();
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(NOW + seconds).unwrap()
    }

    fn mark(manager: &str, seconds: i64, subresource: &str) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            time: Some(Time(at(seconds))),
            subresource: (!subresource.is_empty()).then(|| subresource.to_owned()),
            ..ManagedFieldsEntry::default()
        }
    }

    /// Ten minutes into a term.
    fn settled() -> Timestamp {
        counts_after(at(0), Duration::from_mins(10))
    }

    #[test]
    fn the_last_writer_is_a_built_in_controller() {
        let table: [(&str, Vec<ManagedFieldsEntry>, Option<i64>); 11] = [
            ("nobody", vec![], None),
            ("us alone", vec![mark(OURS, -1, "")], None),
            ("it alone", vec![mark(BUILT_IN, -1, "")], Some(-1)),
            (
                "it, and we have put it right",
                vec![mark(BUILT_IN, -2, ""), mark(OURS, -1, "")],
                None,
            ),
            (
                "it after us",
                vec![mark(BUILT_IN, -1, ""), mark(OURS, -2, "")],
                Some(-1),
            ),
            (
                "it and us in one second",
                vec![mark(BUILT_IN, -1, ""), mark(OURS, -1, "")],
                Some(-1),
            ),
            (
                "a person after it",
                vec![mark(BUILT_IN, -9, ""), mark("kubectl-edit", -1, "")],
                None,
            ),
            (
                "it after a person",
                vec![mark("kubectl-edit", -9, ""), mark(BUILT_IN, -1, "")],
                Some(-1),
            ),
            (
                "it and a person in one second",
                vec![mark("kubectl-edit", -1, ""), mark(BUILT_IN, -1, "")],
                None,
            ),
            (
                "a minute ago, and then a removal that leaves no mark",
                vec![mark(BUILT_IN, -60, "")],
                None,
            ),
            ("through a subresource", vec![mark(BUILT_IN, -1, "status")], None),
        ];
        for (what, fields, want) in table {
            assert_eq!(built_in_write(&fields, settled()), want.map(at), "{what}");
        }
    }

    /// Whoever takes over from kube-controller-manager finds its marks on everything.
    #[test]
    fn what_was_written_before_we_could_is_no_fight() {
        let written = |seconds| [mark(BUILT_IN, seconds, "")];
        for (writing_for, seconds, counts) in [
            (0, -30, false),
            (0, 0, false),
            (10, -30, false),
            (10, -10, false),
            // Not sure to be later.
            (10, -8, false),
            (10, -7, true),
            (59, -56, true),
            (59, -57, false),
            (3600, -59, true),
            (3600, -60, false),
        ] {
            let after = counts_after(at(0), Duration::from_secs(writing_for));
            let found = built_in_write(&written(seconds), after);
            assert_eq!(found.is_some(), counts, "writing for {writing_for} s, mark {seconds} s");
        }
        assert_eq!(
            counts_after(at(0), Duration::MAX),
            settled(),
            "without an election, for ever"
        );
        // Of two apiservers one's clock may be ahead.
        assert_eq!(built_in_write(&written(20), settled()), Some(at(20)));
    }

    #[test]
    fn the_third_revision_within_a_minute_is_one_too_many() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        let [one, two] = ["u-1", "u-2"].map(Uid::parse);
        let later = |seconds| start + Duration::from_secs(seconds);
        let (endpoints, slices) = (Controller::Endpoints, Controller::Slices);
        assert_eq!(breaker.note(endpoints, &one, at(0), start), None);
        assert_eq!(breaker.note(endpoints, &one, at(0), start), None, "seen already");
        assert_eq!(breaker.note(slices, &two, at(1), later(1)), None);
        // The first one is over by now.
        assert_eq!(breaker.note(endpoints, &one, at(60), later(60)), None);
        assert_eq!(
            breaker.note(endpoints, &one, at(61), later(60)),
            Some(vec![endpoints, slices])
        );
        assert_eq!(breaker.note(endpoints, &one, at(62), later(61)), None, "counted anew");
        assert_eq!(
            breaker.note(endpoints, &one, at(61), later(61)),
            None,
            "older than what is known"
        );
    }

    proptest! {
        /// It trips exactly when the last minute has three revisions that were not seen before, counted from the last time it tripped.
        #[test]
        fn it_trips_as_a_count_of_everything_would(
            writes in prop::collection::vec((0_u64..40, 0_usize..4, 0_i64..6), 0..60)
        ) {
            let (mut breaker, start) = (Breaker::default(), Instant::now());
            let (mut clock, mut counted): (u64, Vec<u64>) = (0, Vec::new());
            let mut last = [i64::MIN; 4];
            for (pause, object, step) in writes {
                clock += pause;
                let time = last[object].max(0) + step - 2;
                let uid = Uid::parse(&format!("u-{object}"));
                let tripped = breaker.note(Controller::Slices, &uid, at(time), start + Duration::from_secs(clock));
                if time > last[object] {
                    last[object] = time;
                    counted.push(clock);
                }
                let recent = counted.iter().filter(|noted| clock - **noted < WINDOW.as_secs()).count();
                let new = counted.last() == Some(&clock);
                prop_assert_eq!(tripped.is_some(), recent >= LIMIT && new);
                if tripped.is_some() {
                    counted.clear();
                }
            }
        }
    }
}
