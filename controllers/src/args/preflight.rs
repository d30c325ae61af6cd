//! Flags of `svcplane preflight`.

use std::path::PathBuf;

use clap::Args;

use super::{Form, LeaseArgs};

/// See the module.
#[derive(Debug, Args)]
pub struct PreflightArgs {
    /// Path of a kubeconfig; without it the files that $KUBECONFIG lists, else the Pod's service account, else ~/.kube/config
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Form of the report
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,

    /// Where svcplane is, or will be.
    #[command(flatten)]
    pub lease: LeaseArgs,
}
