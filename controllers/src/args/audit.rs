//! Flags of `svcplane audit`.

use clap::Args;
use svcplane_runtime::client::ClusterArgs;

use super::{Form, RangeArgs, SizeArgs};

/// See the module.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Form of the report
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,

    /// The values that there are.
    #[command(flatten)]
    pub ranges: RangeArgs,

    /// How much goes into one slice.
    #[command(flatten)]
    pub sizes: SizeArgs,
}
