//! What the screen says of each kind of Service.

use kube::ResourceExt as _;
use serde_json::{Value, json};
use svcplane_tests::cluster;
use svcplane_tests::objects::{endpoints, pod, service};

use super::run::{cluster_ip, namespace, run, screen, section, web, web_pod, web_with_a_pod};

#[tokio::test]
async fn healthy() {
    let namespace = namespace().await;
    let stored = web(&namespace).port("http", 80, 8080).create(&namespace).await.unwrap();
    web_pod(&namespace, "p1")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["10.1.0.1 -> http:8080/TCP"])
        .await
        .unwrap();
    let slice = namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- -> http:8080/TCP"])
        .await
        .unwrap()[0]
        .name_any();
    let (ns, ip) = (namespace.name(), cluster_ip(&stored));
    let mut octets: Vec<&str> = ip.split('.').collect();
    octets.reverse();
    let reverse = octets.join(".");
    let want = format!(
        "\
Service {ns}/web  ClusterIP {ip}
  selector app={ns}
  port http 80/TCP -> 8080

Values
  {ip}  in no pool, in the upper band of 10.96.0.0/16; named in no request: chosen at admission, as by svcplane, or by the apiserver

Pods
  in      p1  10.1.0.1 on node-1
          Endpoints, IPv4 slices: ready -> http:8080/TCP

Endpoints
  web  10.1.0.1 -> http:8080/TCP  same

EndpointSlices
  {slice} IPv4  10.1.0.1 -> http:8080/TCP  same

DNS, as stored now
  web.{ns}.svc.cluster.local  A  {ip}
  _http._tcp.web.{ns}.svc.cluster.local  SRV  80 web.{ns}.svc.cluster.local
  {reverse}.in-addr.arpa  PTR  web.{ns}.svc.cluster.local

Environment of containers that start now in {ns}
  WEB_SERVICE_HOST={ip}
  WEB_SERVICE_PORT=80
  WEB_SERVICE_PORT_HTTP=80
  WEB_PORT=tcp://{ip}:80
  WEB_PORT_80_TCP=tcp://{ip}:80
  WEB_PORT_80_TCP_PROTO=tcp
  WEB_PORT_80_TCP_PORT=80
  WEB_PORT_80_TCP_ADDR={ip}

kube-proxy, as stored now
  {ip}:80 TCP -> 10.1.0.1:8080
  iptables  sends each new connection to an endpoint at random
  nftables  sends each new connection to an endpoint at random
  ipvs      sends each new connection to the next endpoint (scheduler rr, unless it is told otherwise)
"
    );
    assert_eq!(screen(&namespace, "web").await, want);

    let (key, kubeconfig) = (format!("{ns}/web"), cluster::shared().kubeconfig());
    let ran = run(&kubeconfig, &[&key, "--check", "-o", "json"]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["inOrder"], true);
    assert_eq!(json["pods"][0]["mark"], "in");
    assert_eq!(
        json["endpointSlices"][0]["stored"],
        json["endpointSlices"][0]["expected"]
    );
    assert_eq!(json["service"]["clusterIPs"], json!([ip]));
}

/// Kubernetes' documentation: `busybox-1.default-subdomain`.
#[tokio::test]
async fn headless() {
    let namespace = namespace().await;
    let subdomain = service("default-subdomain")
        .headless()
        .selector("name", namespace.name())
        .port("foo", 1234, 1234);
    subdomain.create(&namespace).await.unwrap();
    let busybox = pod("busybox1")
        .label("name", namespace.name())
        .hostname("busybox-1", "default-subdomain");
    busybox.ip("10.1.0.1").create(&namespace).await.unwrap();
    namespace
        .slices_become("default-subdomain", &["IPv4 10.1.0.1/rs-(busybox-1) -> foo:1234/TCP"])
        .await
        .unwrap();
    let screen = screen(&namespace, "default-subdomain").await;
    let own = format!("default-subdomain.{}.svc.cluster.local", namespace.name());
    let want = [
        format!("{own}  A  10.1.0.1"),
        format!("busybox-1.{own}  A  10.1.0.1"),
        format!("_foo._tcp.{own}  SRV  1234 busybox-1.{own}"),
        format!("1.0.1.10.in-addr.arpa  PTR  busybox-1.{own}"),
    ];
    assert_eq!(section(&screen, "DNS"), want);
    assert_eq!(
        section(&screen, "Environment"),
        ["none: only a Service with a clusterIP has them"]
    );
    let nothing = "does nothing: the Service is headless: clients connect to the endpoints that DNS names";
    assert_eq!(section(&screen, "kube-proxy"), [nothing]);
}

