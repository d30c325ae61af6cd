//! What a pool is to a Service.

use std::fmt;
use std::sync::Arc;

/// What a pool is to a Service that needs a value of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolVerdict {
    /// It serves the Service, in the order of the list.
    Offered,
    /// It would, and none of its values is free. Said of LoadBalancerPools only: whether the others are full shows when one chooses.
    Full,
    /// Its selector does not select the Service, or its classes do not have the Service's.
    NotSelected,
    /// `autoAssign: false`, and the Service does not ask for it.
    NotAutomatic,
    /// The Service asks for another pool.
    NotRequested,
    /// An enforced pool selects the Service, this one: it may have no value of another.
    Overruled(Arc<str>),
    /// `mode: Drain`: it gives nothing new.
    Draining,
    /// `mode: Disabled`: as if it were not there.
    Disabled,
    /// It has no value of this kind, such as an IPv4 pool for IPv6, or older pools have them all.
    NoValues,
}

/// Behind the name of the pool.
impl fmt::Display for PoolVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offered => f.write_str("has a free value"),
            Self::Full => f.write_str("has no free value"),
            Self::NotSelected => f.write_str("does not select this Service"),
            Self::NotAutomatic => f.write_str("gives values on request only"),
            Self::NotRequested => f.write_str("is not the pool that is asked for"),
            Self::Overruled(by) => write!(f, "is overruled by pool {by:?}, which is enforced for this Service"),
            Self::Draining => f.write_str("is being drained"),
            Self::Disabled => f.write_str("is disabled"),
            Self::NoValues => f.write_str("has no such values"),
        }
    }
}
