//! The controllers that this process runs; those that kube-controller-manager has too under its names.

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
    /// Tells of faults of stored ClusterIPs and nodePorts.
    Repair,
    /// Addresses of Services of type LoadBalancer.
    LoadBalancers,
}

impl Controller {
    /// All there are.
    pub const ALL: [Self; 5] = [
        Self::Endpoints,
        Self::Slices,
        Self::Mirroring,
        Self::Repair,
        Self::LoadBalancers,
    ];

    /// Those that keep Endpoints and EndpointSlices; kube-controller-manager has them under the same names.
    pub const OF_ENDPOINTS: [Self; 3] = [Self::Endpoints, Self::Slices, Self::Mirroring];

    /// It is one of [`Self::OF_ENDPOINTS`].
    pub fn is_of_endpoints(self) -> bool {
        Self::OF_ENDPOINTS.contains(&self)
    }

    /// As `--controllers` and the metrics' label `controller` have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints-controller",
            Self::Slices => "endpointslice-controller",
            Self::Mirroring => "endpointslice-mirroring-controller",
            Self::Repair => "repair-controller",
            Self::LoadBalancers => "loadbalancer-controller",
        }
    }

    /// What it keeps or looks after, as the metrics' label `kind` has it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Endpoints => "Endpoints",
            Self::Slices => "EndpointSlice",
            Self::Mirroring => "MirroredEndpointSlice",
            Self::Repair => "Allocation",
            Self::LoadBalancers => "LoadBalancerStatus",
        }
    }

    /// `reportingController` of its Events: upstream's name where it has one, which people filter by.
    pub fn event_source(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoint-controller",
            Self::Slices => "endpoint-slice-controller",
            Self::Mirroring => "endpoint-slice-mirroring-controller",
            Self::Repair | Self::LoadBalancers => self.as_str(),
        }
    }
}

impl From<Manager> for Controller {
    fn from(manager: Manager) -> Self {
        match manager {
            Manager::Selector | Manager::Own => Self::Slices,
            Manager::Mirroring => Self::Mirroring,
        }
    }
}
