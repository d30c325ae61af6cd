use serde_json::{Value, json};

use super::*;
use crate::explain::fixtures::{World, endpoints_of_web, not_ready, pod, slice_of_web, web, with};
use crate::explain::pods::Mark;

/// `place: standing` and, if it is out, why.
fn said(pod: &SeenAs) -> Vec<String> {
    let verdicts = pod.verdicts.iter();
    verdicts
        .map(|it| match &it.why {
            Some(why) => format!("{}: {}", it.place, why),
            None => format!("{}: {} {}", it.place, it.standing, it.ports.join(" ")),
        })
        .collect()
}

#[test]
fn each_pod_is_in_or_out_and_why() {
    let healthy = || pod("p", &["10.1.0.1"]);
    let (e, s) = ("Endpoints", "IPv4 slices");
    // What is done to the Pod; all in all; Endpoints; slices; a word of the notes.
    let table: [(Value, Mark, String, String, &str); 11] = [
        (
            healthy(),
            Mark::In,
            format!("{e}: ready http:8080/TCP"),
            format!("{s}: ready http:8080/TCP"),
            "",
        ),
        (
            not_ready(healthy()),
            Mark::Out,
            format!("{e}: not ready http:8080/TCP"),
            format!("{s}: not ready http:8080/TCP"),
            "not ready since 2026-11-30T10:00:00Z",
        ),
        (
            with(healthy(), "/metadata/deletionTimestamp", json!("2026-11-30T11:00:00Z")),
            Mark::Out,
            format!("{e}: it is being deleted"),
            format!("{s}: terminating, still serving http:8080/TCP"),
            "with time until 2026-11-30T11:00:00Z",
        ),
        (
            with(
                not_ready(healthy()),
                "/metadata/deletionTimestamp",
                json!("2026-11-30T11:00:00Z"),
            ),
            Mark::Out,
            format!("{e}: it is being deleted"),
            format!("{s}: terminating http:8080/TCP"),
            "not ready",
        ),
        (
            with(healthy(), "/status/phase", json!("Failed")),
            Mark::Out,
            format!("{e}: its phase is Failed"),
            format!("{s}: its phase is Failed"),
            "",
        ),
        (
            with(healthy(), "/status/phase", json!("Succeeded")),
            Mark::Out,
            format!("{e}: its phase is Succeeded"),
            format!("{s}: its phase is Succeeded"),
            "",
        ),
        (
            with(healthy(), "/status/podIPs", json!([])),
            Mark::Out,
            format!("{e}: it has no address yet"),
            format!("{s}: it has no address yet"),
            "",
        ),
        (
            with(healthy(), "/status/podIPs", json!([{"ip": "fd00::1"}])),
            Mark::Out,
            format!("{e}: it has no IPv4 address"),
            format!("{s}: it has no IPv4 address"),
            "",
        ),
        (
            with(healthy(), "/spec/nodeName", json!("")),
            Mark::Out,
            format!("{e}: it is not scheduled to a Node"),
            format!("{s}: it is not scheduled to a Node"),
            "",
        ),
        (
            with(healthy(), "/spec/nodeName", json!("n9")),
            Mark::Partly,
            format!("{e}: ready http:8080/TCP"),
            format!("{s}: there is no Node n9"),
            "",
        ),
        (
            with(
                healthy(),
                "/spec/containers/0/ports",
                json!([{"name": "web", "containerPort": 80}, {"name": "http", "containerPort": 53, "protocol": "UDP"}]),
            ),
            Mark::Partly,
            format!("{e}: it has none of the Service's ports"),
            format!("{s}: ready "),
            "",
        ),
    ];
    for (pod, mark, endpoints, slices, note) in table {
        let report = World::new(web(), [pod.clone()]).report();
        let seen = &report.pods.unwrap()[0];
        assert_eq!((seen.mark, said(seen)), (mark, vec![endpoints, slices]), "{pod}");
        let notes = seen.notes.join("\n");
        assert!(
            notes.contains(note) && notes.is_empty() == note.is_empty(),
            "{pod}: {notes}"
        );
    }
}

