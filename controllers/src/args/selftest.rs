//! Flags of `svcplane selftest`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use svcplane_runtime::args::{dns_label, duration};
use svcplane_runtime::client::ClusterArgs;

/// See the module.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Which one.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Where the Service is created [default: the Pod's own namespace, else the context's]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = dns_label)]
    pub namespace: Option<String>,

    /// Which Pods it selects: labels of at least one Pod there that is ready
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',', value_parser = label, required = true)]
    pub selector: Vec<(String, String)>,

    /// How long its EndpointSlices may take
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration, allow_hyphen_values = true)]
    pub timeout: Duration,
}

impl SelftestArgs {
    /// The selector of the Service.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.selector.iter().cloned().collect()
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("write it as KEY=VALUE, such as app.kubernetes.io/name=svcplane")?;
    Ok((key.to_owned(), value.to_owned()))
}
