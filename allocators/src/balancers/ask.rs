//! What a Service asks for, and what comes of it.

use std::net::IpAddr;
use std::sync::Arc;

use super::reason::{Reason, Wrong};
use super::share::Share;
use crate::cluster_ips::IpFamily;
use crate::few::Few;
use crate::service::Owner;

/// `spec.ipFamilyPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// One family.
    #[default]
    SingleStack,
    /// What there is of both.
    Prefer,
    /// Both, or nothing.
    Require,
}

/// What a Service asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// `spec.ipFamilies`, as the apiserver has settled them.
    pub families: Vec<IpFamily>,
    /// How many of them are needed.
    pub policy: Policy,
    /// Exactly these addresses. A family without one is chosen for.
    pub addresses: Vec<IpAddr>,
    /// Only from these pools.
    pub pools: Vec<Arc<str>>,
}

/// What is known of a Service of ours, but for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name and age.
    pub owner: Owner,
    /// It is being deleted.
    pub is_leaving: bool,
    /// What it asks for.
    pub ask: Result<Ask, Wrong>,
    /// What it brings to an address.
    pub share: Share,
    /// The pools whose selectors and classes are for it.
    pub admitted: Few<Arc<str>>,
}

impl Facts {
    pub(super) fn is_admitted(&self, pool: &str) -> bool {
        self.admitted.contains(pool)
    }
}

/// What a Service is to show, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its addresses, those of the first family first.
    pub addresses: Vec<IpAddr>,
    /// It has what it needs.
    pub satisfied: bool,
    /// Why.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
}
