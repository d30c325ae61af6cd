//! Flags that say which values the apiserver has, under kube-apiserver's names.

use clap::Args;
use ipnet::IpNet;
use svcplane_allocators::address::parse_cidr;
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_allocators::node_ports::PortRange;
use svcplane_webhook::ledger::Ranges;

/// See the module.
#[derive(Clone, Debug, Args)]
pub struct RangeArgs {
    /// Ranges of ClusterIPs, as the apiserver has them; needed for servers before 1.33, which have no ServiceCIDR objects
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',', value_parser = cidr)]
    pub service_cluster_ip_range: Vec<IpNet>,

    /// Range of nodePorts, as the apiserver has it
    #[arg(long, value_name = "FIRST-LAST", default_value_t = PortRange::default())]
    pub service_node_port_range: PortRange,
}

impl RangeArgs {
    /// Checks what clap cannot check alone. The error names the flag and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let families: Vec<IpFamily> = self
            .service_cluster_ip_range
            .iter()
            .map(|cidr| IpFamily::of(cidr.addr()))
            .collect();
        match families.as_slice() {
            [] | [_] => Ok(()),
            [first, second] if first != second => Ok(()),
            _ => Err(
                "--service-cluster-ip-range takes one CIDR, or one of each family, such as 10.96.0.0/16,fd00:10::/112"
                    .to_owned(),
            ),
        }
    }

    /// What they say.
    pub fn ranges(&self) -> Ranges {
        Ranges {
            cidrs: self.service_cluster_ip_range.clone(),
            ports: self.service_node_port_range,
        }
    }
}

fn cidr(text: &str) -> Result<IpNet, String> {
    parse_cidr(text).map_err(|error| format!("{text:?} {error}, such as 10.96.0.0/16"))
}
