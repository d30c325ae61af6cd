//! How a Service and its cluster are named.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::{binaries, cluster};
use tokio::process::Command;

use super::run::{run, web};

/// The shared cluster's kubeconfig, whose context has this namespace.
fn kubeconfig_in(directory: &tempfile::TempDir, namespace: &str) -> PathBuf {
    let text = std::fs::read_to_string(cluster::shared().kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["contexts"][0]["context"]["namespace"] = json!(namespace);
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[tokio::test]
async fn as_kubectls_users_type_it() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    web(&namespace).port("http", 80, 8080).create(&namespace).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (here, shared) = (
        kubeconfig_in(&directory, namespace.name()),
        cluster::shared().kubeconfig(),
    );
    let (ns, key) = (namespace.name(), format!("{}/web", namespace.name()));
    let heading = format!("Service {key}  ClusterIP ");
    let table: [(&PathBuf, &[&str]); 5] = [
        (&shared, &[&key]),
        (&shared, &["-n", ns, "web"]),
        (&shared, &["web", "--namespace", ns]),
        (&shared, &["-n", ns, &key]),
        (&here, &["web"]),
    ];
    for (kubeconfig, args) in table {
        let ran = run(kubeconfig, args).await;
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{args:?}");
        assert!(ran.stdout.starts_with(&heading), "{args:?}: {}", ran.stdout);
    }
    // The flag goes before the context, and without either it is `default`.
    let table: [(&PathBuf, &[&str]); 2] = [(&here, &["-n", "default", "web"]), (&shared, &["web"])];
    for (kubeconfig, args) in table {
        let ran = run(kubeconfig, args).await;
        let want = "error: there is no Service web in namespace default; there is a Service web in ";
        assert!(
            ran.code == 1 && ran.stderr.starts_with(want),
            "{args:?}: {}",
            ran.stderr
        );
    }
    let ran = run(&shared, &["-n", "default", &key]).await;
    let want = format!("error: --namespace=default and {key} are two namespaces: leave out one\n");
    assert_eq!((ran.code, ran.stderr), (2, want));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = kubeconfig_in(&directory, "default");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    // Nobody listens on port 1.
    config["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    std::fs::write(&path, config.to_string()).unwrap();
    let ran = run(&path, &["web"]).await;
    let want = "error: cannot read the Service from https://127.0.0.1:1/: no answer from the apiserver: ";
    assert!(ran.code == 1 && ran.stderr.starts_with(want), "{}", ran.stderr);
}

#[tokio::test]
async fn without_a_cluster_it_says_where_it_has_looked() {
    let mut command = Command::new(binaries::svcplane().unwrap());
    command.args(["explain", "web"]).stdin(Stdio::null()).kill_on_drop(true);
    for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
        command.env_remove(name);
    }
    command.env("HOME", "/nowhere");
    let output = command.output().await.unwrap();
    let want = "error: no cluster to connect to; tried --kubeconfig (not given), KUBECONFIG (not set), in-cluster \
        (KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set), ~/.kube/config (/nowhere/.kube/config does not exist)\n";
    let told = (output.status.code(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(told, (Some(1), want.to_owned()));
    let ran = run("/nowhere/config".as_ref(), &["web"]).await;
    let want = "error: KUBECONFIG: cannot use /nowhere/config: No such file or directory (os error 2)\n";
    assert_eq!((ran.code, &*ran.stderr), (1, want));
}
