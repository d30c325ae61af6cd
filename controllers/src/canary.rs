//! The canary: a Service that selects nothing and that svcplane leaves alone. A built-in controller that lives makes empty Endpoints and an
//! empty EndpointSlice for it; where none appear, none lives. [`Verdict`] is pure, `probe` asks, `tend` asks again and again.

mod probe;
mod tend;

use std::fmt;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

pub use self::probe::Probe;
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
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";

impl Verdict {
    /// No built-in controller lives.
    pub fn passed(&self) -> bool {
        self.alive.is_empty()
    }

    /// Reads what was noted.
    pub fn noted(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (word, time) = (words.next()?, words.next()?.parse().ok()?);
        let alive = words.next().map(of_kinds).unwrap_or_default();
        // A failure of which nothing can be read is none that could be told from a success.
        let sound = (word == PASSED && alive.is_empty()) || (word == FAILED && !alive.is_empty());
        sound.then_some(Self { time, alive })
    }

    /// Whether a new leader may go by it `now`.
    pub fn holds(&self, now: Timestamp) -> bool {
        now.duration_since(self.time).unsigned_abs() <= BELIEVED
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.passed() {
            write!(f, "{PASSED} {}", self.time)
        } else {
            write!(f, "{FAILED} {} {}", self.time, kinds(&self.alive))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_was_noted_and_nonsense_is_none() {
        let time: Timestamp = "2026-12-01T21:00:00Z".parse().unwrap();
        let both = vec![Controller::Endpoints, Controller::Slices];
        for (alive, text) in [
            (vec![], "passed 2026-12-01T21:00:00Z"),
            (both, "failed 2026-12-01T21:00:00Z Endpoints,EndpointSlice"),
        ] {
            let verdict = Verdict { time, alive };
            assert_eq!(verdict.to_string(), text);
            assert_eq!(Verdict::noted(text), Some(verdict));
        }
        for nonsense in [
            "",
            "passed",
            "passed yesterday",
            "failed 2026-12-01T21:00:00Z",
            "failed 2026-12-01T21:00:00Z Nodes",
            "passed 2026-12-01T21:00:00Z Endpoints",
            "unsure 2026-12-01T21:00:00Z",
        ] {
            assert_eq!(Verdict::noted(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_verdict_is_inherited_for_a_day() {
        let time: Timestamp = "2026-12-01T21:00:00Z".parse().unwrap();
        let verdict = Verdict {
            time,
            alive: Vec::new(),
        };
        for (now, want) in [
            ("2026-12-01T21:00:00Z", true),
            ("2026-12-02T21:00:00Z", true),
            ("2026-12-02T21:00:01Z", false),
            // A clock that was set back by a little, and one that says nothing.
            ("2026-12-01T20:00:00Z", true),
            ("2026-11-01T20:00:00Z", false),
        ] {
            assert_eq!(verdict.holds(now.parse().unwrap()), want, "{now}");
        }
    }
}
