//! The last part of the demo: svcplane says why a Service has the endpoints that it has.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;
use tokio::time::timeout;

use super::screen::{Screen, line};
use crate::binaries;
use crate::cluster::Cluster;

/// It reads a few objects.
const DEADLINE: Duration = Duration::from_secs(30);

/// Shows `svcplane explain --check` of this Service.
///
/// # Errors
/// It does not end, or what is stored is not what should be.
pub async fn show(screen: &Screen, cluster: &Cluster, service: &str) -> anyhow::Result<()> {
    screen.part(format_args!("svcplane explain {service}"));
    let mut explain = Command::new(binaries::svcplane()?);
    explain
        .args(["explain", service, "--check"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("NO_COLOR", "1")
        .kill_on_drop(true);
    let output = timeout(DEADLINE, explain.output())
        .await
        .context("svcplane explain hangs")??;
    let told = String::from_utf8_lossy(&output.stdout);
    for told in told.lines() {
        if told.is_empty() {
            line("");
        } else {
            screen.detail(told);
        }
    }
    if !output.status.success() {
        bail!(
            "expected state did not come: svcplane explain {service} --check ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
