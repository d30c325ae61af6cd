//! Several Services at one address: who may join whom.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use crate::node_ports::Protocol;
use crate::service::ServiceKey;

/// A port that a Service occupies at its address.
pub type Port = (Protocol, u16);

/// Which namespaces a Service shares with beside its own. Both sides must agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consent {
    /// These, by name.
    Named(BTreeSet<String>),
    /// All.
    All,
}

impl Default for Consent {
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

impl Consent {
    /// It covers this namespace.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(namespace),
        }
    }

    /// It names this namespace.
    pub fn names(&self, namespace: &str) -> bool {
        matches!(self, Self::Named(names) if names.contains(namespace))
    }
}

/// `spec.externalTrafficPolicy`, with what decides whether two Services send the traffic of an address to the same nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    /// `Cluster`: any node takes it.
    Cluster,
    /// `Local`: only nodes with Pods take it.
    Local {
        /// `spec.selector`; empty if it has none.
        selector: BTreeMap<String, String>,
        /// It may share with others whose Pods are elsewhere.
        permits_others: bool,
    },
}

impl Traffic {
    /// The two may share an address.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cluster, Self::Cluster) => true,
            (
                Self::Local {
                    selector: one,
                    permits_others: left,
                },
                Self::Local {
                    selector: two,
                    permits_others: right,
                },
            ) => !one.is_empty() && !two.is_empty() && (one == two || (*left && *right)),
            _ => false,
        }
    }
}

/// All of what a Service brings to an address but its ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// With which others it shares.
    pub consent: Consent,
    /// Where its traffic goes.
    pub traffic: Traffic,
}

impl Terms {
    pub(super) fn namespaces_agree(&self, other: &Self) -> bool {
        self.namespace == other.namespace
            || (self.consent.covers(&other.namespace) && other.consent.covers(&self.namespace))
    }
}

/// What a Service brings to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Under which key it shares; `None` = it does not.
    pub key: Option<Arc<str>>,
    /// The ports that it occupies.
    pub ports: Arc<[Port]>,
    /// The rest.
    pub terms: Arc<Terms>,
}

/// Why a Service may not join those at an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// One of the two does not share.
    #[error("{holder} has it and {}", if *it_shares { "this Service has no sharing key" } else { "does not share it" })]
    NotShared {
        /// Who has it.
        holder: ServiceKey,
        /// It is the other side that does not share.
        it_shares: bool,
    },
    /// Both share, under different keys.
    #[error("{holder} shares it under the key {key:?}")]
    Key {
        /// Who has it.
        holder: ServiceKey,
        /// Under which key.
        key: Arc<str>,
    },
    /// Both have this port.
    #[error("{holder} has port {port}/{} there", protocol(*transport))]
    Port {
        /// Who has it.
        holder: ServiceKey,
        /// The number.
        port: u16,
        /// The protocol.
        transport: Protocol,
    },
    /// They send traffic to different nodes.
    #[error(
        "{holder} has it with another externalTrafficPolicy, or both are Local and their selectors are not the same; with Local on both sides, \
         svcplane.io/sharing-different-pods: \"true\" on both allows different selectors"
    )]
    Policy {
        /// Who has it.
        holder: ServiceKey,
    },
    /// Their namespaces do not both agree.
    #[error("{holder} has it, and the two namespaces do not name each other in svcplane.io/sharing-namespaces")]
    Namespace {
        /// Who has it.
        holder: ServiceKey,
    },
}

/// As the API writes it.
pub fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}