#[test]
fn what_keeps_a_pod_from_being_ready_is_named() {
    let state = |state: Value| {
        with(
            not_ready(pod("p", &["10.1.0.1"])),
            "/status/containerStatuses/0",
            json!({
        "name": "main", "ready": false, "image": "", "imageID": "", "restartCount": 0, "state": state}),
        )
    };
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let gated = with(
        not_ready(pod("p", &["10.1.0.1"])),
        "/spec/readinessGates",
        json!([{"conditionType": "example.com/lb"}]),
    );
    let init = with(
        state(waiting.clone()),
        "/status/initContainerStatuses",
        json!([
        {"name": "done", "ready": false, "image": "", "imageID": "", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}},
        {"name": "fetch", "ready": false, "image": "", "imageID": "", "restartCount": 0, "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}]),
    );
    let silent = with(
        not_ready(pod("p", &["10.1.0.1"])),
        "/status/conditions/0/reason",
        json!("NodeNotReady"),
    );
    let since = "not ready since 2026-11-30T10:00:00Z";
    let table = [
        (
            state(waiting),
            format!("{since}: container main waits: CrashLoopBackOff"),
        ),
        (
            state(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
            format!("{since}: container main has ended: OOMKilled, exit code 137"),
        ),
        (
            state(json!({"running": {}})),
            format!("{since}: container main runs and its probes have not passed"),
        ),
        (gated, format!("{since}: readiness gate example.com/lb is not True")),
        (
            init,
            format!(
                "{since}: init container fetch has ended: Error, exit code 2; container main waits: CrashLoopBackOff"
            ),
        ),
        (silent, format!("{since}: NodeNotReady")),
        (
            with(pod("p", &["10.1.0.1"]), "/status/conditions", json!([])),
            "not ready: it has no condition Ready".to_owned(),
        ),
    ];
    for (pod, want) in table {
        let report = World::new(web(), [pod.clone()]).report();
        assert_eq!(report.pods.unwrap()[0].notes, [want], "{pod}");
    }
}

#[test]
fn pods_without_the_second_family_are_partly_in() {
    let mut service = web();
    service["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    let report = World::new(
        service,
        [pod("both", &["10.1.0.1", "fd00::1"]), pod("four", &["10.1.0.2"])],
    )
    .report();
    let pods = report.pods.unwrap();
    assert_eq!((pods[0].mark, pods[1].mark), (Mark::In, Mark::Partly));
    assert_eq!(
        said(&pods[1]),
        [
            "Endpoints: ready http:8080/TCP",
            "IPv4 slices: ready http:8080/TCP",
            "IPv6 slices: it has no IPv6 address"
        ]
    );
}

/// More Pods than Endpoints have room for: upstream keeps the first 1,000 addresses.
#[test]
fn pods_that_find_no_room_are_told_so() {
    let pods = (0..1001).map(|number| {
        pod(
            &format!("p{number}"),
            &[&format!("10.1.{}.{}", 1 + number / 200, 1 + number % 200)],
        )
    });
    let pods = World::new(web(), pods).report().pods.unwrap();
    let left_out: Vec<_> = pods.iter().filter(|pod| pod.mark == Mark::Partly).collect();
    assert_eq!(left_out.len(), 1);
    assert_eq!(said(left_out[0])[0], "Endpoints: Endpoints hold at most 1000 addresses");
}

#[test]
fn slices_of_others_are_shown_and_left_alone() {
    let mut world = World::new(web(), []);
    let foreign = with(
        slice_of_web("theirs", &[("192.0.2.1", true)]),
        "/metadata/labels/endpointslice.kubernetes.io~1managed-by",
        json!("mesh.example.com"),
    );
    world.slices = Some(vec![foreign]);
    let report = world.report();
    let all = report.endpoint_slices.unwrap();
    let foreign = all.iter().find(|it| it.name.as_deref() == Some("theirs")).unwrap();
    assert!(
        matches!(&foreign.state, State::LeftAlone(why) if why.contains("mesh.example.com")),
        "{foreign:?}"
    );
    let proxied = report.kube_proxy.unwrap();
    assert_eq!(
        proxied.ports[0].endpoints,
        ["192.0.2.1:8080"],
        "kube-proxy reads every slice"
    );
}

/// A port that no Pod has is told once; one that another Pod has, at each Pod that has not.
#[test]
fn named_ports_that_pods_do_not_have() {
    let ports = |ports: Value| with(pod("p", &["10.1.0.1"]), "/spec/containers/0/ports", ports);
    let other = json!([{"name": "web", "containerPort": 80}, {"name": "http", "containerPort": 53, "protocol": "UDP"}]);
    let second = json!({"name": "metrics", "port": 9100, "protocol": "TCP", "targetPort": 9100});
    let mut two_ports = web();
    two_ports["spec"]["ports"].as_array_mut().unwrap().push(second);
    let mut two_names = web();
    let dns = json!({"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"});
    two_names["spec"]["ports"].as_array_mut().unwrap().push(dns);
    let headless = with(web(), "/spec/clusterIP", json!("None"));
    let why = "no matching Pod has a port named http (they have: http (UDP), web)";
    let table = [
        (web(), ports(other.clone()), format!("nothing reachable: {why}")),
        (
            two_ports,
            ports(other.clone()),
            format!("port http leads nowhere: {why}"),
        ),
        (
            headless,
            ports(other.clone()),
            format!("port http leads nowhere: {why}"),
        ),
        (
            two_names,
            ports(other.clone()),
            "nothing reachable: no matching Pod has a port named http or dns (UDP) (they have: http (UDP), web)".into(),
        ),
        (
            web(),
            ports(json!([])),
            "nothing reachable: no matching Pod has a port named http (their containers name no ports)".into(),
        ),
    ];
    for (service, pod, want) in table {
        let report = World::new(service.clone(), [pod]).report();
        assert_eq!(report.unresolved_ports, [want], "{service}");
        assert_eq!(report.pods.unwrap()[0].notes, Vec::<String>::new(), "{service}");
    }
    let report = World::new(web(), [ports(other), pod("q", &["10.1.0.2"])]).report();
    assert_eq!(report.unresolved_ports, Vec::<String>::new());
    let note = "port http leads to a container port named http (TCP), which it does not have; its containers name web:80/TCP, http:53/UDP";
    assert_eq!(report.pods.unwrap()[0].notes, [note]);
}

#[test]
fn what_may_not_be_read_is_named_and_the_rest_is_told() {
    let all = || {
        let mut world = World::new(web(), [pod("p1", &["10.1.0.1"])]);
        world.endpoints = Some(vec![endpoints_of_web(&["10.1.0.9"], &[])]);
        world.slices = Some(vec![slice_of_web("web-a", &[("10.1.0.9", true)])]);
        world
    };
    let not_known = |right: &str| State::NotKnown(format!("no permission to {right}"));
    let stored = |compared: &Option<Vec<Compared>>| -> Vec<(State, String)> {
        let one = |it: &Compared| (it.state.clone(), it.stored[0].endpoints[0].addresses.join(" "));
        compared.as_deref().unwrap().iter().map(one).collect()
    };
    let old = || "10.1.0.9".to_owned();

    let mut world = all();
    world.nodes = None;
    let report = world.report();
    assert!(matches!(report.endpoints.as_ref().unwrap()[0].state, State::Differs(_)));
    assert_eq!(stored(&report.endpoint_slices), [(not_known("list nodes"), old())]);
    let seen = &report.pods.as_ref().unwrap()[0];
    let want = [
        "Endpoints: ready http:8080/TCP",
        "IPv4 slices: no permission to list nodes",
    ];
    assert_eq!(
        (seen.mark, &*said(seen)),
        (Mark::NotKnown, &want.map(str::to_owned)[..])
    );
    assert!(!report.in_order);

    let mut world = all();
    (world.pods, world.nodes, world.everywhere) = (None, None, None);
    let report = world.report();
    assert!(report.pods.is_none() && report.dns.is_some() && !report.in_order);
    assert_eq!(stored(&report.endpoints), [(not_known("list pods"), old())]);
    let both = not_known("list pods and list nodes");
    assert_eq!(stored(&report.endpoint_slices), [(both.clone(), old())]);
    assert_eq!(report.kube_proxy.unwrap().ports[0].endpoints, ["10.1.0.9:8080"]);
    // Nothing stored, which may be right or wrong.
    (world.endpoints, world.slices) = (Some(Vec::new()), Some(Vec::new()));
    let report = world.report();
    let nothing = |compared: Option<Vec<Compared>>| {
        let compared = compared.unwrap();
        let it = &compared[0];
        assert!(compared.len() == 1 && it.name.is_none() && it.stored.is_empty() && it.expected.is_empty());
        it.state.clone()
    };
    assert_eq!(nothing(report.endpoints), not_known("list pods"));
    assert_eq!(nothing(report.endpoint_slices), both);

    // What is stored may not be read: what should be is known all the same.
    let mut world = all();
    (world.endpoints, world.slices) = (None, None);
    let report = world.report();
    assert!(report.endpoints.is_none() && report.endpoint_slices.is_none() && report.kube_proxy.is_none());
    assert_eq!(report.pods.unwrap()[0].mark, Mark::In);

    // What is mirrored hangs on the Endpoints.
    let mut world = all();
    world.service["spec"].as_object_mut().unwrap().remove("selector");
    (world.endpoints, world.slices) = (None, Some(Vec::new()));
    assert_eq!(nothing(world.report().endpoint_slices), not_known("get endpoints"));
}

/// As the apiserver's own reconciler writes them.
#[test]
fn what_the_apiserver_keeps_itself_is_no_drift() {
    let own = |object: Value| {
        let mut object = with(object, "/metadata/namespace", json!("default"));
        object["metadata"]["name"] = json!("kubernetes");
        object
    };
    let mut service = own(web());
    service["spec"].as_object_mut().unwrap().remove("selector");
    let mut world = World::new(service, []);
    let report = world.report();
    assert!(report.in_order && report.service.kept_by_apiserver, "{report:?}");
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let endpoints = own(with(endpoints_of_web(&["192.0.2.1"], &[]), "/metadata/labels", labels));
    let mut slice = own(slice_of_web("", &[("192.0.2.1", true)]));
    slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": "kubernetes"});
    let mut stale = with(slice.clone(), "/metadata/name", json!("kubernetes-a"));
    stale["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
        json!("endpointslicemirroring-controller.k8s.io");
    (world.endpoints, world.slices) = (Some(vec![endpoints]), Some(vec![slice, stale]));
    let report = world.report();
    let keeps = "the apiserver keeps it itself";
    assert_eq!(report.endpoints.unwrap()[0].state, State::LeftAlone(keeps.into()));
    let slices = report.endpoint_slices.unwrap();
    let [stale, slice] = &slices[..] else {
        panic!("{slices:?}")
    };
    assert_eq!(
        slice.state,
        State::LeftAlone(format!("{keeps}; kube-proxy and DNS read it too"))
    );
    assert_eq!(slice.stored[0].endpoints[0].addresses, ["192.0.2.1"]);
    assert!(matches!(&stale.state, State::LeftAlone(why) if why.contains("nobody removes")));
    assert_eq!((report.in_order, report.mirroring), (true, Vec::new()));
}

#[test]
fn the_address_of_a_load_balancer_is_pending_until_somebody_writes_it() {
    let mut service = with(web(), "/spec/type", json!("LoadBalancer"));
    service["spec"]["loadBalancerClass"] = json!("example.com/lb");
    service["spec"]["ports"][0]["nodePort"] = json!(30080);
    let about = World::new(service.clone(), []).report().service;
    assert_eq!(about.load_balancer, Some(Vec::new()));
    assert_eq!(about.load_balancer_class.as_deref(), Some("example.com/lb"));
    assert_eq!(about.ports, ["http 80/TCP -> http, nodePort 30080"]);
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.5"}, {"hostname": "lb.example.com"}]}});
    let about = World::new(service, []).report().service;
    assert_eq!(about.load_balancer.unwrap(), ["192.0.2.5", "lb.example.com"]);
    assert_eq!(World::new(web(), []).report().service.load_balancer, None);
}

#[test]
fn near_misses_here_and_elsewhere() {
    let mut world = World::new(
        web(),
        [with(pod("typo", &["10.1.0.1"]), "/metadata/labels/app", json!("webb"))],
    );
    world.everywhere = Some(vec![
        with(pod("twin", &["10.1.0.2"]), "/metadata/namespace", json!("stage")),
        pod("own", &[]),
    ]);
    let misses = world.report().near_misses;
    let misses: Vec<_> = misses.iter().map(|it| (&*it.namespace, &*it.name, &*it.why)).collect();
    let want = [
        ("shop", "typo", r#"label app is "webb", not "web""#),
        (
            "stage",
            "twin",
            "its labels match, but a Service has Pods of its own namespace only",
        ),
    ];
    assert_eq!(misses, want);
}

#[test]
fn variables_that_two_services_set_are_named() {
    let mut world = World::new(web(), []);
    let mut other = with(web(), "/metadata/name", json!("web-service"));
    other["spec"]["clusterIP"] = json!("10.96.0.8");
    world.services.as_mut().unwrap().push(other);
    let environment = world.report().environment;
    assert_eq!(environment.variables.len(), 8);
    // `WEB_SERVICE_PORT` is 80 for the one and `tcp://10.96.0.8:80` for the other.
    assert_eq!(
        environment.notes,
        ["Service web-service sets WEB_SERVICE_PORT too: which of the two wins is left to chance"]
    );
}
