//! What the status of a pool should be.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use svcplane_allocators::books::PoolView;
use svcplane_allocators::pools::{Mode, PoolTerms};
use svcplane_webhook::pools::{PoolNumbers, Unreadable, in_no_range};

/// What of a pool its status shows, of all families together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The generation of the spec.
    pub generation: i64,
    disabled: bool,
    numbers: Vec<PoolNumbers>,
    outside: Option<String>,
    conflicts: Vec<(Arc<str>, bool)>,
    unreadable: Option<Unreadable>,
}

impl Facts {
    /// Of the pool's part in each of its books.
    pub fn of(terms: &PoolTerms, generation: i64, parts: &[PoolView]) -> Self {
        let mut conflicts: Vec<_> = parts.iter().flat_map(|part| part.conflicts.iter().cloned()).collect();
        conflicts.sort();
        conflicts.dedup();
        Self {
            generation,
            disabled: terms.mode == Mode::Disabled,
            numbers: parts.iter().map(numbers).collect(),
            outside: parts.iter().find_map(|part| part.outside.clone()),
            conflicts,
            unreadable: None,
        }
    }

    /// Of a pool whose spec cannot be used.
    pub fn unreadable(pool: &Unreadable) -> Self {
        Self {
            generation: pool.generation,
            disabled: false,
            numbers: Vec::new(),
            outside: None,
            conflicts: Vec::new(),
            unreadable: Some(pool.clone()),
        }
    }

    /// Its conditions. One that does not change keeps the time of its last transition.
    pub fn conditions(&self, before: &[Condition], now: &Time) -> Vec<Condition> {
        // Nothing else is known of one that cannot be used.
        let rest = self
            .unreadable
            .is_none()
            .then(|| [conflict(&self.conflicts), self.exhausted()]);
        let facts = std::iter::once(self.ready())
            .chain(rest.into_iter().flatten())
            .collect::<Vec<_>>();
        facts
            .iter()
            .map(|fact| condition(fact, self.generation, before, now))
            .collect()
    }

    fn ready(&self) -> Holds {
        if let Some(pool) = &self.unreadable {
            return invalid(pool);
        }
        match &self.outside {
            _ if self.disabled => Holds::of("Ready", false, "Disabled", "spec.mode is Disabled".into()),
            Some(values) => Holds::of("Ready", false, "OutsideRange", in_no_range(values)),
            None => Holds::of("Ready", true, "InRange", String::new()),
        }
    }

    fn exhausted(&self) -> Holds {
        let (mut none, mut full) = (false, false);
        for numbers in &self.numbers {
            none |= numbers.total == 0;
            full |= numbers.total > 0 && numbers.available == 0;
        }
        if self.disabled {
            Holds::of("Exhausted", false, "Disabled", String::new())
        } else if full {
            let message = "every value is used or reserved".into();
            Holds::of("Exhausted", true, "NoneAvailable", message)
        } else if none {
            let message =
                "no value can be given: they lie in no range of the cluster that is ready, or older pools have them"
                    .into();
            Holds::of("Exhausted", true, "NoValues", message)
        } else {
            Holds::of("Exhausted", false, "Available", String::new())
        }
    }
}

/// One condition, but for its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Holds {
    /// Whether it holds, and why.
    pub fn of(kind: &'static str, holds: bool, reason: &'static str, message: String) -> Self {
        Self {
            kind,
            holds,
            reason,
            message,
        }
    }

    /// It holds for this, too. What it held for before stays its reason.
    pub fn and(self, reason: &'static str, more: String) -> Self {
        let (reason, message) = if self.holds {
            (self.reason, format!("{}; {more}", self.message))
        } else {
            (reason, more)
        };
        Self::of(self.kind, true, reason, message)
    }
}

/// Of a pool that cannot be used: nothing else is known of it.
pub fn invalid(pool: &Unreadable) -> Holds {
    Holds::of("Ready", false, "Invalid", pool.complaint())
}

/// It as the API has it. One that does not change keeps the time of its last transition.
pub fn condition(fact: &Holds, generation: i64, before: &[Condition], now: &Time) -> Condition {
    let status = if fact.holds { "True" } else { "False" };
    let known = before
        .iter()
        .find(|known| known.type_ == fact.kind && known.status == status);
    Condition {
        type_: fact.kind.into(),
        status: status.into(),
        reason: fact.reason.into(),
        message: fact.message.clone(),
        observed_generation: Some(generation),
        last_transition_time: known.map_or_else(|| now.clone(), |known| known.last_transition_time.clone()),
    }
}

