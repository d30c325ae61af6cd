//! Who asks for a value and who holds one.

use std::fmt;
use std::sync::Arc;

use crate::node_ports::Protocol;

/// `namespace/name` of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ServiceKey {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A stored Service that lists a value. Sorts by age, the oldest first: of two owners the older keeps the value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `metadata.creationTimestamp`, seconds since 1970.
    pub created: i64,
    /// Its name.
    pub service: ServiceKey,
}

/// What the name of a Service is, as far as admission shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Requester {
    /// `metadata.name`.
    Named(Arc<str>),
    /// `metadata.generateName`: the name is made after admission.
    Generated {
        /// `metadata.generateName`.
        prefix: Arc<str>,
        /// `userInfo.username` of the request.
        user: Arc<str>,
    },
}

/// Which field the value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `spec.clusterIPs`; the family is the book's.
    ClusterIp,
    /// `spec.ports[].nodePort`.
    NodePort {
        /// `port` of the entry.
        port: u16,
        /// `protocol` of the entry; of the first one where several share the number.
        protocol: Protocol,
    },
}

/// One choice: there is no identity of a request that outlives its rounds, so this is as near as it gets.
///
/// A named Service that asks again gets the same value again (another round of admission, a retry after a conflict or a refusal). One
/// with a generated name does not: two Services that are made at the same time from one `generateName` by one user look alike, and one
/// value for both would be a refusal that nobody caused; a further round of its own finds the value in the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChoiceKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// The name, or what is known of it.
    pub requester: Requester,
    /// What the value is for.
    pub field: Field,
}

impl ChoiceKey {
    /// The Service, if its name is known.
    pub fn service(&self) -> Option<ServiceKey> {
        match &self.requester {
            Requester::Named(name) => Some(ServiceKey::new(Arc::clone(&self.namespace), Arc::clone(name))),
            Requester::Generated { .. } => None,
        }
    }

    /// This may be the Service that asked.
    pub fn may_be(&self, service: &ServiceKey) -> bool {
        self.namespace == service.namespace
            && match &self.requester {
                Requester::Named(name) => *name == service.name,
                Requester::Generated { prefix, .. } => service.name.starts_with(&**prefix),
            }
    }
}
