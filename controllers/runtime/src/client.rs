//! How we connect: a kubeconfig or the Pod's service account, with kube's silent retries off and a limit on every answer.

use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Uri};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;
use tower::util::MapRequestLayer;

use crate::metrics::Metrics;

mod config;
mod observe;

pub use config::{ClusterArgs, ConfigError, load_config};

/// The head of every answer must come within this time; the stream of a watch may go on for as long as it likes. Without it a server
/// that accepts and never answers would hold a watch for good.
pub const RESPONSE_HEAD_LIMIT: Duration = Duration::from_secs(10);

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
    let builder = ClientBuilder::try_from(config).map_err(|error| ConfigError::unusable(&error))?;
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
}
