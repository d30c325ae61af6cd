//! Are the environment variables that `svcplane explain` shows those that the real kubelet's package makes, byte for byte?

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::ListParams;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, service};
use svcplane_tests::{binaries, cluster, ran};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

const SERVICES: usize = 60;
const SEED: u64 = 1406;
const SOON: Duration = Duration::from_secs(30);

/// Builds the program around the kubelet's package.
async fn kubelets_program() -> PathBuf {
    let program = binaries::profile_dir().unwrap().join("envvars");
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/tools");
    let mut build = Command::new("go");
    build
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg("./envvars")
        .current_dir(tools);
    let built = build
        .output()
        .await
        .expect("Go is needed to build tests/tools/envvars: https://go.dev/dl");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

async fn kubelets(services: &[Service]) -> Vec<Vec<String>> {
    let mut command = Command::new(kubelets_program().await);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&serde_json::to_vec(services).unwrap()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn ours(namespace: &TestNamespace, name: &str) -> Vec<String> {
    let key = format!("{}/{name}", namespace.name());
    let arguments = ["explain", &key, "-o", "json"];
    let ran = ran::svcplane(&cluster::shared().kubeconfig(), &arguments, SOON).await;
    let report: Value = serde_json::from_str(&ran.unwrap().succeeded().unwrap()).unwrap();
    let variables = report["environment"]["variables"].as_array().unwrap().iter();
    let line = |it: &Value| format!("{}={}", it["name"].as_str().unwrap(), it["value"].as_str().unwrap());
    variables.map(line).collect()
}

fn random_service(number: usize, random: &mut StdRng) -> ServiceBuilder {
    let stems = ["redis-master", "a--b", "web", "kube-dns", "kubernetes", "0digit"];
    let mut built = service(&format!("{}-{number}", stems.choose(random).unwrap()));
    let count = random.random_range(1..=4);
    for port in 0..count {
        let name = match count {
            1 if random.random_bool(0.5) => String::new(),
            _ => format!("{}-{port}", ["http", "dns-tcp", "p"].choose(random).unwrap()),
        };
        let number = *[53, 80, 443, 6379, 65535].choose(random).unwrap();
        // One number may stand for each protocol once.
        let protocol = ["TCP", "UDP", "SCTP"][port % 3];
        built = built.port_with_protocol(protocol, &name, number + i32::from(port == 3) * -7, 80);
    }
    match random.random_range(0..6) {
        0 => built.families("SingleStack", &["IPv6"]),
        1 => built.families("RequireDualStack", &["IPv6", "IPv4"]),
        2 => built.families("RequireDualStack", &["IPv4", "IPv6"]),
        3 => built.headless(),
        _ => built,
    }
}

#[tokio::test]
async fn they_are_the_kubelets() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let mut random = StdRng::seed_from_u64(SEED);
    for number in 0..SERVICES {
        random_service(number, &mut random).create(&namespace).await.unwrap();
    }
    service("gone")
        .external_name("example.com")
        .create(&namespace)
        .await
        .unwrap();
    let stored = namespace.services().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(stored.len(), SERVICES + 1);
    let want = kubelets(&stored).await;
    assert!(want.iter().filter(|lines| !lines.is_empty()).count() > SERVICES / 2);
    for (service, want) in stored.iter().zip(want) {
        assert_eq!(
            ours(&namespace, &service.name_any()).await,
            want,
            "{}",
            service.name_any()
        );
    }
}
