//! A cluster whose primary family is IPv6: a Service that asks for nothing gets IPv6 Endpoints.

use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{pod, service};
use svcplane_tests::svcplane::Svcplane;

#[tokio::test]
async fn the_family_is_the_services_and_not_ours() {
    let cluster = Cluster::start(Flavour::Ipv6Primary).await.unwrap();
    let svcplane = Svcplane::builder().cluster(&cluster).start().await.unwrap();
    svcplane.wait_leader().await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let web = |name| pod(name).label("app", "web");
    let pods = [
        web("both").ip("fd00:77::1").ip("10.1.0.1"),
        web("both-v4-first").ip("10.1.0.2").ip("fd00:77::2"),
        web("v4").ip("10.1.0.3"),
        web("v6").ip("fd00:77::4"),
    ];
    for one in pods {
        one.create(&namespace).await.unwrap();
    }
    let to_web = |name| service(name).selector("app", "web").port("", 80, 80);
    let (v4, v6) = (
        "10.1.0.1 10.1.0.2 10.1.0.3 -> :80/TCP",
        "fd00:77::1 fd00:77::2 fd00:77::4 -> :80/TCP",
    );
    let table = [
        (to_web("default"), v6),
        (to_web("headless").headless(), v6),
        (to_web("prefer").families("PreferDualStack", &["IPv6", "IPv4"]), v6),
        (to_web("v4-first").families("RequireDualStack", &["IPv4", "IPv6"]), v4),
        (to_web("v4").families("SingleStack", &["IPv4"]), v4),
    ];
    for (builder, line) in table {
        let name = builder.create(&namespace).await.unwrap().metadata.name.unwrap();
        namespace.endpoints_become(&name, &[line]).await.unwrap();
    }
}
