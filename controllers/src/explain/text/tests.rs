use serde_json::json;

use super::*;
use crate::explain::fixtures::{World, not_ready, pod, web, with};

#[test]
fn a_screen_for_a_person() {
    let crashing = with(
        pod("web-2", &["10.1.0.2"]),
        "/status/conditions/0/status",
        json!("False"),
    );
    let crashing = with(crashing, "/status/containerStatuses/0/ready", json!(false));
    let crashing = with(
        crashing,
        "/status/containerStatuses/0/state",
        json!({"waiting": {"reason": "CrashLoopBackOff"}}),
    );
    let stray = with(pod("web-3", &["10.1.0.3"]), "/metadata/labels/app", json!("webb"));
    let report = World::new(web(), [pod("web-1", &["10.1.0.1"]), crashing, stray]).report();
    let want = "\
Service shop/web  ClusterIP 10.96.0.7
  selector app=web
  port http 80/TCP -> http

Pods
  in      web-1  10.1.0.1 on n1
          Endpoints, IPv4 slices: ready -> http:8080/TCP
  out     web-2  10.1.0.2 on n1
          Endpoints, IPv4 slices: not ready -> http:8080/TCP
          not ready since 2026-11-30T10:00:00Z: container main waits: CrashLoopBackOff

Near misses
  out     shop/web-3  label app is \"webb\", not \"web\"

Endpoints
  web  10.1.0.1 10.1.0.2 (not ready) -> http:8080/TCP  differs: there is none

EndpointSlices
  (new) IPv4  10.1.0.1 10.1.0.2 (not ready) -> http:8080/TCP  differs: there is none

DNS, as stored now
  web.shop.svc.cluster.local  A  10.96.0.7
  _http._tcp.web.shop.svc.cluster.local  SRV  80 web.shop.svc.cluster.local
  7.0.96.10.in-addr.arpa  PTR  web.shop.svc.cluster.local

Environment of containers that start now in shop
  WEB_SERVICE_HOST=10.96.0.7
  WEB_SERVICE_PORT=80
  WEB_SERVICE_PORT_HTTP=80
  WEB_PORT=tcp://10.96.0.7:80
  WEB_PORT_80_TCP=tcp://10.96.0.7:80
  WEB_PORT_80_TCP_PROTO=tcp
  WEB_PORT_80_TCP_PORT=80
  WEB_PORT_80_TCP_ADDR=10.96.0.7

kube-proxy, as stored now
  10.96.0.7:80 TCP -> no endpoints
  iptables  refuses connections to 10.96.0.7:80: no endpoints (REJECT)
  nftables  refuses connections to 10.96.0.7:80: no endpoints (reject)
  ipvs      refuses connections to 10.96.0.7:80: no endpoints (a virtual server without destinations)
";
    assert_eq!(render(&report, Style::Plain), want);
    // The same words on a terminal, in colours and with glyphs.
    let painted = render(&report, Style::Terminal);
    assert!(
        painted.contains("\x1b[32m✔ in    \x1b[0m") && painted.contains("\x1b[31m✘ out   \x1b[0m"),
        "{painted}"
    );
    let codes = ["1", "32", "33", "31", "2", "0"].map(|code| format!("\x1b[{code}m"));
    let bare = codes.iter().fold(painted, |text, code| text.replace(code, ""));
    let bare: String = bare.replace("✔ ", "").replace("✘ ", "");
    assert_eq!(bare, want);
}

#[test]
fn long_lists_are_cut_and_counted() {
    let pods = (0..30).map(|number| pod(&format!("web-{number:02}"), &[&format!("10.1.0.{number}")]));
    let screen = render(&World::new(web(), pods).report(), Style::Plain);
    assert!(screen.contains("and 10 more, 0 of them not wholly in"), "{screen}");
    assert!(screen.contains("10.1.0.13 and 24 more -> http:8080/TCP"), "{screen}");
}

