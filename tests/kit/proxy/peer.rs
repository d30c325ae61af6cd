//! The real kube-controller-manager through the proxy: it sends no credentials over plain HTTP and speaks protobuf.

use k8s_openapi::api::core::v1::Endpoints;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{pod, service};
use svcplane_tests::process::Program;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Outcome, Refusal, Times, WatchEnd};

use super::rig::SOON;

#[tokio::test]
async fn kube_controller_manager_is_counted_and_hurt_like_any_client() {
    // A cluster of its own: at its start the controller deletes Endpoints that have no Service.
    let cluster = Cluster::start(Flavour::Ipv4Only).await.unwrap();
    let proxy = FaultProxy::start(&cluster).unwrap();
    let logs = tempfile::tempdir().unwrap();
    let program = &cluster.tools().kube_controller_manager;
    let manager = Program::new("kube-controller-manager", program, logs.path().join("log"))
        .args([
            "--controllers=endpoints-controller",
            "--leader-elect=false",
            "--secure-port=0",
        ])
        .arg(format!(
            "--kubeconfig={}",
            proxy.kubeconfig(cluster.admin_token()).unwrap().display()
        ))
        .start()
        .unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let conflict = Action::Refuse(Refusal::conflict());
    let rule = proxy.rule(
        Match::writes("endpoints").method(http::Method::PUT),
        conflict,
        Times::First(1),
    );
    service("web")
        .selector("app", "web")
        .port("http", 80, 8080)
        .create(&namespace)
        .await
        .unwrap();
    pod("a")
        .label("app", "web")
        .ip("10.9.0.1")
        .create(&namespace)
        .await
        .unwrap();
    let endpoints = namespace.endpoints();
    let has = |count: usize| {
        move |e: Option<&Endpoints>| {
            let subsets = e.and_then(|e| e.subsets.as_ref()).into_iter().flatten();
            let found: usize = subsets.map(|s| s.addresses.as_ref().map_or(0, Vec::len)).sum();
            if found == count {
                Ok(())
            } else {
                Err(format!("{found} addresses"))
            }
        }
    };
    let first = eventually_one("the first Pod", SOON, &endpoints, "web", has(1)).await;
    first.unwrap_or_else(|error| panic!("{error:#}{}", manager.log_tail()));

    // After an ERROR event it lists again, and goes on.
    let pods = Match::watches("pods");
    assert_eq!(proxy.end_watches(&pods, &WatchEnd::Error(Refusal::expired())), 1);
    pod("b")
        .label("app", "web")
        .ip("10.9.0.2")
        .create(&namespace)
        .await
        .unwrap();
    eventually_one("the second Pod", SOON, &endpoints, "web", has(2))
        .await
        .unwrap();

    let puts = Match::writes("endpoints")
        .namespace(namespace.name())
        .method(http::Method::PUT);
    rule.wait_hits(1, SOON).await.unwrap();
    assert!(
        proxy.requests(&puts).len() > proxy.writes_of(&puts).len(),
        "the refused one did not reach the server"
    );
    // The watch above may be ahead of the reply.
    let all = Match::writes("endpoints");
    let answered = proxy.wait_requests(&all, SOON, |r| r.iter().all(|r| r.outcome != Outcome::Pending));
    answered.await.unwrap();
    let writes = proxy.writes("endpoints", namespace.name());
    for write in &writes {
        // It sometimes creates twice, from a cache that does not hold its first write yet; the server refuses that.
        let accepted = write.status.is_some_and(|code| code < 300);
        assert_eq!(
            (write.request.name.as_str(), write.changed),
            ("web", Some(accepted)),
            "{write:?}"
        );
    }
    assert_eq!(writes[0].request.method, http::Method::POST);
    assert!(
        writes[0].request.user_agent.starts_with("kube-controller-manager"),
        "{writes:?}"
    );
}
