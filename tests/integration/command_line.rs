//! What a person sees: one clear line for what is wrong, exit codes, the log, the state.

use std::net::TcpListener;
use std::process::{Output, Stdio};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use serde_json::Value;
use svcplane_tests::binaries;
use svcplane_tests::cluster;
use svcplane_tests::namespace::{TestNamespace, create_named};
use svcplane_tests::process::Exit;
use svcplane_tests::proxy::FaultProxy;
use svcplane_tests::svcplane::Svcplane;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

const SOON: Duration = Duration::from_secs(30);

/// Runs a program to its end, with this on its standard input.
async fn run(program: &std::path::Path, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_remove("KUBECONFIG")
        .env_remove("POD_NAMESPACE")
        .env("HOME", "/nowhere")
        .kill_on_drop(true);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    tokio::time::timeout(SOON, child.wait_with_output())
        .await
        .expect("it ends by itself")
        .unwrap()
}

/// Exit code and the only line on standard error.
async fn svcplane(args: &[&str]) -> (i32, String) {
    let output = run(&binaries::svcplane().unwrap(), args, "").await;
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    assert!(output.stdout.is_empty(), "{args:?}");
    (output.status.code().unwrap(), text)
}

#[tokio::test]
async fn a_wrong_flag_is_one_line_and_exit_code_2() {
    // Arguments, what is named, what would be right.
    let table: [(&[&str], &str, &str); 16] = [
        (
            &["run", "--mode=active"],
            "--mode=active",
            "--acknowledge-builtins-disabled",
        ),
        (&["run", "--mode=on"], "--mode", "observe, active"),
        (
            &["run", "--concurrent-endpoint-syncs=0"],
            "--concurrent-endpoint-syncs",
            "from 1 to 256",
        ),
        (
            &["run", "--endpoint-updates-batch-period=1"],
            "--endpoint-updates-batch-period",
            "1",
        ),
        (
            &["run", "--leader-elect-lease-duration=5s"],
            "--leader-elect-renew-deadline",
            "less than",
        ),
        (
            &["run", "--leader-elect-resource-namespace=A"],
            "--leader-elect-resource-namespace",
            "A",
        ),
        (
            &["run", "--debug-address=0.0.0.0:9809"],
            "--debug-address",
            "127.0.0.1:9809",
        ),
        (
            &["run", "--debug-address=[2001:db8::1]:9809"],
            "--debug-address",
            "[::1]:9809",
        ),
        (&["run", "--admin-address=9808"], "--admin-address", "9808"),
        (&["run", "--log-level=loud=loud=loud"], "--log-level", "info"),
        (
            &["run", "--max-endpoints-per-slice", "-5"],
            "--max-endpoints-per-slice",
            "from 1 to 1000",
        ),
        (
            &["run", "--controllers=-endpoints-controller"],
            "--controllers",
            "endpointslice-mirroring-controller",
        ),
        (
            &["run", "--mode=active", "--controllers=endpoints-controller"],
            "--acknowledge-builtins-disabled",
            "--controllers=*,-endpoints-controller, because",
        ),
        (
            &["explain", "shop/web", "--cluster-domain", "foo bar"],
            "--cluster-domain",
            "DNS-1123 subdomain",
        ),
        (&["run", "--mod=active"], "--mod", "--mode"),
        (&["rum"], "rum", "run"),
    ];
    for (args, named, right) in table {
        let (code, line) = svcplane(args).await;
        assert_eq!(code, 2, "{args:?}: {line}");
        assert!(
            line.starts_with("error: ") && line.contains(named) && line.contains(right),
            "{args:?}: {line}"
        );
    }
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_one_line_that_names_it_and_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let no_context = "apiVersion: v1\nkind: Config\ncurrent-context: prod\n";
    let no_url = r#"{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "not a url"}}], "users": [{"name": "u", "user": {}}]}"#;
    let table = [
        (absent, "No such file"),
        (file("broken", "clusters: [unclosed"), "line 1"),
        (file("wrong", "clusters: 7"), "line 1"),
        (file("empty", ""), "context"),
        (file("no-context", no_context), "prod"),
        (file("no-url", no_url), "invalid"),
    ];
    for (path, why) in table {
        let path = path.to_str().unwrap();
        let (code, line) = svcplane(&["run", &format!("--kubeconfig={path}")]).await;
        assert_eq!(code, 1, "{line}");
        assert!(
            line.contains("--kubeconfig") && line.contains(path) && line.contains(why),
            "{line}"
        );
    }
    let (code, line) = svcplane(&["run"]).await;
    assert_eq!(code, 1);
    for tried in ["--kubeconfig", "KUBECONFIG", "in-cluster", "/nowhere/.kube/config"] {
        assert!(line.contains(tried), "{tried}: {line}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_one_line_that_names_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let kubeconfig = format!("--kubeconfig={}", cluster::shared().kubeconfig().display());
    for flag in ["--admin-address", "--debug-address"] {
        let other = if flag == "--admin-address" {
            "--debug-address"
        } else {
            "--admin-address"
        };
        let flags = [format!("{flag}={address}"), format!("{other}=127.0.0.1:0")];
        let args = ["run", &kubeconfig, "--log-level=error", &flags[0], &flags[1]];
        let (code, line) = svcplane(&args).await;
        assert_eq!(code, 1, "{line}");
        assert!(line.contains(flag) && line.contains(&address.to_string()), "{line}");
    }
}

#[tokio::test]
async fn an_apiserver_that_does_not_answer_is_named_once_and_waited_for() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    proxy.refuse_connections().await.unwrap();
    let kubeconfig = proxy.kubeconfig(cluster::shared().admin_token()).unwrap();
    let builder = Svcplane::builder()
        .observe()
        .lease_in(&namespace)
        .kubeconfig(kubeconfig);
    let waiting = builder.start().await.unwrap();
    let says = |line: &String| line.contains("cannot reach the apiserver");
    let requests = "rest_client_requests_total";
    waiting
        .wait_metric(requests, &[("code", "<error>")], SOON, |it| it >= 3.0)
        .await
        .unwrap();
    let complaints: Vec<_> = waiting.log_lines().into_iter().filter(says).collect();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    let address = proxy.url();
    assert!(
        complaints[0].contains(&address) && complaints[0].contains("refused"),
        "{complaints:?}"
    );
    let (status, page) = waiting.get("/readyz").await.unwrap();
    assert!(!status.is_success() && page.contains("services"), "{status} {page}");
    proxy.accept_connections().await.unwrap();
    waiting.wait_idle().await.unwrap();
    let connected = waiting.log_entries("connected");
    assert!(
        connected.len() == 1 && connected[0]["waited"].is_string(),
        "{connected:?}"
    );
    assert_eq!(waiting.terminate().await.unwrap(), Exit::Code(0));
}

#[tokio::test]
async fn a_wrong_token_and_a_wrong_certificate_are_told_apart() {
    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let other_ca = {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.self_signed(&key).unwrap().pem()
    };
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, other_ca).unwrap();
    let config = serde_json::json!({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": cluster::shared().server_url(), "certificate-authority": ca}}],
        "users": [{"name": "u", "user": {"token": cluster::shared().admin_token()}}],
    });
    let wrong_ca = directory.path().join("kubeconfig");
    std::fs::write(&wrong_ca, config.to_string()).unwrap();
    for (kubeconfig, why) in [
        (
            proxy.kubeconfig("wrong").unwrap(),
            "does not accept these credentials (401)",
        ),
        (wrong_ca, "cannot reach the apiserver"),
    ] {
        let waiting = Svcplane::builder()
            .observe()
            .kubeconfig(kubeconfig)
            .start()
            .await
            .unwrap();
        let failed = waiting.wait_metric("rest_client_requests_total", &[], SOON, |it| it >= 2.0);
        failed.await.unwrap();
        let lines = waiting.log_lines();
        let errors: Vec<&String> = lines.iter().filter(|line| line.contains("ERROR")).collect();
        assert!(errors.len() == 1 && errors[0].contains(why), "{why}: {lines:?}");
        assert_eq!(
            errors[0].contains("certificate"),
            why.starts_with("cannot"),
            "{why}: {lines:?}"
        );
    }
}

