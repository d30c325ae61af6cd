//! The wrapper around svcplane's process, with a shell script in svcplane's place.

use std::time::Duration;

use svcplane_tests::process::Exit;
use svcplane_tests::svcplane::{Builder, Svcplane};

const DEADLINE: Duration = Duration::from_secs(20);

fn script(text: &str) -> Builder {
    Svcplane::builder().program("/bin/sh", &["-c", text, "svcplane"])
}

const LISTENING: &str = r#"
echo '{"level":"INFO","fields":{"message":"admin server listening","address":"127.0.0.1:1"}}' >&2
echo '{"level":"INFO","message":"debug server listening","address":"127.0.0.1:2"}'
trap 'exit 3' TERM
while :; do sleep 0.01; done
"#;

#[tokio::test]
async fn addresses_are_read_from_the_log() {
    let svcplane = script(LISTENING).replica(2).start().await.unwrap();
    assert_eq!(
        (svcplane.admin_url(), svcplane.debug_url()),
        ("http://127.0.0.1:1", "http://127.0.0.1:2")
    );
    assert_eq!(svcplane.log_lines().len(), 2);
    assert_eq!(svcplane.log_entries("admin server listening").len(), 1);
    assert!(svcplane.log_entries("admin server").is_empty());
    assert!(svcplane.readyz().await.is_err(), "nobody listens there");
    assert_eq!(svcplane.terminate().await.unwrap(), Exit::Code(3));
}

#[tokio::test]
async fn an_early_end_is_an_error_with_the_log() {
    let error = script("echo no such kubeconfig >&2; exit 1")
        .start()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("exit code 1") && error.contains("no such kubeconfig"),
        "{error}"
    );

    let svcplane = script("echo no such kubeconfig >&2; exit 1").spawn().unwrap();
    assert_eq!(svcplane.wait_exit(DEADLINE).await.unwrap(), Exit::Code(1));
    assert_eq!(svcplane.stderr(), "no such kubeconfig\n");
}

#[tokio::test]
async fn flags_replace_those_of_the_same_name() {
    let builder = script("echo \"$@\"; exit 0")
        .kubeconfig("a")
        .arg("--mode=observe")
        .kubeconfig("b");
    let svcplane = builder
        .without("--acknowledge-builtins-disabled")
        .env("A", "b")
        .spawn()
        .unwrap();
    svcplane.wait_exit(DEADLINE).await.unwrap();
    assert_eq!(
        svcplane.stdout().trim(),
        "--admin-address=127.0.0.1:0 --debug-address=127.0.0.1:0 \
         --leader-elect-resource-namespace=kube-system --log-format=json --mode=observe --kubeconfig=b"
    );
}

#[tokio::test]
async fn a_paused_process_goes_on() {
    let svcplane = script(LISTENING).start().await.unwrap();
    svcplane.stop();
    svcplane.signal(svcplane_tests::process::Signal::TERM);
    assert!(
        svcplane.wait_exit(Duration::from_millis(200)).await.is_err(),
        "it is stopped"
    );
    svcplane.cont();
    assert_eq!(svcplane.wait_exit(DEADLINE).await.unwrap(), Exit::Code(3));
    assert!(script(LISTENING).start().await.unwrap().kill9().await.unwrap() == Exit::Signal(9));
}
