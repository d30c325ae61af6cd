//! How a sync ended.

use std::time::Duration;

use svcplane_runtime::api::Failure;
use svcplane_runtime::queue::Outcome;

use crate::drift::WRITE_FAILED;
use crate::gate::Closed;
use crate::index::WriteEnd;
use crate::model::Version;

/// For the metric, and for the queue.
#[derive(Debug)]
pub(super) enum Synced {
    Unchanged,
    Skipped,
    /// If one object was written, at which version.
    Written(Option<Version>),
    /// Writes that the mode does not allow: why each was found necessary.
    Planned(Vec<&'static str>),
    Failed(Failure),
    NotLeading,
}

impl Synced {
    /// Closed set of words for a metric label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Skipped => "skipped",
            Self::Written(_) => "written",
            Self::Planned(_) => "planned",
            Self::Failed(_) => "failed",
            Self::NotLeading => "not_leading",
        }
    }

    /// Of several writes, the outcome that matters most.
    pub fn worse(self, other: Self) -> Self {
        let rank = |synced: &Self| match synced {
            Self::Unchanged => 0,
            Self::Written(_) => 1,
            Self::Planned(_) => 2,
            Self::Skipped => 3,
            Self::NotLeading => 4,
            Self::Failed(_) => 5,
        };
        match (self, other) {
            (Self::Planned(one), Self::Planned(more)) => Self::Planned([one, more].concat()),
            (one, other) if rank(&other) > rank(&one) => other,
            (one, _) => one,
        }
    }

    /// Why objects differ now from what they should be, one reason each.
    pub fn differences(&self) -> &[&'static str] {
        match self {
            Self::Planned(reasons) => reasons,
            Self::Failed(_) => &[WRITE_FAILED],
            _ => &[],
        }
    }

    /// What becomes of the key if that was the outcome so far.
    pub fn and(&self, other: Outcome) -> Outcome {
        let wait = match self {
            Self::Failed(failure) => failure.retry_after(),
            Self::NotLeading => Duration::ZERO,
            Self::Unchanged | Self::Skipped | Self::Written(_) | Self::Planned(_) => return other,
        };
        match other {
            Outcome::Retry { at_least } => Outcome::Retry {
                at_least: at_least.max(wait),
            },
            Outcome::Done => Outcome::Retry { at_least: wait },
        }
    }

    /// A write that the gate does not let through.
    pub fn closed(closed: Closed, reason: &'static str, say: impl FnOnce()) -> Self {
        match closed {
            Closed::Observing => {
                say();
                Self::Planned(vec![reason])
            }
            Closed::NotLeading => Self::NotLeading,
        }
    }
}

/// What the index is to know of a POST or PUT.
pub(super) fn write_end(stored: &Result<Version, Failure>) -> WriteEnd {
    match stored {
        Ok(version) => WriteEnd::Stored(version.uid.clone(), version.revision),
        Err(failure) if failure.may_have_acted() => WriteEnd::Unknown,
        Err(_) => WriteEnd::Refused,
    }
}
