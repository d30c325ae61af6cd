//! The one question before every endpoint write: may this process write now?

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcplane_runtime::leader::TermHandle;
use tokio::sync::watch;

/// `--mode`: what becomes of the writes that the endpoint controllers find necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Plan, count and log them; make none.
    Observe,
    /// Make them.
    Active,
}

impl Mode {
    /// The flag's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Active => "active",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a write must not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The mode in force forbids it.
    Observing,
    /// This process holds no valid term.
    NotLeading,
}

/// What keeps this process from writing in active mode, beside the Lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// The breaker has found a built-in controller that writes what we write.
    pub foreign_writer: bool,
    /// There is a canary, and it has not passed.
    pub canary: bool,
}

impl Holds {
    fn any(self) -> bool {
        self.foreign_writer || self.canary
    }
}

/// Term, mode and what holds it back, asked together. Clones share all of it.
#[derive(Clone)]
pub struct Gate {
    term: TermHandle,
    mode: Mode,
    holds: Arc<watch::Sender<Holds>>,
}

impl Gate {
    /// A gate.
    pub fn new(term: TermHandle, mode: Mode, holds: Holds) -> Self {
        let holds = Arc::new(watch::Sender::new(holds));
        Self { term, mode, holds }
    }

    /// Sets or lifts what holds writes back. Answers whether that is new.
    pub fn hold(&self, change: impl FnOnce(&mut Holds)) -> bool {
        self.holds.send_if_modified(|holds| {
            let before = *holds;
            change(holds);
            before != *holds
        })
    }

    /// Whether this holds writes back.
    pub fn is_held(&self, which: impl FnOnce(Holds) -> bool) -> bool {
        which(*self.holds.borrow())
    }

    /// To wait for the next change of what holds writes back.
    pub fn holds(&self) -> watch::Receiver<Holds> {
        self.holds.subscribe()
    }

    /// `Ok` = a write may be sent now; the time says how long the term is good for, so that the write ends before it does.
    pub fn check(&self) -> Result<Duration, Closed> {
        let left = self.term.check(Instant::now()).map_err(|_| Closed::NotLeading)?;
        match self.mode() {
            Mode::Observe => Err(Closed::Observing),
            Mode::Active => Ok(left),
        }
    }

    /// The mode in force: the flag's, unless the Lease, the breaker or the canary says observe.
    pub fn mode(&self) -> Mode {
        if self.term.is_forced_to_observe() || self.holds.borrow().any() {
            Mode::Observe
        } else {
            self.mode
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_holds_writes_back_makes_active_observe_and_nothing_makes_observe_active() {
        let held = |foreign_writer, canary| Holds { foreign_writer, canary };
        let table = [
            (Mode::Active, held(false, false), Mode::Active),
            (Mode::Active, held(true, false), Mode::Observe),
            (Mode::Active, held(false, true), Mode::Observe),
            (Mode::Observe, held(false, false), Mode::Observe),
            (Mode::Observe, held(true, true), Mode::Observe),
        ];
        for (flag, holds, want) in table {
            let gate = Gate::new(TermHandle::unelected(), flag, holds);
            assert_eq!(gate.mode(), want, "{flag} {holds:?}");
            assert_eq!(gate.check().is_ok(), want == Mode::Active, "{flag} {holds:?}");
        }
    }

    #[test]
    fn a_change_of_what_holds_back_is_told_once_and_to_every_clone() {
        let gate = Gate::new(TermHandle::unelected(), Mode::Active, Holds::default());
        let (clone, mut changes) = (gate.clone(), gate.holds());
        assert!(gate.hold(|holds| holds.foreign_writer = true));
        assert_eq!(clone.check(), Err(Closed::Observing));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(!clone.hold(|holds| holds.foreign_writer = true));
        assert!(!changes.has_changed().unwrap());
        assert!(clone.hold(|holds| holds.foreign_writer = false) && gate.check().is_ok());
    }
}
