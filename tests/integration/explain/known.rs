//! Services of Kubernetes' documentation, with the values that they are known by.

use http::header::{CONTENT_TYPE, WARNING};
use http::{Request, StatusCode};
use kube::ResourceExt as _;
use kube::api::PostParams;
use kube::client::Body;
use serde_json::{Value, json};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, endpoints, service};

use super::run::{cluster_ip, namespace, run, screen, section, web_pod};

/// `redis-master` and the seven variables of its clients.
#[tokio::test]
async fn environment_of_redis_master() {
    let builder = Cluster::builder(Flavour::DualStack).service_ranges("10.0.0.0/16,fd00:10:96::/112");
    let cluster = builder.start().await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let redis = service("redis-master")
        .selector("app", "redis")
        .selector("role", "master");
    let redis = redis.cluster_ip("10.0.0.11").port("", 6379, 6379);
    redis.create(&namespace).await.unwrap();
    let ran = run(&cluster.kubeconfig(), &["-n", namespace.name(), "redis-master"]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""));
    let want = [
        "REDIS_MASTER_SERVICE_HOST=10.0.0.11",
        "REDIS_MASTER_SERVICE_PORT=6379",
        "REDIS_MASTER_PORT=tcp://10.0.0.11:6379",
        "REDIS_MASTER_PORT_6379_TCP=tcp://10.0.0.11:6379",
        "REDIS_MASTER_PORT_6379_TCP_PROTO=tcp",
        "REDIS_MASTER_PORT_6379_TCP_PORT=6379",
        "REDIS_MASTER_PORT_6379_TCP_ADDR=10.0.0.11",
    ];
    assert_eq!(section(&ran.stdout, "Environment"), want);
}

/// Makes `mysql-service` with Endpoints outside the cluster, whose address has a host name; returns the name of the mirror.
async fn mysql(namespace: &TestNamespace, service: ServiceBuilder) -> String {
    let mut outside = endpoints("mysql-service")
        .subset(&["192.168.1.108"], &[("", 3306)])
        .build();
    outside.subsets.as_mut().unwrap()[0].addresses.as_mut().unwrap()[0].hostname = Some("mysql-service".into());
    service.port("", 3306, 3306).create(namespace).await.unwrap();
    let params = PostParams::default();
    namespace.endpoints().create(&params, &outside).await.unwrap();
    let mirrored = ["IPv4 192.168.1.108/r??(mysql-service) -> :3306/TCP"];
    let slices = namespace.slices_become("mysql-service", &mirrored).await.unwrap();
    slices[0].name_any()
}

#[tokio::test]
async fn mysql_outside_the_cluster() {
    let namespace = namespace().await;
    let mirror = mysql(&namespace, service("mysql-service")).await;
    let screen = screen(&namespace, "mysql-service").await;
    let slice = format!("{mirror} IPv4  192.168.1.108 -> 3306/TCP  same");
    assert_eq!(section(&screen, "EndpointSlices"), [slice]);
    let stored = namespace.services().get("mysql-service").await.unwrap();
    let leads = format!("{}:3306 TCP -> 192.168.1.108:3306", cluster_ip(&stored));
    assert_eq!(section(&screen, "kube-proxy")[0], leads);
    let own = format!("mysql-service.{}.svc.cluster.local", namespace.name());
    assert_eq!(section(&screen, "DNS")[0], format!("{own}  A  {}", cluster_ip(&stored)));
}

#[tokio::test]
async fn mysql_outside_the_cluster_headless() {
    let namespace = namespace().await;
    let mirror = mysql(&namespace, service("mysql-service").headless()).await;
    let screen = screen(&namespace, "mysql-service").await;
    let slice = format!("{mirror} IPv4  192.168.1.108 -> 3306/TCP  same");
    assert_eq!(section(&screen, "EndpointSlices"), [slice]);
    let own = format!("mysql-service.{}.svc.cluster.local", namespace.name());
    let want = [
        format!("{own}  A  192.168.1.108"),
        format!("mysql-service.{own}  A  192.168.1.108"),
        format!("108.1.168.192.in-addr.arpa  PTR  mysql-service.{own}"),
    ];
    assert_eq!(section(&screen, "DNS"), want);
}

/// What the apiserver says to this Service: the status, the body, the Warnings.
async fn post(namespace: &TestNamespace, service: &Value, validation: &str) -> (StatusCode, String, Vec<String>) {
    let path = format!(
        "/api/v1/namespaces/{}/services?fieldValidation={validation}",
        namespace.name()
    );
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(service.to_string().into_bytes()))
        .unwrap();
    let answer = namespace.client().send(request).await.unwrap();
    let warnings = answer.headers().get_all(WARNING).iter();
    let warnings = warnings.map(|it| it.to_str().unwrap().to_owned()).collect();
    let status = answer.status();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap(), warnings)
}

