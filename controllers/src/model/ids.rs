//! Names, versions and times.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// `namespace/name` of a namespaced object. A Service, its Endpoints and the work item of both share one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `metadata.uid`. The apiserver hands out UUIDs; anything else is kept as text, so that nothing is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Uid {
    /// A UUID in its canonical lower-case form, 16 bytes instead of 36.
    Uuid(uuid::Uuid),
    /// Any other text, including the empty one.
    Text(Box<str>),
}

impl Uid {
    /// Reads a uid. `to_string` gives back exactly the text that came in.
    pub fn parse(text: &str) -> Self {
        match uuid::Uuid::parse_str(text) {
            Ok(uuid) if uuid.as_hyphenated().to_string() == text => Self::Uuid(uuid),
            _ => Self::Text(text.into()),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.as_hyphenated().fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// `metadata.resourceVersion` as a number. Versions of one kind are comparable (KEP-5504). 0 = not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl Revision {
    /// Reads a resourceVersion; one that is not a number counts as not known.
    pub fn parse(text: &str) -> Self {
        Self(text.parse().unwrap_or(0))
    }
}

/// Seconds since 1970 in UTC: API timestamps carry no fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

/// Labels or annotations, in key order.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// A transport protocol of a Service port, container port or endpoint port. An absent one is TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// `TCP`, also where the field is absent or empty.
    #[default]
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
    /// A protocol that this version does not know, kept as it stands.
    Other(Box<str>),
}

impl Protocol {
    /// Reads the API's text.
    pub fn parse(text: &str) -> Self {
        match text {
            "" | "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            "SCTP" => Self::Sctp,
            other => Self::Other(other.into()),
        }
    }

    /// The API's text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Other(text) => text,
        }
    }
}
