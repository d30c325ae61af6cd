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

/// A built-in controller's mark may be this old by our clock, which may differ from the apiserver's. Removing a field leaves no mark, so
/// an old one can be the last of an object that a person has just edited.
const RECENT: Duration = Duration::from_mins(5);

/// Objects whose last mark is remembered.
const REMEMBERED: usize = 1000;

/// When a built-in controller wrote this object, if nobody but us has written it since, and not long ago.
pub fn built_in_write(fields: &[ManagedFieldsEntry], now: Timestamp) -> Option<Timestamp> {
    let marks = fields
        .iter()
        .filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty());
    let others = marks.filter(|entry| entry.manager.as_deref() != Some(OURS));
    let last = others.filter_map(|entry| Some((entry.time.as_ref()?.0, entry.manager.as_deref()?)));
    // Marks have whole seconds: within one, who was last is not known, and nobody is accused.
    let (time, manager) = last.max_by_key(|(time, manager)| (*time, *manager != BUILT_IN))?;
    let recent = now.duration_since(time).as_secs().unsigned_abs() <= RECENT.as_secs();
    (manager == BUILT_IN && recent).then_some(time)
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

    #[test]
    fn the_last_writer_but_us_is_a_built_in_controller() {
        let table: [(&str, Vec<ManagedFieldsEntry>, Option<i64>); 9] = [
            ("nobody", vec![], None),
            ("us alone", vec![mark(OURS, -1, "")], None),
            ("it alone", vec![mark(BUILT_IN, -1, "")], Some(-1)),
            (
                "it, and we have put it right",
                vec![mark(BUILT_IN, -2, ""), mark(OURS, -1, "")],
                Some(-2),
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
                "both in one second",
                vec![mark("kubectl-edit", -1, ""), mark(BUILT_IN, -1, "")],
                None,
            ),
            (
                "long ago, and then a removal that leaves no mark",
                vec![mark(BUILT_IN, -301, "")],
                None,
            ),
            ("through a subresource", vec![mark(BUILT_IN, -1, "status")], None),
        ];
        for (what, fields, want) in table {
            assert_eq!(built_in_write(&fields, at(0)), want.map(at), "{what}");
        }
        // Its clock may be ahead of ours.
        assert_eq!(built_in_write(&[mark(BUILT_IN, 20, "")], at(0)), Some(at(20)));
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
