//! Flags of `svcplane preflight`.

use clap::Args;
use svcplane_runtime::client::ClusterArgs;

use super::{Form, LeaseArgs};

/// See the module.
#[derive(Debug, Args)]
pub struct PreflightArgs {
    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Form of the report
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,

    /// Where svcplane is, or will be.
    #[command(flatten)]
    pub lease: LeaseArgs,
}
