//! Flags of `svcplane pools`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use svcplane_runtime::args::socket_address;

use super::explain::whole_service;
use super::{Form, LoadBalancerArgs, RangeArgs};
use crate::model::ObjectKey;
use crate::pools::Wanted;

/// See the module.
#[derive(Debug, Args)]
pub struct PoolsArgs {
    /// Path of a kubeconfig; without it $KUBECONFIG, else the Pod's service account
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

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
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = whole_service, requires = "from_replicas")]
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