#[tokio::test]
async fn dual_stack() {
    let namespace = namespace().await;
    let both = web(&namespace)
        .families("RequireDualStack", &["IPv4", "IPv6"])
        .port("http", 80, 8080);
    let stored = both.create(&namespace).await.unwrap();
    web_pod(&namespace, "both")
        .ip("10.1.0.1")
        .ip("fd00:77::1")
        .create(&namespace)
        .await
        .unwrap();
    web_pod(&namespace, "four")
        .ip("10.1.0.2")
        .create(&namespace)
        .await
        .unwrap();
    let slices = [
        "IPv4 10.1.0.1/rs- 10.1.0.2/rs- -> http:8080/TCP",
        "IPv6 fd00:77::1/rs- -> http:8080/TCP",
    ];
    namespace.slices_become("web", &slices).await.unwrap();
    namespace
        .endpoints_become("web", &["10.1.0.1 10.1.0.2 -> http:8080/TCP"])
        .await
        .unwrap();
    let screen = screen(&namespace, "web").await;
    let want = [
        "in      both  10.1.0.1 fd00:77::1 on node-1",
        "Endpoints, IPv4 slices, IPv6 slices: ready -> http:8080/TCP",
        "partly  four  10.1.0.2 on node-1",
        "Endpoints, IPv4 slices: ready -> http:8080/TCP",
        "IPv6 slices: out, it has no IPv6 address",
    ];
    assert_eq!(section(&screen, "Pods"), want);
    let ips = stored.spec.unwrap().cluster_ips.unwrap();
    let dns = section(&screen, "DNS");
    let own = format!("web.{}.svc.cluster.local", namespace.name());
    assert_eq!(
        dns[..2],
        [format!("{own}  A  {}", ips[0]), format!("{own}  AAAA  {}", ips[1])]
    );
    let proxied = section(&screen, "kube-proxy");
    let want = [
        format!("{}:80 TCP -> 10.1.0.1:8080 10.1.0.2:8080", ips[0]),
        format!("[{}]:80 TCP -> [fd00:77::1]:8080", ips[1]),
    ];
    assert_eq!(proxied[..2], want);
    assert!(
        section(&screen, "EndpointSlices")
            .iter()
            .all(|line| line.ends_with("  same")),
        "{screen}"
    );
}

/// Kubernetes' documentation: a Service without a selector, and Endpoints of its name.
#[tokio::test]
async fn without_a_selector() {
    let namespace = namespace().await;
    let stored = service("my-service")
        .port("", 80, 9376)
        .create(&namespace)
        .await
        .unwrap();
    assert_eq!(
        section(&screen(&namespace, "my-service").await, "Mirroring"),
        ["nothing to mirror: there are no Endpoints named my-service"]
    );
    endpoints("my-service")
        .subset(&["192.0.2.42"], &[("", 9376)])
        .create(&namespace)
        .await
        .unwrap();
    let mirrored = namespace
        .slices_become("my-service", &["IPv4 192.0.2.42/r?? -> :9376/TCP"])
        .await
        .unwrap();
    let screen = screen(&namespace, "my-service").await;
    assert!(
        screen.contains("\n  selector none\n") && !screen.contains("\nPods\n"),
        "{screen}"
    );
    let left = "my-service  192.0.2.42 -> 9376/TCP  left alone: made by hand: the Service has no selector";
    assert_eq!(section(&screen, "Endpoints"), [left]);
    let slice = format!("{} IPv4  192.0.2.42 -> 9376/TCP  same", mirrored[0].name_any());
    assert_eq!(section(&screen, "EndpointSlices"), [slice]);
    let mirroring = ["the Endpoints made by hand are mirrored into EndpointSlices"];
    assert_eq!(section(&screen, "Mirroring"), mirroring);
    let leads = format!("{}:80 TCP -> 192.0.2.42:9376", cluster_ip(&stored));
    assert_eq!(section(&screen, "kube-proxy")[0], leads);
}

/// What the controllers have made stays, and nobody follows the Pods any more.
#[tokio::test]
async fn whose_selector_was_taken_off() {
    let namespace = namespace().await;
    web_with_a_pod(&namespace).await;
    let made = namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- -> http:8080/TCP"])
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["10.1.0.1 -> http:8080/TCP"])
        .await
        .unwrap();
    let off = json!({"spec": {"selector": null}});
    namespace.patch_service("web", &off).await.unwrap();
    let told = screen(&namespace, "web").await;
    let row = "10.1.0.1 -> http:8080/TCP  left alone: made";
    let endpoints = format!(
        "web  {row} by a controller from a selector that the Service no longer has; nobody changes it now, and its addresses stay as they are"
    );
    assert_eq!(section(&told, "Endpoints"), [endpoints]);
    let slice = format!(
        "{} IPv4  {row} from a selector that the Service no longer has; nobody changes or removes it",
        made[0].name_any()
    );
    assert_eq!(section(&told, "EndpointSlices")[0], slice);
    let mirroring = "the Endpoints that a controller has made are mirrored into EndpointSlices: without a selector their addresses stay as they are";
    assert_eq!(section(&told, "Mirroring"), [mirroring]);
}

#[tokio::test]
async fn external_name() {
    let namespace = namespace().await;
    service("my-service")
        .external_name("my.database.example.com")
        .create(&namespace)
        .await
        .unwrap();
    let screen = screen(&namespace, "my-service").await;
    let ns = namespace.name();
    let want = format!(
        "\
Service {ns}/my-service  ExternalName my.database.example.com
  selector none

Endpoints
  none, and there should be none

EndpointSlices
  none, and there should be none

DNS, as stored now
  my-service.{ns}.svc.cluster.local  CNAME  my.database.example.com

Environment of containers that start now in {ns}
  none: only a Service with a clusterIP has them

kube-proxy, as stored now
  does nothing: an ExternalName Service is only a name in DNS
"
    );
    assert_eq!(screen, want);
}
