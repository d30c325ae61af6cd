//! Flags of `svcplane handback`.

use std::time::Duration;

use clap::Args;
use svcplane_runtime::args::{dns_label, dns_subdomain, duration};
use svcplane_runtime::client::ClusterArgs;
use svcplane_runtime::leader::LeaseName;

use super::Controllers;
use super::explain::canary;
use crate::model::ObjectKey;

/// See the module.
#[derive(Debug, Args)]
pub struct HandbackArgs {
    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Which Lease.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// The canary of svcplane run: waits until kube-controller-manager has made something for it
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = canary)]
    pub canary: Option<ObjectKey>,

    /// As svcplane run has it: only kube-controller-manager's own of these are waited for
    #[arg(long, value_name = "NAME,…", default_value = "*", allow_hyphen_values = true)]
    pub controllers: Controllers,

    /// How long to wait for each step
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration, allow_hyphen_values = true)]
    pub timeout: Duration,

    /// Take it back: svcplane writes again, after its canary, if it has one, has passed
    #[arg(long, conflicts_with = "canary")]
    pub cancel: bool,

    /// Delete the slices of --identity=own, too: kube-controller-manager has its own, and would leave these for ever
    #[arg(long, conflicts_with_all = ["canary", "cancel"])]
    pub delete_own_slices: bool,

    /// Change nothing, and fail if it has not been done: what is asked before svcplane is removed
    #[arg(long, conflicts_with_all = ["canary", "cancel", "delete_own_slices"])]
    pub check: bool,
}

/// The Lease of svcplane run, for commands.
#[derive(Debug, Args)]
pub struct LeaseArgs {
    /// The name of the Lease
    #[arg(long, value_name = "NAME", default_value = "svcplane", value_parser = dns_subdomain)]
    pub leader_elect_resource_name: String,

    /// The namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "svcplane", value_parser = dns_label)]
    pub leader_elect_resource_namespace: String,
}

impl LeaseArgs {
    /// Which it is.
    pub fn lease(&self) -> LeaseName {
        LeaseName {
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone(),
        }
    }
}
