//! Why a part of what a Service needs is missing, and the words for it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::ask::{Ask, Outcome};
use super::reason::Reason;
use super::share::Refusal;
use super::wait::Wait;
use crate::cluster_ips::IpFamily;

/// Why a part of what a Service needs is missing.
#[derive(Debug)]
pub(super) struct Trouble {
    pub reason: Reason,
    pub message: String,
    pub waits: BTreeSet<Wait>,
}

impl Trouble {
    pub fn lasting(reason: Reason, message: String) -> Self {
        Self {
            reason,
            message,
            waits: BTreeSet::new(),
        }
    }

    /// Until something happens at the address.
    pub fn at(address: IpAddr, reason: Reason, message: String) -> Self {
        Self {
            reason,
            message,
            waits: BTreeSet::from([Wait::Address(address)]),
        }
    }
}

/// What is told of the troubles of a Service that needs both families at once. Which of them lacks a free address changes with every other
/// Service, and is not worth a write each time.
pub(super) fn of_both(troubles: Vec<Trouble>) -> Vec<Trouble> {
    let (full, mut others): (Vec<_>, Vec<_>) = troubles
        .into_iter()
        .partition(|trouble| trouble.reason == Reason::Exhausted);
    if others.is_empty() && !full.is_empty() {
        let message = "both families are needed at once, and the pools that serve this Service have no free address of one of them";
        others.push(Trouble::lasting(Reason::Exhausted, message.into()));
    }
    others
}

/// An address is asked for that is of no family of the Service.
pub(super) fn foreign(ask: &Ask) -> Option<String> {
    let pin = ask
        .addresses
        .iter()
        .find(|pin| !ask.families.contains(&IpFamily::of(**pin)))?;
    let family = family_name(IpFamily::of(*pin));
    Some(format!("{pin} is asked for, and spec.ipFamilies has no {family}"))
}

pub(super) fn refused(address: IpAddr, refusal: &Refusal) -> Trouble {
    let reason = match refusal {
        Refusal::NotShared { .. } => Reason::AddressTaken,
        Refusal::Key { .. } => Reason::SharingKeyMismatch,
        Refusal::Port { .. } => Reason::SharingPortConflict,
        Refusal::Policy { .. } => Reason::SharingPolicyMismatch,
        Refusal::Namespace { .. } => Reason::SharingNamespaceDenied,
    };
    Trouble::at(address, reason, format!("{address} is taken: {refusal}"))
}

pub(super) fn stand_still(addresses: Vec<IpAddr>, reason: Reason, why: &str) -> Outcome {
    Outcome {
        message: with_held(&addresses, why),
        addresses,
        satisfied: false,
        reason,
    }
}

pub(super) fn with_held(addresses: &[IpAddr], why: &str) -> String {
    if addresses.is_empty() {
        return why.to_owned();
    }
    format!("has {}; {why}", listed(addresses))
}

pub(super) fn listed(addresses: &[IpAddr]) -> String {
    joined(addresses.iter(), ", ")
}

/// A list for people. A Service may ask for thousands of addresses: a status must not grow with them.
pub(super) fn joined(items: impl ExactSizeIterator<Item: ToString>, separator: &str) -> String {
    const MOST: usize = 16;
    let more = items.len().saturating_sub(MOST);
    let mut words: Vec<String> = items.take(MOST).map(|item| item.to_string()).collect();
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(separator)
}

/// As the API writes it.
pub(super) fn family_name(family: IpFamily) -> &'static str {
    match family {
        IpFamily::IPv4 => "IPv4",
        IpFamily::IPv6 => "IPv6",
    }
}
