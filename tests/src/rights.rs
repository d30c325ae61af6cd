//! Has an account had all the rights that it used?

use crate::cluster::Cluster;
use crate::proxy::{FaultProxy, Match};

/// Nothing that went through these proxies was forbidden, nor anything else on the cluster, by the apiserver's own count.
///
/// # Panics
/// Something was, or a proxy has hardly been used.
pub async fn nothing_was_forbidden(cluster: &Cluster, proxies: &[FaultProxy]) {
    for proxy in proxies {
        assert!(proxy.requests(&Match::any()).len() > 10);
        assert_eq!(proxy.forbidden().len(), 0, "{:?}", proxy.forbidden());
    }
    let metrics = cluster.metrics().await.unwrap();
    assert!(metrics.sum("apiserver_request_total", &[("code", "403")]).abs() < 0.1);
}
