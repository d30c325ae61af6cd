//! How we connect: a kubeconfig or the Pod's service account, with kube's silent retries off and a limit on every answer.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Uri};
use kube::client::{Body, ClientBuilder};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;
use tower::util::MapRequestLayer;

use crate::api::innermost;
use crate::metrics::Metrics;

mod observe;

/// The head of every answer must come within this time; the stream of a watch may go on for as long as it likes. Without it a server
/// that accepts and never answers would hold a watch for good.
pub const RESPONSE_HEAD_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no usable configuration, in one line that says what to set.
#[derive(Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Reads `--kubeconfig`, else `$KUBECONFIG`, else the Pod's service account.
pub async fn load_config(kubeconfig: Option<&Path>) -> Result<Config, ConfigError> {
    let from_env = std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
    let (path, origin) = match (kubeconfig, from_env) {
        (Some(path), _) => (path.to_path_buf(), "--kubeconfig"),
        (None, Some(path)) => (PathBuf::from(path), "KUBECONFIG"),
        (None, None) => return Config::incluster().map_err(|error| nowhere(&error)),
    };
    let bad =
        |error: KubeconfigError| ConfigError(format!("{origin}: cannot use {}: {}", path.display(), cause(&error)));
    let parsed = Kubeconfig::read_from(&path).map_err(bad)?;
    Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .map_err(bad)
}

/// There is no kubeconfig, and this is no Pod.
fn nowhere(error: &InClusterError) -> ConfigError {
    let why = match error {
        // It does not say which.
        InClusterError::ReadEnvironmentVariable(_) => {
            "KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set".into()
        }
        other => words(other),
    };
    ConfigError(format!(
        "no cluster to connect to; tried --kubeconfig (not given), KUBECONFIG (not set), in-cluster ({why})"
    ))
}

/// What is wrong with a kubeconfig whose path has been named.
fn cause(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        other => words(other),
    }
}

/// The innermost words. kube puts paths into two pairs of quotes.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    innermost(error).replace("'\"", "'").replace("\"'", "'")
}

/// The apiserver's address, for messages.
pub fn server(config: &Config) -> &Uri {
    &config.cluster_url
}

/// A client with its own connections. `user_agent` is what the apiserver's audit log shows.
pub fn connect(mut config: Config, user_agent: &str, metrics: &Metrics) -> Result<Client, ConfigError> {
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    if let Ok(value) = HeaderValue::from_str(user_agent) {
        config.headers.push((USER_AGENT, value));
    }
    let builder = ClientBuilder::try_from(config)
        .map_err(|error| ConfigError(format!("the cluster configuration cannot be used: {}", words(&error))))?;
    let client = builder
        .with_layer(&TimeoutLayer::new(RESPONSE_HEAD_LIMIT))
        .with_layer(&MapRequestLayer::new(ask_for_the_newest_state))
        .with_layer(&observe::ObserveLayer::new(metrics.rest_client()))
        .build();
    Ok(client)
}

/// kube starts a streaming list at `resourceVersion=0`, which any apiserver may answer from a cache that lags: an object that we have
/// seen could seem gone. An empty version asks for a state as new as the moment of the request (KEP-3157).
fn ask_for_the_newest_state(mut request: Request<Body>) -> Request<Body> {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    if !query.contains("sendInitialEvents=true") {
        return request;
    }
    let query: Vec<&str> = query
        .split('&')
        .map(|pair| {
            if pair == "resourceVersion=0" {
                "resourceVersion="
            } else {
                pair
            }
        })
        .collect();
    let path = format!("{}?{}", uri.path(), query.join("&"));
    let mut parts = uri.clone().into_parts();
    if let Ok(path) = path.parse() {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(uri: &str) -> String {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        ask_for_the_newest_state(request).uri().to_string()
    }

    #[test]
    fn only_a_streaming_list_is_asked_to_be_newest() {
        assert_eq!(
            rewritten(
                "/api/v1/pods?&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"
            ),
            "/api/v1/pods?&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion="
        );
        for other in [
            "/api/v1/pods?watch=true&resourceVersion=0",
            "/version",
            "/api/v1/pods?limit=500",
        ] {
            assert_eq!(rewritten(other), other);
        }
    }

    #[tokio::test]
    async fn a_bad_kubeconfig_is_named_with_its_flag() {
        let dir = std::env::temp_dir().join(format!("svcplane-kubeconfig-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let missing = dir.join("missing");
        let error = load_config(Some(&missing)).await.unwrap_err().to_string();
        let why = "No such file or directory (os error 2)";
        assert_eq!(error, format!("--kubeconfig: cannot use {}: {why}", missing.display()));
        let broken = dir.join("broken");
        std::fs::write(&broken, "clusters: 7").unwrap();
        let error = load_config(Some(&broken)).await.unwrap_err().to_string();
        assert!(
            error.starts_with("--kubeconfig: cannot use ") && !error.contains('\n'),
            "{error}"
        );
        let authority = dir.join("authority");
        let text = serde_json::json!({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1", "certificate-authority": missing}}],
            "users": [{"name": "u", "user": {}}]});
        std::fs::write(&authority, text.to_string()).unwrap();
        let error = load_config(Some(&authority)).await.unwrap_err().to_string();
        let unread = format!("failed to read file '{}': {why}", missing.display());
        assert_eq!(
            error,
            format!("--kubeconfig: cannot use {}: {unread}", authority.display())
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn outside_a_cluster_all_that_was_tried_is_named() {
        let tried = "no cluster to connect to; tried --kubeconfig (not given), KUBECONFIG (not set), in-cluster";
        let unset = InClusterError::ReadEnvironmentVariable(std::env::VarError::NotPresent);
        let want = format!("{tried} (KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set)");
        assert_eq!(nowhere(&unset).to_string(), want);
        let unread = InClusterError::ReadCertificateBundle(std::io::ErrorKind::NotFound.into());
        let want = format!("{tried} (failed to read a certificate bundle: entity not found)");
        assert_eq!(nowhere(&unread).to_string(), want);
    }
}
