//! Flags of controllers that later versions bring. They are accepted and checked now, so that a manifest written for kube-controller-manager
//! keeps working; each one that is given is named in a warning.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use svcplane_runtime::args::duration;

/// Accepted and checked, without effect in this version.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted and checked, without effect in this version")]
pub struct ReservedArgs {
    /// Services whose EndpointSlices are worked on at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=50))]
    pub concurrent_service_endpoint_syncs: Option<u16>,
    /// Endpoints in one EndpointSlice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_endpoints_per_slice: Option<u16>,
    /// How long a change of a Pod may wait for others before slices are written
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub endpointslice_updates_batch_period: Option<Duration>,
    /// Endpoints that are mirrored at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=50))]
    pub mirroring_concurrent_service_endpoint_syncs: Option<u16>,
    /// Addresses mirrored of one subset
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub mirroring_max_endpoints_per_subset: Option<u16>,
    /// How long a change of Endpoints may wait for others before they are mirrored
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub mirroring_endpointslice_updates_batch_period: Option<Duration>,
    /// Ranges of ClusterIPs, as the apiserver has them
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',', value_parser = cidr)]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Range of nodePorts, as the apiserver has it
    #[arg(long, value_name = "FIRST-LAST")]
    pub service_node_port_range: Option<PortRange>,
}

impl ReservedArgs {
    /// The flags that were given.
    pub fn given(&self) -> Vec<&'static str> {
        let Self {
            concurrent_service_endpoint_syncs,
            max_endpoints_per_slice,
            endpointslice_updates_batch_period,
            mirroring_concurrent_service_endpoint_syncs,
            mirroring_max_endpoints_per_subset,
            mirroring_endpointslice_updates_batch_period,
            service_cluster_ip_range,
            service_node_port_range,
        } = self;
        let flags = [
            (
                "--concurrent-service-endpoint-syncs",
                concurrent_service_endpoint_syncs.is_some(),
            ),
            ("--max-endpoints-per-slice", max_endpoints_per_slice.is_some()),
            (
                "--endpointslice-updates-batch-period",
                endpointslice_updates_batch_period.is_some(),
            ),
            (
                "--mirroring-concurrent-service-endpoint-syncs",
                mirroring_concurrent_service_endpoint_syncs.is_some(),
            ),
            (
                "--mirroring-max-endpoints-per-subset",
                mirroring_max_endpoints_per_subset.is_some(),
            ),
            (
                "--mirroring-endpointslice-updates-batch-period",
                mirroring_endpointslice_updates_batch_period.is_some(),
            ),
            ("--service-cluster-ip-range", !service_cluster_ip_range.is_empty()),
            ("--service-node-port-range", service_node_port_range.is_some()),
        ];
        flags
            .into_iter()
            .filter(|(_, given)| *given)
            .map(|(flag, _)| flag)
            .collect()
    }
}

fn cidr(text: &str) -> Result<IpNet, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a CIDR, such as 10.96.0.0/16"))
}

/// `FIRST-LAST`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = text
            .split_once('-')
            .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match range {
            Some((first, last)) if first > 0 && first <= last => Ok(Self { first, last }),
            _ => Err("write it as FIRST-LAST with the smaller port first, such as 30000-32767".to_owned()),
        }
    }
}
