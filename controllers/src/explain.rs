//! `svcplane explain`: why a Service has the endpoints that it has, what those who read them make of it, and what is amiss.
//!
//! ```text
//! gather ─texts─► objects ─► kept, pods, misses, dns, env, proxy ─► report ─► text, or JSON
//! ```
//!
//! All but `gather` and the wiring in here is pure. What should be stored is said by the functions that the reconcilers call.

mod dns;
mod env;
#[cfg(test)]
mod fixtures;
mod gather;
mod kept;
mod kept_endpoints;
mod kept_slices;
mod misses;
mod named_ports;
mod objects;
mod pod_words;
mod pods;
mod proxy;
mod report;
mod style;
mod text;
mod values;
mod visible;
mod writers;

use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use svcplane_runtime::client;
use svcplane_webhook::ledger::{Ledger, Ranges};

use crate::args::{ExplainArgs, Form};
use crate::books::{feed, list};
use crate::loadbalancer::{self, Choice};
use crate::pools;
use crate::start;
pub(crate) use kept::{Compared, Kept, State};
pub(crate) use objects::Objects;
use report::Report;
pub use style::Style;
use svcplane_allocators::service::ServiceKey;
use values::Allocation;

/// What the controllers' flags say about sizes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `--max-endpoints-per-slice`.
    pub max_endpoints_per_slice: usize,
    /// `--mirroring-max-endpoints-per-subset`.
    pub mirroring_max_endpoints_per_subset: usize,
}

/// What there is to print.
#[derive(Debug)]
pub struct Explained {
    /// All of it.
    pub text: String,
    /// What is stored is known, and is what it should be.
    pub in_order: bool,
}

/// Reads the cluster and explains one Service. The error is one line.
pub async fn explain(args: &ExplainArgs, style: Style) -> Result<Explained, String> {
    let config = client::load_config(&args.cluster).await;
    let config = config.map_err(|error| error.to_string())?;
    let server = client::server(&config).clone();
    let client = start::connect_to(config, "svcplane-explain")?;
    let key = args.key(client.default_namespace())?;
    let texts = Box::pin(gather::gather(&client, &key)).await;
    let objects = Objects::read(texts.map_err(|trouble| trouble.told(&server))?)?;
    let limits = args.sizes.limits();
    let mut report = Report::of(&objects, &limits, &args.cluster_domain);
    if report.service.kind == "LoadBalancer" {
        let desk = loadbalancer::read(&client, args.load_balancer.scope()).await?;
        let name = ServiceKey::new(key.namespace.clone(), key.name.clone());
        report.load_balancer_address = desk.and_then(|desk| Choice::of(&desk, &name));
    }
    match Box::pin(ledger(&client, args.ranges.ranges())).await {
        Ok(ledger) => report.allocation = Some(Allocation::of(&ledger, &objects.full)),
        Err(why) => report.unread.push(format!("where its values are from: {why}")),
    }
    let text = match args.output {
        Form::Text => text::render(&report, style),
        Form::Json => serde_json::to_string_pretty(&report).map_err(|error| error.to_string())? + "\n",
    };
    Ok(Explained {
        text,
        in_order: report.in_order,
    })
}

/// All that holds values, and the pools with what they select by. The error is one line.
async fn ledger(client: &Client, ranges: Ranges) -> Result<Ledger, String> {
    let (ledger, namespaces) = tokio::join!(Box::pin(pools::gather(client, ranges)), list::<Namespace>(client));
    let (mut ledger, namespaces) = match (ledger, namespaces) {
        (Ok(ledger), Ok(namespaces)) => (ledger, namespaces),
        (Err(one), Err(other)) => return Err(format!("{one}; {other}")),
        (Err(why), _) | (_, Err(why)) => return Err(why),
    };
    feed(&mut ledger, namespaces.as_deref(), Instant::now());
    Ok(ledger)
}