#[tokio::test]
async fn a_lease_namespace_that_is_not_there_is_named() {
    let builder = Svcplane::builder().observe().cluster(cluster::shared());
    let nowhere = builder
        .arg("--leader-elect-resource-namespace=nowhere")
        .start()
        .await
        .unwrap();
    let create = [("method", "POST"), ("code", "404")];
    nowhere
        .wait_metric("rest_client_requests_total", &create, SOON, |it| it >= 2.0)
        .await
        .unwrap();
    let lines = nowhere.log_lines();
    let says: Vec<_> = lines.iter().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(says.len(), 1, "{lines:?}");
    let why = "namespace nowhere does not exist: create it, or name another with --leader-elect-resource-namespace";
    assert!(says[0].contains(why), "{says:?}");
    let (status, page) = nowhere.get("/readyz").await.unwrap();
    assert!(!status.is_success() && page.contains(why), "{page}");
    assert!(!nowhere.leads().await.unwrap());

    create_named(&cluster::shared().client(), "nowhere").await.unwrap();
    nowhere.wait_leader().await.unwrap();
    nowhere.wait_ready().await.unwrap();
    assert_eq!(nowhere.terminate().await.unwrap(), Exit::Code(0));
}

#[tokio::test]
async fn both_forms_of_the_log_are_what_they_say() {
    for format in ["text", "json"] {
        let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
        namespace.workload("web", &["10.201.0.1"]).await.unwrap();
        let builder = Svcplane::builder()
            .observe()
            .cluster(cluster::shared())
            .lease_in(&namespace);
        let svcplane = builder.arg(&format!("--log-format={format}")).spawn().unwrap();
        let held = |spec: &LeaseSpec| spec.holder_identity.is_some();
        namespace.wait_lease("a holder", SOON, held).await.unwrap();
        // It says so once the reply is in, which is after others see it.
        let end = tokio::time::Instant::now() + SOON;
        while !svcplane.stderr().contains("became leader") {
            assert!(tokio::time::Instant::now() < end, "{}", svcplane.stderr());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(svcplane.terminate().await.unwrap(), Exit::Code(0));
        assert_eq!(svcplane.stdout(), "");
        let text = svcplane.stderr();
        for line in text.lines() {
            assert!(!line.contains('\x1b'), "colour in a file: {line:?}");
            let entry: Option<Value> = serde_json::from_str(line).ok();
            let time = |text: &str| text.parse::<k8s_openapi::jiff::Timestamp>().is_ok();
            match entry {
                Some(entry) if format == "json" => {
                    let field = |name: &str| entry[name].as_str().unwrap_or_else(|| panic!("{name}: {line}"));
                    assert!(time(field("timestamp")), "{line}");
                    assert!(["INFO", "WARN", "ERROR"].contains(&field("level")), "{line}");
                    assert!(!field("message").is_empty(), "{line}");
                }
                None if format == "text" => assert!(time(line.split(' ').next().unwrap()), "{line}"),
                _ => panic!("not {format}: {line}"),
            }
        }
    }
}

#[tokio::test]
async fn the_state_is_shown_on_loopback_when_asked_for_and_nowhere_else() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    let builder = Svcplane::builder()
        .observe()
        .cluster(cluster::shared())
        .lease_in(&namespace);
    let svcplane = builder.clone().start().await.unwrap();
    svcplane.wait_idle().await.unwrap();
    let state = svcplane.debug_state().await.unwrap();
    assert_eq!(
        state["synced"],
        serde_json::json!({ "services": true, "pods": true, "endpoints": true, "endpointslices": true, "nodes": true })
    );
    assert_eq!((&state["mode"], &state["leading"]), (&"observe".into(), &true.into()));
    let holder = namespace.lease().await.unwrap().holder_identity;
    assert_eq!(
        (state["leader"].as_str(), state["identity"].as_str()),
        (holder.as_deref(), holder.as_deref())
    );
    assert!(state["objects"]["services"].as_u64().unwrap() >= 2);
    assert_eq!(
        svcplane.get("/debug/state").await.unwrap().0,
        http::StatusCode::NOT_FOUND
    );

    let silent = builder.without("--debug-address").replica(2).spawn().unwrap();
    silent.wait_log("connected", SOON).await.unwrap();
    assert_eq!(silent.log_entries("debug server listening"), Vec::<Value>::new());
}

#[tokio::test]
async fn bash_completes_flags_and_values() {
    let output = run(&binaries::svcplane().unwrap(), &["completions", "bash"], "").await;
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let script = String::from_utf8(output.stdout).unwrap();
    for (words, want) in [
        ("svcplane run --acknow", "--acknowledge-builtins-disabled"),
        ("svcplane comp", "completions"),
    ] {
        let cursor = words.split(' ').count() - 1;
        let last = words.rsplit(' ').next().unwrap();
        let ask = format!(
            "{script}\nCOMP_WORDS=({words}); COMP_CWORD={cursor}; _svcplane svcplane {last} ''; echo \"reply ${{COMPREPLY[*]}}\""
        );
        let answer = run("/bin/bash".as_ref(), &["-s"], &ask).await;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(text.contains(&format!("reply {want}")), "{words}: {answer:?}");
    }
}
