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
    fn goes_with(&self, other: &Self) -> bool {
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
    fn namespaces_agree(&self, other: &Self) -> bool {
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

/// The Services at one address. Each pair of them passes the rule.
#[derive(Clone, Debug, Default)]
pub struct Group {
    key: Option<Arc<str>>,
    members: BTreeMap<ServiceKey, Share>,
    ports: BTreeMap<Port, ServiceKey>,
    /// Few are different, however many members there are.
    terms: BTreeMap<Arc<Terms>, BTreeSet<ServiceKey>>,
}

impl Group {
    /// Nobody.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// This Service is in it.
    pub fn has(&self, service: &ServiceKey) -> bool {
        self.members.contains_key(service)
    }

    /// Who is in it, by name.
    pub fn members(&self) -> impl Iterator<Item = &ServiceKey> {
        self.members.keys()
    }

    /// The key that they share under.
    pub fn key(&self) -> Option<&Arc<str>> {
        self.key.as_ref()
    }

    /// One of them, for words.
    pub fn holder(&self) -> Option<&ServiceKey> {
        self.members.keys().next()
    }

    /// Somebody of a namespace that would have to agree and does not, if there is one.
    pub fn denies(&self, terms: &Terms) -> Option<&ServiceKey> {
        let mut others = self.terms.iter().filter(|(other, _)| !other.namespaces_agree(terms));
        others.next().and_then(|(_, services)| services.first())
    }

    /// Whether a Service that is not in it may join.
    ///
    /// # Errors
    /// Why not, with the holder.
    pub fn admits(&self, share: &Share) -> Result<(), Refusal> {
        let Some(holder) = self.holder().cloned() else {
            return Ok(());
        };
        let (Some(ours), Some(key)) = (&self.key, &share.key) else {
            let it_shares = self.key.is_some();
            return Err(Refusal::NotShared { holder, it_shares });
        };
        if ours != key {
            let key = Arc::clone(ours);
            return Err(Refusal::Key { holder, key });
        }
        if let Some(holder) = self.denies(&share.terms) {
            let holder = holder.clone();
            return Err(Refusal::Namespace { holder });
        }
        let policy = self
            .terms
            .iter()
            .find(|(other, _)| !other.traffic.goes_with(&share.terms.traffic));
        if let Some((_, services)) = policy {
            let holder = services.first().cloned().unwrap_or(holder);
            return Err(Refusal::Policy { holder });
        }
        let taken = share.ports.iter().find_map(|port| Some((port, self.ports.get(port)?)));
        match taken {
            Some((&(transport, port), holder)) => Err(Refusal::Port {
                holder: holder.clone(),
                port,
                transport,
            }),
            None => Ok(()),
        }
    }

    /// Adds a Service that [`admits`](Self::admits) has passed.
    pub fn add(&mut self, service: &ServiceKey, share: Share) {
        self.remove(service);
        self.key.clone_from(&share.key);
        for port in &*share.ports {
            self.ports.insert(*port, service.clone());
        }
        let alike = self.terms.entry(Arc::clone(&share.terms)).or_default();
        alike.insert(service.clone());
        self.members.insert(service.clone(), share);
    }

    /// Takes a Service out, if it is in.
    pub fn remove(&mut self, service: &ServiceKey) {
        let Some(share) = self.members.remove(service) else {
            return;
        };
        for port in &*share.ports {
            self.ports.remove(port);
        }
        if let Some(alike) = self.terms.get_mut(&share.terms) {
            alike.remove(service);
            if alike.is_empty() {
                self.terms.remove(&share.terms);
            }
        }
        if self.members.is_empty() {
            self.key = None;
        }
    }
}
