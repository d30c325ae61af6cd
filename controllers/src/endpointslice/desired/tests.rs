use super::super::fixtures::{container_port, named, node, nodes, numbered, pod, service_with};
use super::*;
use crate::model::Protocol;

fn web() -> Service {
    service_with("web", &[numbered("http", 8080)])
}

fn listed(service: &Service, pod: &Pod) -> Option<(Group, PodEndpoint)> {
    let nodes = nodes([node("n1", Some("a")), node("n2", None)]);
    Desired::new(service, IpFamily::V4, &nodes).endpoint(pod)
}

type Change = fn(&mut Pod);

#[test]
fn which_pods_are_listed() {
    let (plain, publishing) = (
        web(),
        Service {
            publish_not_ready: true,
            ..web()
        },
    );
    // What changes about a ready Pod; whether it is listed, and whether by a Service that publishes not-ready addresses.
    let cases: [(&str, Change, bool, bool); 11] = [
        ("nothing", |_| {}, true, true),
        ("not ready", |pod| pod.ready = false, true, true),
        ("being deleted", |pod| pod.terminating = true, true, true),
        ("finished", |pod| pod.phase = Phase::Finished, false, false),
        ("no address", |pod| pod.ips.clear(), false, false),
        (
            "the other family only",
            |pod| pod.ips = ["fd00::1".parse().unwrap()].into(),
            false,
            false,
        ),
        (
            "loopback",
            |pod| pod.ips = ["127.0.0.1".parse().unwrap()].into(),
            false,
            false,
        ),
        (
            "link-local",
            |pod| pod.ips = ["169.254.1.1".parse().unwrap()].into(),
            false,
            false,
        ),
        ("no Node yet", |pod| pod.node_name = None, false, true),
        (
            "a Node that is not known",
            |pod| pod.node_name = Some("n9".into()),
            false,
            true,
        ),
        (
            "a Node without a zone",
            |pod| pod.node_name = Some("n2".into()),
            true,
            true,
        ),
    ];
    for (what, change, by_plain, by_publishing) in cases {
        let mut pod = pod("p", &["10.0.0.1"]);
        change(&mut pod);
        assert_eq!(listed(&plain, &pod).is_some(), by_plain, "{what}");
        assert_eq!(listed(&publishing, &pod).is_some(), by_publishing, "{what}");
    }
}

#[test]
fn conditions() {
    // (ready, being deleted, published when not ready) -> (ready, serving, terminating)
    for (ready, terminating, publish_not_ready, want) in [
        (true, false, false, (true, true, false)),
        (false, false, false, (false, false, false)),
        (true, true, false, (false, true, true)),
        (false, true, false, (false, false, true)),
        (true, true, true, (true, true, true)),
        (false, false, true, (true, false, false)),
    ] {
        let service = Service {
            publish_not_ready,
            ..web()
        };
        let pod = Pod {
            terminating,
            ready,
            ..pod("p", &["10.0.0.1"])
        };
        let Conditions {
            ready,
            serving,
            terminating,
        } = listed(&service, &pod).unwrap().1.conditions;
        assert_eq!((ready, serving, terminating), want);
    }
}

#[test]
fn ports_are_what_each_pod_resolves() {
    let service = service_with(
        "web",
        &[named("http", "http"), numbered("metrics", 9090), named("dns", "dns")],
    );
    let mut pod = pod("p", &["10.0.0.1"]);
    pod.ports = [
        container_port("http", 8080, Protocol::Tcp),
        container_port("dns", 53, Protocol::Udp),
    ]
    .into();
    let names = |ports: &Group| {
        ports
            .iter()
            .map(|it| (it.name.to_string(), it.port))
            .collect::<Vec<_>>()
    };
    let (group, _) = listed(&service, &pod).unwrap();
    // The Service's port `dns` is TCP, the Pod's is UDP.
    assert_eq!(
        names(&group),
        [("http".into(), Some(8080)), ("metrics".into(), Some(9090))]
    );
    let none = service_with("web", &[named("grpc", "grpc")]);
    assert!(
        listed(&none, &pod).unwrap().0.is_empty(),
        "listed all the same, without ports"
    );
}

#[test]
fn hints_of_traffic_distribution() {
    let hints = |distribution, change: fn(&mut Pod)| {
        let mut pod = pod("p", &["10.0.0.1"]);
        change(&mut pod);
        let service = Service { distribution, ..web() };
        let extra = listed(&service, &pod).unwrap().1.extra;
        let names = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        extra.map(|it| (names(&it.hints.zones), names(&it.hints.nodes)))
    };
    let text = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let some = |zones: &[&str], nodes: &[&str]| Some((text(zones), text(nodes)));
    assert_eq!(hints(Distribution::Anywhere, |_| {}), None);
    assert_eq!(hints(Distribution::Auto, |_| {}), None);
    assert_eq!(hints(Distribution::SameZone, |_| {}), some(&["a"], &[]));
    assert_eq!(hints(Distribution::SameNode, |_| {}), some(&["a"], &["n1"]));
    let in_no_zone: fn(&mut Pod) = |pod| pod.node_name = Some("n2".into());
    assert_eq!(hints(Distribution::SameZone, in_no_zone), None);
    assert_eq!(hints(Distribution::SameNode, in_no_zone), some(&[], &["n2"]));
    assert_eq!(hints(Distribution::SameNode, |pod| pod.ready = false), None);
}
