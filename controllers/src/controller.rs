//! The controllers that this process runs, each under the name that kube-controller-manager uses.

use crate::model::Manager;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Controller {
    /// Endpoints of Services with a selector.
    Endpoints,
    /// EndpointSlices of Services with a selector.
    Slices,
    /// EndpointSlices of hand-made Endpoints.
    Mirroring,
}

impl Controller {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Endpoints, Self::Slices, Self::Mirroring];

    /// As `--controllers` and the metrics' label `controller` have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints-controller",
            Self::Slices => "endpointslice-controller",
            Self::Mirroring => "endpointslice-mirroring-controller",
        }
    }

    /// What it keeps, as the metrics' label `kind` has it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Endpoints => "Endpoints",
            Self::Slices => "EndpointSlice",
            Self::Mirroring => "MirroredEndpointSlice",
        }
    }

    /// `reportingController` of its Events: upstream's name, which people filter by.
    pub fn event_source(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoint-controller",
            Self::Slices => "endpoint-slice-controller",
            Self::Mirroring => "endpoint-slice-mirroring-controller",
        }
    }
}

impl From<Manager> for Controller {
    fn from(manager: Manager) -> Self {
        match manager {
            Manager::Selector => Self::Slices,
            Manager::Mirroring => Self::Mirroring,
        }
    }
}
