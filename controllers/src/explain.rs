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
mod listing;
mod misses;
mod named_ports;
mod objects;
mod pod_words;
mod pods;
mod proxy;
mod report;
mod style;
mod text;
mod visible;

use crate::args::{ExplainArgs, Form};
use crate::loadbalancer::{self, Choice};
use crate::start;
use objects::Objects;
use report::Report;
pub use style::Style;
use svcplane_allocators::service::ServiceKey;

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
    let client = start::connect(args.kubeconfig.as_deref(), "svcplane-explain").await?;
    let key = args.key(client.default_namespace())?;
    let texts = Box::pin(gather::gather(&client, &key)).await;
    let objects = Objects::read(texts.map_err(|trouble| trouble.to_string())?)?;
    let limits = Limits {
        max_endpoints_per_slice: args.sizes.max_endpoints_per_slice.into(),
        mirroring_max_endpoints_per_subset: args.sizes.mirroring_max_endpoints_per_subset.into(),
    };
    let mut report = Report::of(&objects, &limits, &args.cluster_domain);
    if report.service.kind == "LoadBalancer" {
        let desk = loadbalancer::read(&client, args.load_balancer.scope()).await?;
        let name = ServiceKey::new(key.namespace, key.name);
        report.load_balancer_address = desk.and_then(|desk| Choice::of(&desk, &name));
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
