//! What `svcplane explain` and `svcplane pools --from-replicas` tell of values on a real cluster, with the webhook on.

use serde_json::{Value, json};
use svcplane_tests::cluster::Flavour;
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::governed::{self, Governed, SOON, create, node_port, pool, values};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::ran::{self, Ran};

fn governed() -> &'static Governed {
    governed::shared(Flavour::DualStack)
}

async fn run(arguments: &[&str]) -> Ran {
    let kubeconfig = governed().cluster.kubeconfig();
    ran::svcplane(&kubeconfig, arguments, SOON).await.unwrap()
}

/// Runs svcplane with these arguments and reads its JSON.
async fn json_of(arguments: &[&str]) -> Value {
    let ran = run(&[arguments, &["-o", "json"]].concat()).await;
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// Place and writer of each value.
async fn origins(namespace: &TestNamespace, name: &str) -> Vec<(String, String)> {
    let report = json_of(&["explain", &format!("{}/{name}", namespace.name())]).await;
    let values = report["allocation"]["values"]
        .as_array()
        .unwrap_or_else(|| panic!("{report}"));
    let text = |origin: &Value, field: &str| origin[field].as_str().unwrap().to_owned();
    values
        .iter()
        .map(|it| (text(it, "place"), text(it, "written")))
        .collect()
}

#[tokio::test]
async fn where_values_are_from_is_told_as_far_as_it_is_known() {
    let governed = governed();
    let namespace = TestNamespace::create(&governed.cluster).await.unwrap();
    let selector = json!({"namespaces": [namespace.name()]});
    let front = json!({"ranges": ["10.96.77.0/28"], "selector": selector});
    pool(governed, &namespace, "ClusterIPPool", "front", &front).await;
    let other = json!({"ranges": ["30400-30409"], "selector": {"namespaces": ["elsewhere"]}});
    pool(governed, &namespace, "NodePortPool", "other", &other).await;

    // Chosen by svcplane: no request names the values.
    let stored = create(&namespace, &node_port("chosen")).await.accepted().unwrap();
    assert!(values(&stored).0[0].starts_with("10.96.77."), "{stored}");
    let nobody = "named in no request: chosen at admission, as by svcplane, or by the apiserver";
    let chosen = origins(&namespace, "chosen").await;
    assert_eq!(
        chosen[0],
        (
            "in pool front, which governs this Service".to_owned(),
            nobody.to_owned()
        )
    );
    assert!(
        chosen[1].0.starts_with("in no pool, in the ") && chosen[1].1 == nobody,
        "{chosen:?}"
    );

    // Written by a user.
    let mut written = node_port("written");
    written["spec"]["clusterIP"] = json!("10.96.78.5");
    written["spec"]["ports"][0]["nodePort"] = json!(30_071);
    create(&namespace, &written).await.accepted().unwrap();
    let written = origins(&namespace, "written").await;
    assert!(
        written[0].0.contains("outside of what governs this Service (front)"),
        "{written:?}"
    );
    assert!(written[1].0.contains("lower band of 30000-32767"), "{written:?}");
    assert!(
        written.iter().all(|(_, by)| by.starts_with("named in a request of ")),
        "{written:?}"
    );

    let report = json_of(&["explain", &format!("{}/written", namespace.name())]).await;
    let pools = report["allocation"]["pools"].as_array().unwrap();
    let said = |name: &str| {
        let mut of_it = pools.iter().filter(|pool| pool["name"] == name);
        of_it.next().map(|pool| pool["said"].as_str().unwrap().to_owned())
    };
    assert_eq!(
        said("front").as_deref(),
        Some("serves it, before all others; 15 of 16 free")
    );
    assert_eq!(
        said("other").as_deref(),
        Some("does not select it: spec.selector.namespaces does not match")
    );
}

#[tokio::test]
async fn replicas_tell_what_they_keep_and_who_does_not_answer_is_named() {
    let governed = governed();
    let namespace = TestNamespace::create(&governed.cluster).await.unwrap();
    let second = governed.restart().await.unwrap();
    let selector = json!({"namespaces": [namespace.name()]});
    let spec = json!({"ranges": ["30500-30509"], "selector": selector});
    pool(governed, &namespace, "NodePortPool", "few", &spec).await;
    create(&namespace, &node_port("twice")).await.accepted().unwrap();
    let seen = |service: Option<&k8s_openapi::api::core::v1::Service>| service.map(drop).ok_or_else(String::new);
    eventually_one("the Service", SOON, &namespace.services(), "twice", seen)
        .await
        .unwrap();
    // Refused by the apiserver because of its name, after a value was chosen for it.
    assert_eq!(create(&namespace, &node_port("twice")).await.code.as_u16(), 409);

    let address = |url: &str| url.trim_start_matches("http://").to_owned();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (one, two) = (address(governed.svcplane.admin_url()), address(second.admin_url()));
    let replicas = format!("--replicas={one},{two},{nobody}");
    let report = json_of(&["pools", "--from-replicas", &replicas]).await;
    let said = |address: &str| {
        let mut all = report["replicas"].as_array().unwrap().iter();
        all.find(|it| it["address"] == address)
            .unwrap_or_else(|| panic!("{address}: {report}"))
    };
    let pending = |address: &str, name: &str| {
        let kept = said(address)["memory"].as_array().unwrap_or_else(|| panic!("{report}"));
        let of_it = kept.iter().filter(|it| it["name"] == name);
        of_it.map(|it| it["pending"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(pending(&one, "few"), 1, "{report}");
    assert!(pending(&one, "30000-32767") >= 1, "{report}");
    // The apiserver asks the first one alone.
    assert_eq!((pending(&two, "few"), pending(&two, "30000-32767")), (0, 0), "{report}");
    assert!(said(&nobody.to_string())["error"].is_string(), "{report}");

    let screen = run(&["pools", "--from-replicas", &replicas]).await.stdout;
    let has = |words: &[&str]| screen.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&[&one, "pool few (nodePort): 1 pending"]), "{screen}");
    assert!(has(&[&nobody.to_string(), "did not answer"]), "{screen}");
}
