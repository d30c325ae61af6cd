//! Which controllers are compared.

use super::observer::Kind;

/// The same ones on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Controllers {
    /// The Endpoints controller alone.
    Endpoints,
    /// Endpoints and EndpointSlices.
    Both,
}

impl Controllers {
    /// As kube-controller-manager names them.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Endpoints => &["endpoints-controller"],
            Self::Both => &["endpoints-controller", "endpointslice-controller"],
        }
    }

    /// What they keep.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Endpoints => &[Kind::Endpoints],
            Self::Both => &[Kind::Endpoints, Kind::Slices],
        }
    }

    /// Whether slices are kept.
    pub fn slices(self) -> bool {
        self.kinds().contains(&Kind::Slices)
    }
}