/// The lines under the heading that begins so.
fn section(world: &World, heading: &str) -> Vec<String> {
    let screen = render(&world.report(), Style::Plain);
    let lines = screen.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn nothing_is_said_as_well() {
    let mut world = World::new(web(), []);
    assert_eq!(
        section(&world, "Pods"),
        ["the selector matches none; near misses: none"]
    );
    assert_eq!(section(&world, "Near misses"), Vec::<String>::new());
    assert_eq!(
        section(&world, "Endpoints"),
        ["web  no addresses  differs: there is none"]
    );
    let empty = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "e", "resourceVersion": "9",
        "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}});
    world.endpoints = Some(vec![empty]);
    assert_eq!(section(&world, "Endpoints"), ["web  no addresses  same"]);
    world.everywhere = None;
    let pods = ["the selector matches none; near misses: none in this namespace"];
    assert_eq!(section(&world, "Pods"), pods);
    world.everywhere = Some(vec![with(pod("twin", &[]), "/metadata/namespace", json!("stage"))]);
    assert_eq!(section(&world, "Pods"), ["the selector matches none"]);
    assert_eq!(section(&world, "Near misses").len(), 1);
    // It has a selector and no use for it.
    let service = with(web(), "/spec/type", json!("ExternalName"));
    let world = World::new(
        with(service, "/spec/externalName", json!("example.com")),
        [pod("p1", &["10.1.0.1"])],
    );
    assert_eq!(
        section(&world, "Pods"),
        ["none: an ExternalName Service has no use for a selector"]
    );
}

#[test]
fn what_is_not_known_is_said_in_its_place() {
    let mut world = World::new(web(), [pod("web-1", &["10.1.0.1"])]);
    world.nodes = None;
    let pods = [
        "?       web-1  10.1.0.1 on n1",
        "Endpoints: ready -> http:8080/TCP",
        "IPv4 slices: not known (no permission to list nodes)",
    ];
    assert_eq!(section(&world, "Pods"), pods);
    let slices = ["none stored  expected: not known (no permission to list nodes)"];
    assert_eq!(section(&world, "EndpointSlices"), slices);
    (world.pods, world.endpoints, world.slices) = (None, None, None);
    for (heading, right) in [
        ("Pods", "list pods"),
        ("Endpoints", "get endpoints"),
        ("EndpointSlices", "list endpointslices"),
        ("kube-proxy", "list endpointslices"),
    ] {
        assert_eq!(
            section(&world, heading),
            [format!("not known (no permission to {right})")]
        );
    }
}

#[test]
fn a_load_balancer_without_an_address() {
    let mut service = with(web(), "/spec/type", json!("LoadBalancer"));
    service["spec"]["loadBalancerClass"] = json!("example.com/lb");
    let told = |service: &serde_json::Value| section(&World::new(service.clone(), []), "Service")[2..].to_vec();
    let class = "loadBalancerClass example.com/lb";
    let pending = "load balancer address pending (status.loadBalancer.ingress is empty)";
    assert_eq!(told(&service), [pending, class]);
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.5"}]}});
    assert_eq!(told(&service), ["load balancer 192.0.2.5", class]);
}

/// Ready by the Service's wish, and what the Pod is all the same.
#[test]
fn what_is_ready_though_it_is_not() {
    let service = with(web(), "/spec/publishNotReadyAddresses", json!(true));
    let going = with(
        pod("p3", &["10.1.0.3"]),
        "/metadata/deletionTimestamp",
        json!("2026-11-30T11:00:00Z"),
    );
    let pods = [pod("p1", &["10.1.0.1"]), not_ready(pod("p2", &["10.1.0.2"])), going];
    let world = World::new(service, pods);
    let row = "(new) IPv4  10.1.0.1 10.1.0.2 (ready though not serving) 10.1.0.3 (ready though terminating) -> http:8080/TCP  differs: there is none";
    assert_eq!(section(&world, "EndpointSlices"), [row]);
    let note = "publishNotReadyAddresses: the Service lists Pods that are not ready or are being deleted as if they were ready";
    let told = section(&world, "Pods");
    assert_eq!(told.iter().filter(|line| *line == note).count(), 2, "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some(note));
}

#[test]
fn where_traffic_should_go_first() {
    let mut service = with(web(), "/spec/trafficDistribution", json!("PreferSameZone"));
    let stray = with(pod("p2", &["10.1.0.2"]), "/spec/nodeName", json!("n2"));
    let pods = [pod("p1", &["10.1.0.1"]), stray];
    let mut world = World::new(service.clone(), pods.clone());
    let node = |name: &str, labels: serde_json::Value| json!({"metadata": {"name": name, "resourceVersion": "1", "labels": labels}});
    let nodes = vec![
        node("n1", json!({"topology.kubernetes.io/zone": "a"})),
        node("n2", json!({})),
    ];
    world.nodes = Some(nodes.clone());
    assert_eq!(section(&world, "Service")[2], "trafficDistribution PreferSameZone");
    let listed = "10.1.0.1 (zone a, hints a) 10.1.0.2 (no zone, no hints) -> http:8080/TCP";
    let slices = [format!("(new) IPv4  {listed}  differs: there is none")];
    assert_eq!(section(&world, "EndpointSlices"), slices);
    let endpoints = ["web  10.1.0.1 10.1.0.2 -> http:8080/TCP  differs: there is none"];
    assert_eq!(section(&world, "Endpoints"), endpoints);
    // The annotation goes before the field.
    let annotation = "service.kubernetes.io/topology-mode";
    service["metadata"]["annotations"] = json!({annotation: "Auto"});
    world = World::new(service, pods);
    world.nodes = Some(nodes);
    let about = [
        format!("topology mode Auto (annotation {annotation})"),
        "trafficDistribution PreferSameZone (ignored: the annotation goes before it)".to_owned(),
    ];
    assert_eq!(section(&world, "Service")[2..], about);
    let told = section(&world, "Hints of topology mode Auto");
    assert!(
        told.len() == 1 && told[0].starts_with("none are expected: Insufficient Node information"),
        "{told:?}"
    );
}

#[test]
fn of_many_near_misses_the_nearest_are_shown() {
    let other = |number: usize| {
        let stray = pod(&format!("p{number}"), &[&format!("10.1.0.{number}")]);
        with(stray, "/metadata/labels/app", json!("unrelated"))
    };
    let close = with(pod("z", &["10.1.0.99"]), "/metadata/labels/app", json!("webb"));
    let mut world = World::new(web(), (0..20).map(other).chain([close]));
    world.everywhere = Some(vec![with(pod("twin", &[]), "/metadata/namespace", json!("stage"))]);
    let told = section(&world, "Near misses");
    assert_eq!(told.len(), 6, "{told:?}");
    assert_eq!(told[0], r#"out     shop/z  label app is "webb", not "web""#);
    assert!(told[1].starts_with("out     stage/twin  its labels match"), "{told:?}");
    assert_eq!(told[2], r#"out     shop/p0  label app is "unrelated", not "web""#);
    assert_eq!(told[5], "and 17 more");
}
