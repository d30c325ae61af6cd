//! The first steps of the process: the log, and an apiserver that answers.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use http::Uri;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::{Client, Config};
use prometheus::Registry;
use svcplane_runtime::api::{Failure, Repeated, call, in_seconds, lasting};
use svcplane_runtime::client::{self, ClusterArgs, RESPONSE_HEAD_LIMIT};
use svcplane_runtime::metrics::{BuildInfo, Metrics};
use svcplane_runtime::watch::WatchBackoff;
use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;
use crate::permissions::{self, Right};

/// What this program is.
pub fn build_info() -> BuildInfo {
    BuildInfo {
        version: env!("CARGO_PKG_VERSION"),
        kubernetes: "1.37",
    }
}

/// Starts the log on standard error. The error names the flag.
pub fn log(format: LogFormat, level: &str) -> Result<(), String> {
    if let Some(wrong) = level.split(',').find(|directive| !is_directive(directive)) {
        return Err(format!(
            "--log-level={level}: {wrong:?} is no level; use off, error, warn, info, debug or trace, for one module as in svcplane::endpoints=debug"
        ));
    }
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

/// `LEVEL` or `MODULE=LEVEL`. A filter takes a bare word that is no level for a module, and then logs nothing else: a slip of the pen
/// must not silence the process.
fn is_directive(text: &str) -> bool {
    let (_, level) = text.rsplit_once('=').unwrap_or(("", text));
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    levels.iter().any(|known| level.trim().eq_ignore_ascii_case(known))
}

/// A client for a command that reads the cluster. The error is one line.
pub async fn connect(cluster: &ClusterArgs, program: &str) -> Result<Client, String> {
    let config = client::load_config(cluster).await;
    connect_to(config.map_err(|error| error.to_string())?, program)
}

/// The same for a server of this configuration.
pub fn connect_to(config: Config, program: &str) -> Result<Client, String> {
    let metrics = Metrics::new(Registry::new(), build_info()).map_err(|error| error.to_string())?;
    let user_agent = format!("{program}/{}", env!("CARGO_PKG_VERSION"));
    client::connect(config, &user_agent, &metrics).map_err(|error| error.to_string())
}

/// Waits until the apiserver answers and returns its minor version, if it says one. A server that stays away costs a line a minute, not a
/// line a try. The error is one line that names the `rights` that this account does not have.
pub async fn admit(client: &Client, server: &Uri, rights: &[Right]) -> Result<Option<u32>, String> {
    let mut backoff = WatchBackoff::default();
    let mut trouble = Repeated::default();
    loop {
        let failure = match ask(client, rights).await {
            Ok((version, missing)) if missing.is_empty() => {
                let waited = trouble.over(Instant::now()).map(in_seconds);
                tracing::info!(%server, version = version.git_version, waited, "connected");
                return Ok(minor(&version.minor));
            }
            Ok((_, missing)) => return Err(permissions::complaint(&missing)),
            Err(failure) => failure,
        };
        if let Some(time) = trouble.news(&failure, Instant::now()) {
            let text = complaint(server, &failure, time);
            if time.is_zero() {
                tracing::error!("{text}");
            } else {
                tracing::warn!("{text}");
            }
        }
        tokio::time::sleep(backoff.next(Instant::now(), rand::random())).await;
    }
}

/// What to say of an apiserver that has not let us in for this time.
fn complaint(server: &Uri, failure: &Failure, time: Duration) -> String {
    let now = lasting(time);
    if matches!(failure, Failure::Refused(401, _)) {
        format!("the apiserver at {server} does not accept these credentials (401){now}; trying again")
    } else {
        format!("cannot reach the apiserver at {server}{now}: {failure}; trying again")
    }
}

async fn ask(client: &Client, rights: &[Right]) -> Result<(Info, Vec<Right>), Failure> {
    let version = call(RESPONSE_HEAD_LIMIT, client.apiserver_version()).await?;
    let missing = permissions::missing(client, rights).await?;
    Ok((version, missing))
}

/// `37`, or `37+` as some providers write it.
pub fn minor(text: &str) -> Option<u32> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused_instead_of_silencing_all() {
        for wrong in ["warning", "inf", "", "info,svcplane", "info,x=lala"] {
            let error = log(LogFormat::Text, wrong).unwrap_err();
            assert!(error.starts_with("--log-level=") && error.contains("debug"), "{error}");
        }
        for right in ["info", "WARN", "svcplane::endpoints=debug"] {
            assert!(is_directive(right), "{right}");
        }
    }

    #[test]
    fn an_apiserver_that_stays_away_is_told_with_the_time_and_the_reason() {
        let server = Uri::from_static("https://10.0.0.1:6443/");
        let refused = Failure::Unreachable("connection refused".into());
        let unauthorized = Failure::Refused(401, "Unauthorized".into());
        let table = [
            (
                &refused,
                0,
                "cannot reach the apiserver at https://10.0.0.1:6443/: no answer from the apiserver: connection refused; trying again",
            ),
            (
                &refused,
                78,
                "cannot reach the apiserver at https://10.0.0.1:6443/, for 1m18s now: no answer from the apiserver: connection refused; trying again",
            ),
            (
                &unauthorized,
                0,
                "the apiserver at https://10.0.0.1:6443/ does not accept these credentials (401); trying again",
            ),
            (
                &unauthorized,
                78,
                "the apiserver at https://10.0.0.1:6443/ does not accept these credentials (401), for 1m18s now; trying again",
            ),
        ];
        for (failure, seconds, text) in table {
            assert_eq!(complaint(&server, failure, Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn minor_versions_are_read_with_and_without_a_plus() {
        for (text, want) in [("37", Some(37)), ("34+", Some(34)), ("", None), ("x", None)] {
            assert_eq!(minor(text), want, "{text}");
        }
    }
}
