//! Flags of `svcplane audit`.

use std::path::PathBuf;

use clap::Args;

use super::{Form, RangeArgs, SizeArgs};

/// See the module.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Path of a kubeconfig; without it $KUBECONFIG, else the Pod's service account
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

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
