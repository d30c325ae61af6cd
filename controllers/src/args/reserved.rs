//! Flags of controllers that later versions bring. They are accepted and checked now, so that a manifest written for kube-controller-manager
//! keeps working; each one that is given is named in a warning.

use std::str::FromStr;

use clap::Args;
use ipnet::IpNet;

/// Accepted and checked, without effect in this version.
#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted and checked, without effect in this version")]
pub struct ReservedArgs {
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
            service_cluster_ip_range,
            service_node_port_range,
        } = self;
        let flags = [
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
