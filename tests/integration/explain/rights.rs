//! What is said of a Service that does not exist, to one who may not read everything, and where svcplane does not run.

use std::path::Path;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use svcplane_tests::cluster::{self, Cluster, Flavour};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{endpoints, service};
use svcplane_tests::ran::Ran;
use svcplane_tests::slices;

use super::run::{SOON, run, section, web_with_a_pod};

#[tokio::test]
async fn missing() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    // No other test has a Service of this name.
    let key = format!("{}/forgotten", namespace.name());
    let none = format!("error: there is no Service forgotten in namespace {}", namespace.name());
    for args in [&[key.as_str()][..], &[&key, "-o", "json"], &[&key, "--check"]] {
        let ran = run(&cluster::shared().kubeconfig(), args).await;
        assert_eq!(
            (ran.code, &*ran.stdout, ran.stderr),
            (1, "", format!("{none}\n")),
            "{args:?}"
        );
    }
    let elsewhere = TestNamespace::create(cluster::shared()).await.unwrap();
    let stray = service("forgotten").port("http", 80, 8080);
    stray.create(&elsewhere).await.unwrap();
    let there = format!("; there is a Service forgotten in {}\n", elsewhere.name());
    let nowhere = "error: there is no namespace of-nobody".to_owned();
    for (key, told) in [(&*key, none), ("of-nobody/forgotten", nowhere)] {
        let ran = run(&cluster::shared().kubeconfig(), &[key]).await;
        assert_eq!((ran.code, ran.stderr), (1, format!("{told}{there}")));
    }
    let ran = run(&cluster::shared().kubeconfig(), &["shop/"]).await;
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("NAMESPACE/NAME") && ran.stderr.lines().count() == 1,
        "{}",
        ran.stderr
    );
}

/// Lets a user do this on these resources, in one namespace or everywhere.
async fn grant(cluster: &Cluster, user: &str, namespace: Option<&TestNamespace>, rules: Value) {
    let metadata = json!({"name": format!("explain-{user}")});
    let subjects = json!([{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]);
    let binding = |kind: &str| {
        let role = json!({"kind": kind, "name": metadata["name"], "apiGroup": "rbac.authorization.k8s.io"});
        json!({"metadata": metadata, "subjects": subjects, "roleRef": role})
    };
    let role = json!({"metadata": metadata, "rules": rules});
    let params = PostParams::default();
    fn parsed<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }
    match namespace {
        Some(namespace) => {
            namespace.api::<Role>().create(&params, &parsed(role)).await.unwrap();
            namespace
                .api::<RoleBinding>()
                .create(&params, &parsed(binding("Role")))
                .await
                .unwrap();
        }
        None => {
            let roles: Api<ClusterRole> = Api::all(cluster.client());
            roles.create(&params, &parsed(role)).await.unwrap();
            let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
            bindings.create(&params, &parsed(binding("ClusterRole"))).await.unwrap();
        }
    }
}

/// Runs until the apiserver knows of the rights that were just granted.
async fn run_when(kubeconfig: &Path, args: &[&str], ready: impl Fn(&Ran) -> bool) -> Ran {
    let deadline = std::time::Instant::now() + SOON;
    loop {
        let ran = run(kubeconfig, args).await;
        if ready(&ran) {
            return ran;
        }
        assert!(std::time::Instant::now() < deadline, "{} {}", ran.stdout, ran.stderr);
    }
}