/// The field is `externalIPs`; `externalIP` goes round, too, and is nothing to the apiserver.
#[tokio::test]
async fn external_ips_in_both_spellings() {
    let namespace = namespace().await;
    let of = |name: &str, field: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {
            "selector": {"app": "MyApp"}, "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 9376}],
            field: ["80.11.12.10"]}})
    };
    let unknown = r#"unknown field \"spec.externalIP\""#;
    let (status, body, _) = post(&namespace, &of("wrong", "externalIP"), "Strict").await;
    assert!(status == StatusCode::BAD_REQUEST && body.contains(unknown), "{body}");
    let (status, body, warnings) = post(&namespace, &of("wrong", "externalIP"), "Warn").await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert!(warnings.len() == 1 && warnings[0].contains(unknown), "{warnings:?}");
    let (status, body, warnings) = post(&namespace, &of("my-service", "externalIPs"), "Strict").await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert!(
        warnings.len() == 1 && warnings[0].contains("spec.externalIPs is deprecated"),
        "{warnings:?}"
    );

    let stored = namespace.services().get("my-service").await.unwrap();
    let frontends = format!("{}:80 80.11.12.10:80", cluster_ip(&stored));
    let proxied = screen(&namespace, "my-service").await;
    let proxied = section(&proxied, "kube-proxy");
    assert_eq!(proxied[0], format!("{frontends} TCP -> no endpoints"));
    assert_eq!(
        proxied[1],
        format!("iptables  refuses connections to {frontends}: no endpoints (REJECT)")
    );
    let without = screen(&namespace, "wrong").await;
    assert!(!without.contains("80.11.12.10"), "{without}");
}

/// One port number on two protocols, kept apart by name.
#[tokio::test]
async fn kube_dns() {
    let namespace = namespace().await;
    let kube_dns = service("kube-dns")
        .cluster_ip("10.96.0.10")
        .selector("app", namespace.name());
    let kube_dns = kube_dns.port_with_protocol("UDP", "dns", 53, 53);
    let kube_dns = kube_dns.port("dns-tcp", 53, 53).port("metrics", 9153, 9153);
    kube_dns.create(&namespace).await.unwrap();
    for (name, ip) in [("coredns-1", "10.244.1.3"), ("coredns-2", "10.244.2.3")] {
        web_pod(&namespace, name).ip(ip).create(&namespace).await.unwrap();
    }
    let slice = "IPv4 10.244.1.3/rs- 10.244.2.3/rs- -> dns-tcp:53/TCP dns:53/UDP metrics:9153/TCP";
    namespace.slices_become("kube-dns", &[slice]).await.unwrap();
    let screen = screen(&namespace, "kube-dns").await;
    let proxied = [
        "10.96.0.10:53 UDP -> 10.244.1.3:53 10.244.2.3:53",
        "10.96.0.10:53 TCP -> 10.244.1.3:53 10.244.2.3:53",
        "10.96.0.10:9153 TCP -> 10.244.1.3:9153 10.244.2.3:9153",
    ];
    assert_eq!(section(&screen, "kube-proxy")[..3], proxied);
    let own = format!("kube-dns.{}.svc.cluster.local", namespace.name());
    let dns = [
        format!("{own}  A  10.96.0.10"),
        format!("_dns._udp.{own}  SRV  53 {own}"),
        format!("_dns-tcp._tcp.{own}  SRV  53 {own}"),
        format!("_metrics._tcp.{own}  SRV  9153 {own}"),
        format!("10.0.96.10.in-addr.arpa  PTR  {own}"),
    ];
    assert_eq!(section(&screen, "DNS"), dns);
    let environment = [
        "KUBE_DNS_SERVICE_HOST=10.96.0.10",
        "KUBE_DNS_SERVICE_PORT=53",
        "KUBE_DNS_SERVICE_PORT_DNS=53",
        "KUBE_DNS_SERVICE_PORT_DNS_TCP=53",
        "KUBE_DNS_SERVICE_PORT_METRICS=9153",
        "KUBE_DNS_PORT=udp://10.96.0.10:53",
        "KUBE_DNS_PORT_53_UDP=udp://10.96.0.10:53",
        "KUBE_DNS_PORT_53_UDP_PROTO=udp",
        "KUBE_DNS_PORT_53_UDP_PORT=53",
        "KUBE_DNS_PORT_53_UDP_ADDR=10.96.0.10",
        "KUBE_DNS_PORT_53_TCP=tcp://10.96.0.10:53",
        "KUBE_DNS_PORT_53_TCP_PROTO=tcp",
        "KUBE_DNS_PORT_53_TCP_PORT=53",
        "KUBE_DNS_PORT_53_TCP_ADDR=10.96.0.10",
        "KUBE_DNS_PORT_9153_TCP=tcp://10.96.0.10:9153",
        "KUBE_DNS_PORT_9153_TCP_PROTO=tcp",
        "KUBE_DNS_PORT_9153_TCP_PORT=9153",
        "KUBE_DNS_PORT_9153_TCP_ADDR=10.96.0.10",
    ];
    assert_eq!(section(&screen, "Environment"), environment);
}
