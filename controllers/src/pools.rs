//! `svcplane pools`: how full ranges and pools are, and who has a value. Of stored objects alone, unless replicas are asked what they keep
//! in memory.

mod export;
mod gather;
pub mod import;
mod manifest;
mod replicas;
mod report;
mod text;
mod who;

pub(crate) use self::gather::gather;
pub use self::who::Wanted;

use self::report::Report;
use crate::args::{Form, PoolsAction, PoolsArgs};
use crate::explain::Style;
use crate::loadbalancer;
use crate::start;

/// Reads the cluster and reports. The error is one line.
pub async fn pools(args: &PoolsArgs, style: Style) -> Result<String, String> {
    match &args.action {
        Some(PoolsAction::Export(args)) => return export::export(args).await,
        Some(PoolsAction::Import(args)) => return import::import(args).await,
        None => {}
    }
    let client = start::connect(&args.cluster, "svcplane-pools").await?;
    let ledger = Box::pin(gather(&client, args.ranges.ranges())).await?;
    let replicas = if args.from_replicas {
        Some(replicas::ask(&client, args).await?)
    } else {
        None
    };
    let desk = loadbalancer::read(&client, args.load_balancer.scope()).await?;
    let desk = desk.as_ref();
    let rendered = match (args.output, args.who) {
        (Form::Text, None) => Ok(text::report(&Report::of(&ledger, desk, replicas), style)),
        (Form::Json, None) => serde_json::to_string_pretty(&Report::of(&ledger, desk, replicas)),
        (Form::Text, Some(value)) => Ok(text::who(&who::find(&ledger, desk, value))),
        (Form::Json, Some(value)) => serde_json::to_string_pretty(&who::find(&ledger, desk, value)),
    };
    let mut rendered = rendered.map_err(|error| error.to_string())?;
    if !rendered.ends_with('\n') {
        rendered.push('\n');
    }
    Ok(rendered)
}
