//! Are the permissions that the README lists enough, and is a missing one named?

use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::{eventually, eventually_gone};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::endpoints;
use svcplane_tests::process::Exit;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Refusal, Times};
use svcplane_tests::rights::nothing_was_forbidden;
use svcplane_tests::svcplane::{Builder, Svcplane};

const README: &str = include_str!("../../README.md");
const SOON: Duration = Duration::from_secs(30);
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// A verb on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Right {
    group: String,
    resource: String,
    verb: String,
    everywhere: bool,
    /// svcplane does its work without it, if less well.
    optional: bool,
    active_only: bool,
}

/// The README's table.
fn rights() -> Vec<Right> {
    let section = README
        .split("### Permissions")
        .nth(1)
        .expect("a section on permissions");
    let rows = section.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let mut rights = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, group, resource, verbs, place, _] = cells[..] else {
            panic!("{row}")
        };
        let group = if group == "(core)" { "" } else { group };
        let mut rest = "";
        for clause in verbs.split(';') {
            rest = if rest.is_empty() { "first" } else { "further" };
            let words = clause.split(|it: char| !it.is_ascii_lowercase());
            for verb in words.filter(|word| VERBS.contains(word)) {
                let active_only = clause.contains("in active mode");
                let optional = rest == "further" && !active_only || group == "events.k8s.io" || resource.contains('/');
                rights.push(Right {
                    group: group.into(),
                    resource: resource.into(),
                    verb: verb.into(),
                    everywhere: place == "cluster",
                    optional,
                    active_only,
                });
            }
        }
    }
    rights
}

fn rules<'a>(rights: impl Iterator<Item = &'a Right>) -> Value {
    let rule = |it: &Right| json!({ "apiGroups": [it.group], "resources": [it.resource], "verbs": [it.verb] });
    rights.map(rule).collect()
}

/// Gives the user exactly these rights, and waits until the apiserver knows.
async fn grant(cluster: &Cluster, namespace: &TestNamespace, user: &str, rights: &[Right]) {
    async fn create<K>(api: Api<K>, object: Value)
    where
        K: kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let client = cluster.client();
    let metadata = json!({ "name": format!("svcplane-{user}") });
    let subject = json!([{ "kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io" }]);
    let role = |kind: &str| json!({ "kind": kind, "name": metadata["name"], "apiGroup": "rbac.authorization.k8s.io" });
    let binding = |kind: &str| json!({ "metadata": metadata, "subjects": subject, "roleRef": role(kind) });
    let everywhere = json!({ "metadata": metadata, "rules": rules(rights.iter().filter(|it| it.everywhere)) });
    let there = json!({ "metadata": metadata, "rules": rules(rights.iter().filter(|it| !it.everywhere)) });
    create::<ClusterRole>(Api::all(client.clone()), everywhere).await;
    create::<ClusterRoleBinding>(Api::all(client), binding("ClusterRole")).await;
    create::<Role>(namespace.api(), there).await;
    create::<RoleBinding>(namespace.api(), binding("Role")).await;
    let started = Instant::now();
    for everywhere in [true, false] {
        let Some(right) = rights.iter().rfind(|it| it.everywhere == everywhere) else {
            continue;
        };
        while !may(cluster, namespace, user, right).await {
            assert!(started.elapsed() < SOON, "{user}: {right:?} is not granted");
        }
    }
}

async fn may(cluster: &Cluster, namespace: &TestNamespace, user: &str, right: &Right) -> bool {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client_for(user));
    let attributes = ResourceAttributes {
        group: Some(right.group.clone()),
        resource: Some(right.resource.clone()),
        verb: Some(right.verb.clone()),
        namespace: (!right.everywhere).then(|| namespace.name().into()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        non_resource_attributes: None,
    };
    let review = SelfSubjectAccessReview {
        spec,
        ..SelfSubjectAccessReview::default()
    };
    let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
    answer.status.unwrap().allowed
}

/// A user for each right that is missing.
fn lacking(number: usize) -> String {
    format!("lacks-{number}")
}

async fn start_cluster() -> Cluster {
    let mut builder = Cluster::builder(Flavour::DualStack).user("observer", &[]);
    for number in 0..rights().len() {
        builder = builder.user(&lacking(number), &[]);
    }
    builder.start().await.unwrap()
}

#[tokio::test]
async fn the_rights_in_the_readme_are_enough_and_each_is_asked_for() {
    let cluster = start_cluster().await;
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    everything_is_permitted(&cluster, &namespace).await;
    observing_needs_no_write(&cluster, &namespace).await;
    a_missing_one_is_named(&cluster, &namespace).await;
}

