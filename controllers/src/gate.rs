//! The one question before every endpoint write: may this process write now?

use std::fmt;
use std::time::{Duration, Instant};

use svcplane_runtime::leader::TermHandle;

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
    /// The mode, or the annotation `svcplane.io/mode: observe` on the Lease, forbids it.
    Observing,
    /// This process holds no valid term.
    NotLeading,
}

/// Term and mode, asked together. Clones share the term.
#[derive(Clone)]
pub struct Gate {
    term: TermHandle,
    mode: Mode,
}

impl Gate {
    /// A gate.
    pub fn new(term: TermHandle, mode: Mode) -> Self {
        Self { term, mode }
    }

    /// `Ok` = a write may be sent now; the time says how long the term is good for, so that the write ends before it does.
    pub fn check(&self) -> Result<Duration, Closed> {
        let left = self.term.check(Instant::now()).map_err(|_| Closed::NotLeading)?;
        if self.mode == Mode::Observe || self.term.term().forced_observe {
            return Err(Closed::Observing);
        }
        Ok(left)
    }

    /// The mode in force: the flag's, unless the Lease says observe.
    pub fn mode(&self) -> Mode {
        if self.term.term().forced_observe {
            Mode::Observe
        } else {
            self.mode
        }
    }
}
