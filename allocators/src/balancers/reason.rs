//! Why a Service has its addresses, or has none.

/// Reasons of the condition `svcplane.io/AddressesAssigned`, a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It has all that it is to have.
    Assigned,
    /// It has some of it.
    PartiallyAssigned,
    /// It has all of it, and some of that belongs to no pool for it any more.
    Retained,
    /// There is no pool, or none has the address.
    NoPool,
    /// There are pools, and none of them is for this Service.
    PoolNotEligible,
    /// It asks for a pool that there is not.
    PoolUnknown,
    /// No address is free.
    Exhausted,
    /// It asks for an address that another one has.
    AddressTaken,
    /// The address is shared under another key.
    SharingKeyMismatch,
    /// Another one has the same port at the address.
    SharingPortConflict,
    /// Their traffic policies or selectors do not go together.
    SharingPolicyMismatch,
    /// The namespaces have not agreed to share.
    SharingNamespaceDenied,
    /// There is no address of a family that it needs, or it asks for an address of a family that it does not have.
    FamilyUnavailable,
    /// What it asks for cannot be understood.
    InvalidRequest,
    /// It asks for two things that exclude each other.
    RequestConflict,
    /// Somebody else writes its status.
    Contended,
    /// It is being deleted, so it gets nothing more.
    Paused,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Assigned,
        Self::PartiallyAssigned,
        Self::Retained,
        Self::NoPool,
        Self::PoolNotEligible,
        Self::PoolUnknown,
        Self::Exhausted,
        Self::AddressTaken,
        Self::SharingKeyMismatch,
        Self::SharingPortConflict,
        Self::SharingPolicyMismatch,
        Self::SharingNamespaceDenied,
        Self::FamilyUnavailable,
        Self::InvalidRequest,
        Self::RequestConflict,
        Self::Contended,
        Self::Paused,
    ];

    /// As the condition, Events and metrics have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assigned => "Assigned",
            Self::PartiallyAssigned => "PartiallyAssigned",
            Self::Retained => "Retained",
            Self::NoPool => "NoPool",
            Self::PoolNotEligible => "PoolNotEligible",
            Self::PoolUnknown => "PoolUnknown",
            Self::Exhausted => "Exhausted",
            Self::AddressTaken => "AddressTaken",
            Self::SharingKeyMismatch => "SharingKeyMismatch",
            Self::SharingPortConflict => "SharingPortConflict",
            Self::SharingPolicyMismatch => "SharingPolicyMismatch",
            Self::SharingNamespaceDenied => "SharingNamespaceDenied",
            Self::FamilyUnavailable => "FamilyUnavailable",
            Self::InvalidRequest => "InvalidRequest",
            Self::RequestConflict => "RequestConflict",
            Self::Contended => "Contended",
            Self::Paused => "Paused",
        }
    }

    /// The Service has what it needs.
    pub fn is_content(self) -> bool {
        matches!(self, Self::Assigned | Self::Retained)
    }
}

/// A request that cannot be granted whatever is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// [`Reason::InvalidRequest`] or [`Reason::RequestConflict`].
    pub reason: Reason,
    /// What is wrong, naming the annotation or field.
    pub message: String,
}
