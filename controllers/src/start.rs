//! The first steps of the process: the log, and an apiserver that answers.

use std::io::IsTerminal;
use std::time::Instant;

use http::Uri;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use svcplane_runtime::api::{Failure, call};
use svcplane_runtime::client::RESPONSE_HEAD_LIMIT;
use svcplane_runtime::watch::WatchBackoff;
use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;
use crate::permissions::{self, Right};

/// Starts the log on standard error. The error names the flag.
pub fn log(format: LogFormat, level: &str) -> Result<(), String> {
    // kube writes a line for every connection that fails, and the whole body of an answer that it cannot read, each time. We say it once.
    let filter = EnvFilter::try_new(format!("kube_client::client=off,{level}"))
        .map_err(|error| format!("--log-level={level}: {error}; use error, warn, info, debug or trace"))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| error.to_string())
}

/// Waits until the apiserver answers and returns its minor version, if it says one. A server that stays away costs a line, not a line a
/// try. The error is one line that names the `rights` that this account does not have.
pub async fn admit(client: &Client, server: &Uri, rights: &[Right]) -> Result<Option<u32>, String> {
    let mut backoff = WatchBackoff::default();
    let mut last: Option<Failure> = None;
    loop {
        let failure = match ask(client, rights).await {
            Ok((version, missing)) if missing.is_empty() => {
                tracing::info!(%server, version = version.git_version, "connected");
                return Ok(minor(&version.minor));
            }
            Ok((_, missing)) => return Err(permissions::complaint(&missing)),
            Err(failure) => failure,
        };
        if last.as_ref() != Some(&failure) {
            tracing::error!("cannot reach the apiserver at {server}: {failure}; trying again");
            last = Some(failure);
        }
        tokio::time::sleep(backoff.next(Instant::now(), rand::random())).await;
    }
}

async fn ask(client: &Client, rights: &[Right]) -> Result<(Info, Vec<Right>), Failure> {
    let version = call(RESPONSE_HEAD_LIMIT, client.apiserver_version()).await?;
    let missing = permissions::missing(client, rights).await?;
    Ok((version, missing))
}

/// `37`, or `37+` as some providers write it.
fn minor(text: &str) -> Option<u32> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_versions_are_read_with_and_without_a_plus() {
        for (text, want) in [("37", Some(37)), ("34+", Some(34)), ("", None), ("x", None)] {
            assert_eq!(minor(text), want, "{text}");
        }
    }
}