/// The whole life of an Endpoints object, Events, a leftover, a hand-over: no answer is 403.
async fn everything_is_permitted(cluster: &Cluster, namespace: &TestNamespace) {
    grant(cluster, namespace, "svcplane", &rights()).await;
    let leftover = endpoints("leftover").label("endpoints.kubernetes.io/managed-by", "endpoint-controller");
    leftover
        .subset(&["10.201.0.9"], &[("", 80)])
        .create(namespace)
        .await
        .unwrap();
    let proxies = [0, 1].map(|_| FaultProxy::start(cluster).unwrap());
    let start = async |of: usize, configure: fn(Builder) -> Builder| {
        let kubeconfig = proxies[of].kubeconfig(cluster.token("svcplane")).unwrap();
        let builder = Svcplane::builder()
            .lease_in(namespace)
            .kubeconfig(kubeconfig)
            .replica(of);
        configure(builder).start().await.unwrap()
    };
    let leader = start(0, |builder| builder).await;
    leader.wait_leader().await.unwrap();
    let standby = start(1, |builder| builder.arg("--watch-list=off")).await;
    standby.wait_ready().await.unwrap();
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    namespace
        .endpoints_become("web", &["10.201.0.1 -> :8080/TCP"])
        .await
        .unwrap();
    let refused = Action::Refuse(Refusal::internal_error());
    proxies[0].rule(Match::writes("endpoints"), refused, Times::First(3));
    namespace.set_pod_ready("web-0", false).await.unwrap();
    namespace
        .endpoints_become("web", &["!10.201.0.1 -> :8080/TCP"])
        .await
        .unwrap();
    let named = |events: &[k8s_openapi::api::core::v1::Event]| {
        let reasons: Vec<_> = events.iter().filter_map(|it| it.reason.clone()).collect();
        if reasons.contains(&"FailedToUpdateEndpoint".into()) {
            Ok(())
        } else {
            Err(format!("{reasons:?}"))
        }
    };
    eventually("an Event", SOON, &namespace.events(), "", named)
        .await
        .unwrap();
    namespace
        .services()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    for name in ["web", "leftover"] {
        eventually_gone(name, SOON, &namespace.endpoints(), name).await.unwrap();
    }
    assert_eq!(leader.terminate().await.unwrap(), Exit::Code(0));
    standby.wait_idle().await.unwrap();
    let lease = namespace.leases();
    let note = Patch::Merge(json!({ "metadata": { "labels": { "note": "x" } } }));
    lease
        .patch(svcplane_tests::lease::NAME, &PatchParams::default(), &note)
        .await
        .unwrap();
    assert_eq!(standby.terminate().await.unwrap(), Exit::Code(0));
    nothing_was_forbidden(cluster, &proxies).await;
}

async fn observing_needs_no_write(cluster: &Cluster, namespace: &TestNamespace) {
    let rights: Vec<_> = rights()
        .into_iter()
        .filter(|it| !it.active_only && !it.optional)
        .collect();
    grant(cluster, namespace, "observer", &rights).await;
    let kubeconfig = cluster.kubeconfig_for("observer");
    let builder = Svcplane::builder().observe().lease_in(namespace).kubeconfig(kubeconfig);
    let observer = builder.start().await.unwrap();
    observer.wait_idle().await.unwrap();
}

async fn a_missing_one_is_named(cluster: &Cluster, namespace: &TestNamespace) {
    let all = rights();
    let check = async |number: usize| {
        let (user, missing) = (lacking(number), &all[number]);
        let rest: Vec<_> = all.iter().filter(|it| *it != missing).cloned().collect();
        grant(cluster, namespace, &user, &rest).await;
        let builder = Svcplane::builder()
            .lease_in(namespace)
            .kubeconfig(cluster.kubeconfig_for(&user));
        let refused = builder.arg("--log-level=error").replica(number).spawn().unwrap();
        assert_eq!(refused.wait_exit(SOON).await.unwrap(), Exit::Code(1), "{missing:?}");
        let text = refused.stderr();
        let Right { verb, resource, .. } = missing;
        let named = format!("missing permission: {verb} on {resource}");
        assert!(
            text.lines().count() == 1 && text.contains(&named),
            "{missing:?}: {text}"
        );
        let others = text.matches(" on ").count() - 1;
        assert_eq!(others, 0, "{missing:?}: {text}");
        if !missing.everywhere {
            assert!(text.contains(namespace.name()), "{missing:?}: {text}");
        }
    };
    let needed = (0..all.len()).filter(|&number| !all[number].optional);
    let checks: Vec<_> = needed.map(check).collect();
    assert!(checks.len() >= 13, "{all:?}");
    join_all(checks).await;
}
