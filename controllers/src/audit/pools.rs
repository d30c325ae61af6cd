//! Pools that were stored while no webhook could refuse them.

use svcplane_webhook::ledger::{Kind, Ledger};

use super::report::{Finding, Subject};

/// Those whose spec cannot be used.
pub fn findings(ledger: &Ledger) -> Vec<Finding> {
    let kinds = [
        (Kind::ClusterIpPools, "ClusterIPPool"),
        (Kind::NodePortPools, "NodePortPool"),
    ];
    let of = |(kind, name): (Kind, &'static str)| {
        ledger.unreadable(kind).map(move |pool| {
            let message = format!("it gives and keeps nothing, as if it were not there: {}", pool.faults);
            Finding::error(
                "InvalidPool",
                Subject::Pool(name, pool.name.to_string()),
                "spec",
                message,
            )
        })
    };
    kinds.into_iter().flat_map(of).collect()
}