/// Nobody keeps anything in this cluster, and the users may only read.
#[tokio::test]
async fn without_svcplane_and_with_few_rights() {
    let builder = Cluster::builder(Flavour::DualStack)
        .user("reader", &[])
        .user("guest", &[])
        .user("outsider", &[])
        .user("nobody", &[]);
    let cluster = builder.start().await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    web_with_a_pod(&namespace).await;
    let key = format!("{}/web", namespace.name());

    // The rights that the README names.
    let core = |resources: &[&str], verb: &str| json!({"apiGroups": [""], "resources": resources, "verbs": [verb]});
    let discovery = json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]});
    let rules = json!([
        core(&["services", "endpoints"], "get"),
        core(&["services", "pods", "nodes", "namespaces"], "list"),
        {"apiGroups": ["networking.k8s.io"], "resources": ["servicecidrs", "ipaddresses"], "verbs": ["list"]},
        {"apiGroups": ["svcplane.io"], "resources": ["clusterippools", "nodeportpools"], "verbs": ["list"]},
        discovery
    ]);
    grant(&cluster, "reader", None, rules).await;
    let reader = cluster.kubeconfig_for("reader");
    let whole = run_when(&reader, &[&key], |ran| {
        ran.code == 0 && !ran.stdout.contains("Not read")
    })
    .await;
    let pods = [
        "in      p1  10.1.0.1 on node-1",
        "Endpoints, IPv4 slices: ready -> http:8080/TCP",
    ];
    assert_eq!(section(&whole.stdout, "Pods"), pods);
    assert_eq!(
        section(&whole.stdout, "Endpoints"),
        ["web  10.1.0.1 -> http:8080/TCP  differs: there is none"]
    );
    let slices = ["(new) IPv4  10.1.0.1 -> http:8080/TCP  differs: there is none"];
    assert_eq!(section(&whole.stdout, "EndpointSlices"), slices);
    let checked = run(&reader, &[&key, "--check"]).await;
    assert_eq!((checked.code, &*checked.stderr, checked.stdout), (1, "", whole.stdout));

    let rules = json!([
        core(&["services"], "get"),
        core(&["services", "pods"], "list"),
        discovery
    ]);
    grant(&cluster, "guest", Some(&namespace), rules).await;
    let guest = cluster.kubeconfig_for("guest");
    let told = run_when(&guest, &[&key], |ran| {
        ran.code == 0 && section(&ran.stdout, "Not read").len() == 4
    })
    .await;
    let want = [
        "Pods of other namespaces: missing permission: list on pods".to_owned(),
        format!(
            "Endpoints: missing permission: get on endpoints in namespace {}",
            namespace.name()
        ),
        "Nodes: missing permission: list on nodes".to_owned(),
    ];
    let unread = section(&told.stdout, "Not read");
    assert_eq!(unread[..3], want);
    assert!(unread[3].starts_with("where its values are from: "), "{unread:?}");
    for kind in [
        "services",
        "servicecidrs",
        "ipaddresses",
        "clusterippools",
        "nodeportpools",
        "namespaces",
    ] {
        let named = format!("cannot read {kind}: not permitted");
        assert!(unread[3].contains(&named), "{kind}: {unread:?}");
    }
    let pods = [
        "?       p1  10.1.0.1 on node-1",
        "Endpoints: ready -> http:8080/TCP",
        "IPv4 slices: not known (no permission to list nodes)",
    ];
    assert_eq!(section(&told.stdout, "Pods"), pods);
    let unread = ["not known (no permission to get endpoints)"];
    assert_eq!(section(&told.stdout, "Endpoints"), unread);
    let slices = ["none stored  expected: not known (no permission to list nodes)"];
    assert_eq!(section(&told.stdout, "EndpointSlices"), slices);
    assert_eq!(
        run(&guest, &[&key, "--check"]).await.code,
        1,
        "what cannot be told is not in order"
    );

    // What is stored is shown to one who may not read the Pods.
    endpoints("web")
        .subset(&["10.1.0.9"], &[("http", 8080)])
        .create(&namespace)
        .await
        .unwrap();
    let slice = json!({"metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}, "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}], "endpoints": [{"addresses": ["10.1.0.9"]}]});
    let slice = serde_json::from_value(slice).unwrap();
    namespace.slices().create(&PostParams::default(), &slice).await.unwrap();
    let told = run(&reader, &[&key]).await;
    let differs = r#"web  10.1.0.1 -> http:8080/TCP  differs: +10.1.0.1, -10.1.0.9, label endpoints.kubernetes.io/managed-by none -> "endpoint-controller""#;
    assert_eq!(section(&told.stdout, "Endpoints"), [differs]);
    let rules = json!([
        core(&["services", "endpoints"], "get"),
        core(&["services"], "list"),
        discovery
    ]);
    grant(&cluster, "outsider", Some(&namespace), rules).await;
    let outsider = cluster.kubeconfig_for("outsider");
    let told = run_when(&outsider, &[&key], |ran| {
        ran.code == 0 && section(&ran.stdout, "Not read").len() == 4
    })
    .await;
    let pods = ["not known (no permission to list pods)"];
    assert_eq!(section(&told.stdout, "Pods"), pods);
    let stored = "10.1.0.9 -> http:8080/TCP  expected: not known (no permission to";
    assert_eq!(
        section(&told.stdout, "Endpoints"),
        [format!("web  {stored} list pods)")]
    );
    let slices = [format!("web-1 IPv4  {stored} list pods and list nodes)")];
    assert_eq!(section(&told.stdout, "EndpointSlices"), slices);
    let proxied = section(&told.stdout, "kube-proxy");
    assert!(proxied[0].ends_with(":80 TCP -> 10.1.0.9:8080"), "{proxied:?}");
    assert_eq!(run(&outsider, &[&key, "--check"]).await.code, 1);

    let ran = run(&cluster.kubeconfig_for("nobody"), &[&key]).await;
    let want = format!(
        "error: missing permission: get on services in namespace {}; grant it to this account in its Role or ClusterRole\n",
        namespace.name()
    );
    assert_eq!((ran.code, &*ran.stdout, ran.stderr), (1, "", want));
}
