//! Flags of `svcplane pools`.

use std::path::PathBuf;

use clap::Args;

use super::{Form, LoadBalancerArgs, RangeArgs};
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

    /// The values that there are.
    #[command(flatten)]
    pub ranges: RangeArgs,
}
