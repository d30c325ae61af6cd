//! The canary: a Service that selects nothing and that svcplane leaves alone. A built-in controller that lives makes empty Endpoints and an
//! empty EndpointSlice for it; where none appear, none lives. One that has found its slice there when it started does not miss it, so a slice
//! that the Service should not have is laid for it. [`Verdict`] is pure, `probe` asks, `tend` asks again and again.

mod probe;
mod tend;

use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

pub use self::probe::{Found, Probe};
pub use self::tend::Tended;

use crate::controller::Controller;
use crate::orders::{kinds, of_kinds};

/// The last verdict, on the Lease.
pub const RESULT_ANNOTATION: &str = "svcplane.io/canary-result";

/// A new leader believes a verdict of this age while it asks anew: asking takes time, and failing over must not wait for it.
const BELIEVED: Duration = Duration::from_hours(24);

/// What a probe has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// When, in whole seconds.
    pub time: Timestamp,
    /// The built-in counterparts of these live. None: passed.
    pub alive: Vec<Controller>,
    /// Whose counterparts were asked after: of others it says nothing.
    pub asked: Vec<Controller>,
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";
/// Before the kinds that were asked after.
const ASKED: &str = "of";

impl Verdict {
    /// No built-in controller lives.
    pub fn passed(&self) -> bool {
        self.alive.is_empty()
    }

    /// Reads what was noted.
    pub fn noted(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (word, time) = (words.next()?, words.next()?.parse().ok()?);
        let mut word_after = words.next()?;
        let mut alive = Vec::new();
        if word_after != ASKED {
            alive = of_kinds(word_after);
            word_after = words.next()?;
        }
        let asked = of_kinds(words.next()?);
        // A failure of which nothing can be read is none that could be told from a success.
        let sound = (word == PASSED && alive.is_empty()) || (word == FAILED && !alive.is_empty());
        (sound && word_after == ASKED && !asked.is_empty()).then_some(Self { time, alive, asked })
    }

    /// Whether a new leader that runs `whose` may go by it `now`.
    pub fn holds(&self, now: Timestamp, whose: &[Controller]) -> bool {
        let recent = now.duration_since(self.time).unsigned_abs() <= BELIEVED;
        recent && whose.iter().all(|it| self.asked.contains(it))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.passed() {
            write!(f, "{PASSED} {}", self.time)?;
        } else {
            write!(f, "{FAILED} {} {}", self.time, kinds(&self.alive))?;
        }
        write!(f, " {ASKED} {}", kinds(&self.asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_was_noted_and_nonsense_is_none() {
        let time: Timestamp = "2026-12-01T21:00:00Z".parse().unwrap();
        let both = vec![Controller::Endpoints, Controller::Slices];
        let slices = vec![Controller::Slices];
        for (alive, asked, text) in [
            (
                vec![],
                both.clone(),
                "passed 2026-12-01T21:00:00Z of Endpoints,EndpointSlice",
            ),
            (
                slices.clone(),
                slices.clone(),
                "failed 2026-12-01T21:00:00Z EndpointSlice of EndpointSlice",
            ),
            (
                slices,
                both,
                "failed 2026-12-01T21:00:00Z EndpointSlice of Endpoints,EndpointSlice",
            ),
        ] {
            let verdict = Verdict { time, alive, asked };
            assert_eq!(verdict.to_string(), text);
            assert_eq!(Verdict::noted(text), Some(verdict));
        }
        for nonsense in [
            "",
            "passed",
            "passed yesterday of Endpoints",
            "passed 2026-12-01T21:00:00Z",
            "passed 2026-12-01T21:00:00Z of",
            "passed 2026-12-01T21:00:00Z of Nodes",
            "failed 2026-12-01T21:00:00Z Endpoints",
            "failed 2026-12-01T21:00:00Z of Endpoints",
            "failed 2026-12-01T21:00:00Z Nodes of Endpoints",
            "passed 2026-12-01T21:00:00Z Endpoints of Endpoints",
            "unsure 2026-12-01T21:00:00Z of Endpoints",
        ] {
            assert_eq!(Verdict::noted(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_verdict_is_inherited_for_a_day_by_whoever_runs_no_more_than_was_asked_after() {
        let time: Timestamp = "2026-12-01T21:00:00Z".parse().unwrap();
        let both = [Controller::Endpoints, Controller::Slices];
        let verdict = |asked: &[Controller]| Verdict {
            time,
            alive: Vec::new(),
            asked: asked.to_vec(),
        };
        for (now, want) in [
            ("2026-12-01T21:00:00Z", true),
            ("2026-12-02T21:00:00Z", true),
            ("2026-12-02T21:00:01Z", false),
            // A clock that was set back by a little, and one that says nothing.
            ("2026-12-01T20:00:00Z", true),
            ("2026-11-01T20:00:00Z", false),
        ] {
            assert_eq!(verdict(&both).holds(now.parse().unwrap(), &both), want, "{now}");
        }
        for (asked, whose, want) in [
            (&both[..1], &both[..1], true),
            (&both, &both[1..], true),
            (&both[..1], &both, false),
            (&both[..1], &both[1..], false),
        ] {
            assert_eq!(verdict(asked).holds(time, whose), want, "{asked:?} {whose:?}");
        }
    }
}
