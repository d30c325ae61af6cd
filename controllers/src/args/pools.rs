//! Flags of `svcplane pools`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use svcplane_runtime::args::socket_address;
use svcplane_runtime::client::ClusterArgs;

use super::explain::webhook_service;
use super::{Form, LoadBalancerArgs, RangeArgs};
use crate::model::ObjectKey;
use crate::pools::Wanted;

/// See the module.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PoolsArgs {
    /// Instead of the report.
    #[command(subcommand)]
    pub action: Option<PoolsAction>,

    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Who has this ClusterIP, nodePort or LoadBalancer address
    #[arg(long, value_name = "VALUE")]
    pub who: Option<Wanted>,

    /// Form of the report
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,

    /// As the controllers have them.
    #[command(flatten)]
    pub load_balancer: LoadBalancerArgs,

    /// Also ask the replicas what each keeps in memory: values that were chosen and not stored yet, and values that rest
    #[arg(long, conflicts_with = "who")]
    pub from_replicas: bool,

    /// The Service of the webhook, whose EndpointSlices name the replicas; their addresses must be within reach, as in a Pod
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = webhook_service, requires = "from_replicas")]
    pub webhook_service: Option<ObjectKey>,

    /// Admin port of the replicas that --webhook-service names
    #[arg(long, value_name = "PORT", default_value_t = 9808)]
    pub admin_port: u16,

    /// Admin addresses of the replicas, where no Service names them, as behind kubectl port-forward
    #[arg(long, value_name = "IP:PORT,…", value_delimiter = ',', value_parser = socket_address, requires = "from_replicas")]
    pub replicas: Vec<SocketAddr>,

    /// The values that there are.
    #[command(flatten)]
    pub ranges: RangeArgs,
}

/// What other products are told, and what is taken from them.
#[derive(Debug, Subcommand)]
pub enum PoolsAction {
    /// Print another product's objects, by which it announces the addresses that svcplane gives, for kubectl apply -f -
    Export(ExportArgs),
    /// Print LoadBalancerPools made from another product's pools, for kubectl apply -f -
    Import(ImportArgs),
}

/// Flags of `svcplane pools export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// To whom
    #[arg(value_enum)]
    pub to: Announcer,

    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// The namespace of MetalLB, which reads no other
    #[arg(long, value_name = "NAMESPACE", default_value = "metallb-system")]
    pub namespace: String,

    /// How the addresses are announced: by an L2Advertisement, a BGPAdvertisement, or by what there is
    #[arg(long, value_enum, default_value_t = Advertise::L2)]
    pub advertise: Advertise,

    /// As the controllers have them.
    #[command(flatten)]
    pub load_balancer: LoadBalancerArgs,
}

/// Who announces addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Announcer {
    /// MetalLB's speaker.
    Metallb,
}

/// How MetalLB's speaker announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Advertise {
    /// ARP and NDP.
    L2,
    /// BGP.
    Bgp,
    /// As other objects say.
    None,
}

/// Flags of `svcplane pools import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Whose pools
    #[arg(value_enum)]
    pub from: Giver,

    /// Files with their objects, as YAML or JSON; - for standard input; none: they are read from the cluster
    #[arg(value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub files: Vec<PathBuf>,

    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Who has given addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Giver {
    /// MetalLB's IPAddressPools.
    Metallb,
    /// Cilium's CiliumLoadBalancerIPPools.
    Cilium,
}

impl PoolsArgs {
    /// Checks what clap cannot check alone. The error names the flag and what would be right.
    pub fn check(&self) -> Result<(), String> {
        if self.from_replicas && self.webhook_service.is_none() && self.replicas.is_empty() {
            return Err(
                "--from-replicas needs to know where they are: --webhook-service=NAMESPACE/NAME or --replicas=IP:PORT,…"
                    .to_owned(),
            );
        }
        self.ranges.check()
    }
}