/// Which pools name values of a pool too, and whether they are older and so have them.
pub fn conflict(conflicts: &[(Arc<str>, bool)]) -> Holds {
    let with = |(name, older): &(Arc<str>, bool)| {
        let who = if *older {
            "which is older and has them"
        } else {
            "which is younger and does without"
        };
        format!("pool {name:?}, {who}")
    };
    let with: Vec<String> = conflicts.iter().map(with).collect();
    if with.is_empty() {
        Holds::of("Conflict", false, "NoOverlap", String::new())
    } else {
        let message = format!("values are also in {}", with.join("; "));
        Holds::of("Conflict", true, "Overlap", message)
    }
}

/// The numbers of one part. A number beyond 63 bits is given as the greatest one.
pub fn numbers(part: &PoolView) -> PoolNumbers {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let status = part.status();
    PoolNumbers {
        total: number(status.total),
        used: number(status.used),
        reserved: number(status.reserved),
        available: number(status.available),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::jiff::Timestamp;
    use svcplane_allocators::books::Counts;

    use super::*;

    fn terms(mode: Mode) -> PoolTerms {
        PoolTerms {
            name: "front".into(),
            created: 0,
            priority: 0,
            auto_assign: true,
            mode,
            enforce: false,
            reuse_delay: Duration::ZERO,
        }
    }

    fn part(capacity: u64, used: u64, reserved: u64) -> PoolView {
        PoolView {
            name: "front".into(),
            counts: Counts {
                capacity,
                used,
                reserved,
                free: capacity - used - reserved,
                ..Counts::default()
            },
            outside: None,
            conflicts: Vec::new(),
        }
    }

    fn words(facts: &Facts) -> Vec<String> {
        let time = Time(Timestamp::UNIX_EPOCH);
        let conditions = facts.conditions(&[], &time).into_iter();
        conditions
            .map(|it| format!("{}={} {}", it.type_, it.status, it.reason))
            .collect()
    }

    #[test]
    fn conditions_say_what_is_wrong() {
        let facts = |mode, parts: &[PoolView]| words(&Facts::of(&terms(mode), 3, parts));
        assert_eq!(
            facts(Mode::Active, &[part(4, 1, 1)]),
            [
                "Ready=True InRange",
                "Conflict=False NoOverlap",
                "Exhausted=False Available"
            ]
        );
        assert_eq!(facts(Mode::Active, &[part(4, 3, 1)])[2], "Exhausted=True NoneAvailable");
        assert_eq!(
            facts(Mode::Active, &[part(4, 4, 0), part(9, 0, 0)])[2],
            "Exhausted=True NoneAvailable"
        );
        // As when its ServiceCIDR is gone.
        assert_eq!(facts(Mode::Active, &[part(0, 0, 0)])[2], "Exhausted=True NoValues");
        assert_eq!(
            facts(Mode::Active, &[part(0, 0, 0), part(9, 0, 0)])[2],
            "Exhausted=True NoValues"
        );
        assert_eq!(facts(Mode::Disabled, &[part(0, 0, 0)])[2], "Exhausted=False Disabled");
        assert_eq!(facts(Mode::Disabled, &[part(0, 0, 0)])[0], "Ready=False Disabled");
        let mut odd = part(4, 0, 0);
        odd.outside = Some("10.9.9.9".into());
        odd.conflicts = vec![("back".into(), true)];
        let odd = Facts::of(&terms(Mode::Active), 3, &[odd]);
        assert_eq!(words(&odd)[..2], ["Ready=False OutsideRange", "Conflict=True Overlap"]);
        let time = Time(Timestamp::UNIX_EPOCH);
        assert!(
            odd.conditions(&[], &time)[1]
                .message
                .contains("\"back\", which is older")
        );
    }

    #[test]
    fn a_pool_that_cannot_be_used_says_why_and_nothing_else() {
        let facts = Facts::unreadable(&Unreadable {
            name: "front".into(),
            generation: 3,
            faults: "spec.ranges[0]: ends before it begins".into(),
        });
        assert_eq!(words(&facts), ["Ready=False Invalid"]);
        let message = &facts.conditions(&[], &Time(Timestamp::UNIX_EPOCH))[0].message;
        assert!(message.ends_with("spec.ranges[0]: ends before it begins"), "{message}");
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let (early, late) = (
            Time(Timestamp::UNIX_EPOCH),
            Time(Timestamp::UNIX_EPOCH + Duration::from_mins(1)),
        );
        let before = Facts::of(&terms(Mode::Active), 1, &[part(1, 0, 0)]).conditions(&[], &early);
        let after = Facts::of(&terms(Mode::Active), 2, &[part(1, 1, 0)]).conditions(&before, &late);
        let times: Vec<_> = after.iter().map(|it| it.last_transition_time == early).collect();
        assert_eq!(times, [true, true, false]);
        assert!(after.iter().all(|it| it.observed_generation == Some(2)));
    }
}
