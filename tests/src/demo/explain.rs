//! The last part of the demo: svcplane says why a Service has the endpoints that it has.

use std::time::Duration;

use anyhow::bail;

use super::screen::{Screen, line};
use crate::cluster::Cluster;
use crate::ran;

/// It reads a few objects.
const DEADLINE: Duration = Duration::from_secs(30);

/// Shows `svcplane explain --check` of this Service.
///
/// # Errors
/// It does not end, or what is stored is not what should be.
pub async fn show(screen: &Screen, cluster: &Cluster, service: &str) -> anyhow::Result<()> {
    screen.part(format_args!("svcplane explain {service}"));
    let arguments = ["explain", service, "--check"];
    let ran = ran::svcplane(&cluster.kubeconfig(), &arguments, DEADLINE).await?;
    for told in ran.stdout.lines() {
        if told.is_empty() {
            line("");
        } else {
            screen.detail(told);
        }
    }
    if let Err(error) = ran.succeeded() {
        bail!("expected state did not come: svcplane explain {service} --check: {error}");
    }
    Ok(())
}
