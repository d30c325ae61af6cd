//! What `svcplane explain` says of an address: the screens that docs/loadbalancer.md shows.

use serde_json::json;
use svcplane_tests::balanced::Balanced;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/loadbalancer.md");
const START: &str = "<!-- screens: made by the test balancers: the_screens_of_the_docs_are_those_of_the_program -->\n";
const END: &str = "<!-- end of screens -->\n";

#[tokio::test]
async fn the_screens_of_the_docs_are_those_of_the_program() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("public", &json!({"ranges": ["203.0.113.64-203.0.113.67"]}))
        .await;
    rig.pool("named", &json!({"ranges": ["198.51.100.8/29"], "autoAssign": false}))
        .await;
    let pinned = |address: &str| json!({"metadata": {"annotations": {"svcplane.io/load-balancer-ips": address}}});
    let shared = json!({"metadata": {"annotations": {"svcplane.io/sharing-key": "dns", "svcplane.io/load-balancer-ips": "203.0.113.65"}}});
    let torn = json!({"metadata": {"annotations": {"svcplane.io/load-balancer-ips": "203.0.113.64", "metallb.io/loadBalancerIPs": "203.0.113.65"}}});
    rig.service("web", &json!({})).await;
    rig.becomes("web", "Assigned", &["203.0.113.64"]).await;
    rig.service("dns", &shared).await;
    rig.becomes("dns", "Assigned", &["203.0.113.65"]).await;
    for (name, address) in [("mail", "203.0.113.66"), ("chat", "203.0.113.67")] {
        rig.service(name, &json!({})).await;
        rig.becomes(name, "Assigned", &[address]).await;
    }
    let table = [
        ("far", pinned("192.0.2.1"), "NoPool"),
        ("late", json!({}), "Exhausted"),
        ("greedy", pinned("203.0.113.64"), "AddressTaken"),
        ("dns-again", shared, "SharingPortConflict"),
        ("torn", torn, "RequestConflict"),
    ];
    for (name, change, reason) in &table {
        rig.service(name, change).await;
        rig.becomes(name, reason, &[]).await;
    }
    let theirs = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}});
    rig.at_rest().await;
    rig.patch_status("chat", "rival", &theirs).await;
    rig.becomes("chat", "Assigned", &["203.0.113.67"]).await;
    rig.at_rest().await;
    rig.patch_status("chat", "rival", &theirs).await;
    rig.becomes("chat", "Contended", &["192.0.2.9"]).await;

    let mut text = String::new();
    for name in ["web", "far", "late", "greedy", "dns-again", "torn", "chat"] {
        let key = format!("{}/{name}", rig.namespace.name());
        let screen = rig.command(&["explain", &key], "").await;
        let section = screen
            .lines()
            .skip_while(|line| !line.starts_with("LoadBalancer address"));
        let section: Vec<&str> = section.take_while(|line| !line.is_empty()).collect();
        assert!(section.len() > 1, "{screen}");
        let screen = format!("$ svcplane explain shop/{name}\n{}\n\n", section.join("\n"));
        text += &screen.replace(rig.namespace.name(), "shop");
    }
    let made = format!("{START}```\n{}\n```\n{END}", text.trim_end());
    let docs = std::fs::read_to_string(DOCS).unwrap();
    let (before, rest) = docs.split_once(START).expect("a place for the screens");
    let (_, after) = rest.split_once(END).expect("an end of the screens");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(DOCS, format!("{before}{made}{after}")).unwrap();
    }
    let docs = std::fs::read_to_string(DOCS).unwrap();
    assert!(
        docs.contains(&made),
        "run UPDATE=1 cargo test -p svcplane-tests --test balancers; made:\n{made}"
    );
}
