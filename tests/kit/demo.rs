//! The demo behind `make run`, as a person or a script starts it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use svcplane_tests::binaries;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

/// Well above the demo's own deadlines.
const DEADLINE: Duration = Duration::from_secs(180);

fn demo(svcplane: &Path) -> Command {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.env("SVCPLANE_BIN", svcplane).env("ONCE", "1").kill_on_drop(true);
    demo
}

async fn output(mut demo: Command) -> (Output, String, String) {
    let output = timeout(DEADLINE, demo.output()).await.expect("the demo ends").unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output, stdout, stderr)
}

#[tokio::test]
async fn every_state_comes_with_svcplane() {
    let (output, stdout, stderr) = output(demo(&binaries::svcplane().unwrap())).await;
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("every expected state came"), "{stdout}");
    assert!(
        stdout.contains("default/hostnames: 10.100.130.119:9376 10.100.152.254:9376"),
        "{stdout}"
    );
    // Beside the Endpoints the slice that says the same, and at the end why.
    let row = stdout
        .lines()
        .find(|line| line.contains("default/hostnames  "))
        .unwrap();
    assert_eq!(
        row.matches("10.100.130.119:9376 10.100.152.254:9376").count(),
        2,
        "{row}"
    );
    let explained = stdout.split_once("svcplane explain default/hostnames").unwrap().1;
    for said in [
        "Service default/hostnames  ClusterIP",
        "Pods",
        "10.100.130.119",
        "EndpointSlices",
        "  same",
        "kube-proxy",
    ] {
        assert!(explained.contains(said), "{said}: {explained}");
    }
    assert_eq!(stderr, "");
}

/// A program in svcplane's place, of these lines of shell; `$SVCPLANE` is svcplane.
fn stand_in(directory: &Path, lines: &str) -> PathBuf {
    let program = directory.join("stand-in");
    let svcplane = binaries::svcplane().unwrap();
    let script = format!("#!/bin/sh\nSVCPLANE='{}'\n{lines}\n", svcplane.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    program
}

#[tokio::test]
async fn help_and_what_it_does_not_know_start_nothing() {
    // Without a program to show, a demo that began would fail in another way.
    let run = async |argument: &str| {
        let mut demo = demo(Path::new("/bin/false"));
        demo.arg(argument);
        output(demo).await
    };
    let (help, stdout, stderr) = run("--help").await;
    assert!(help.status.success(), "{stderr}");
    assert!(stdout.contains("Usage: demo") && stdout.contains("--once"), "{stdout}");
    for unknown in ["--frobnicate", "frobnicate"] {
        let (output, stdout, stderr) = run(unknown).await;
        assert_eq!(output.status.code(), Some(2), "{stdout}\n{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(unknown), "{stderr}");
        assert_eq!(stdout, "");
    }
}

/// The demo reads the apiserver: when nobody writes Endpoints, it cannot pass.
#[tokio::test]
async fn without_writes_it_fails_and_names_the_missed_state() {
    let directory = tempfile::tempdir().unwrap();
    let observer = stand_in(
        directory.path(),
        "for it; do shift; [ $it = --mode=active ] || set -- \"$@\" $it; done; exec $SVCPLANE \"$@\"",
    );
    let (output, stdout, stderr) = output(demo(&observer)).await;
    assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
    let first = stderr.lines().next().unwrap();
    assert!(
        first.starts_with("demo: expected state did not come: Endpoints of examples/: not within 20s: "),
        "{stderr}"
    );
    assert!(first.ends_with(" has no Endpoints"), "{stderr}");
    assert!(!stdout.contains("every expected state came"), "{stdout}");
}

#[tokio::test]
async fn a_replica_that_ends_is_named_with_the_end_of_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let program = stand_in(
        directory.path(),
        "[ $1 = run ] || exec $SVCPLANE \"$@\"\necho no such luck >&2\nexit 3",
    );
    let (output, _, stderr) = output(demo(&program)).await;
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("demo: svcplane-1 ended with exit code 3"),
        "{stderr}"
    );
    assert!(stderr.contains("no such luck"), "{stderr}");
}

#[tokio::test]
async fn ctrl_c_leaves_nothing_running() {
    // A program that runs until it is killed, and does nothing.
    let idle = tempfile::tempdir().unwrap();
    let program = stand_in(idle.path(), "[ $1 = run ] || exec $SVCPLANE \"$@\"\nexec sleep 600");
    let mut child = demo(&program)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let appear = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.ends_with("installing the custom resources of svcplane crds") {
                return;
            }
        }
        panic!("the demo ended early");
    };
    timeout(DEADLINE, appear).await.unwrap();
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    let names = ["etcd", "kube-apiserver", "kube-controller", "sleep"];
    let end = Instant::now() + DEADLINE;
    let started = loop {
        let started = descendants(pid);
        if names.iter().all(|name| started.values().any(|it| it == name)) {
            break started;
        }
        assert!(Instant::now() < end, "not all of {names:?} are among {started:?}");
        sleep(Duration::from_millis(50)).await;
    };
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let status = timeout(DEADLINE, child.wait()).await.expect("the demo ends").unwrap();
    assert_eq!(status.code(), Some(1), "the demo had not ended by itself");
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let left: HashMap<_, _> = started
            .iter()
            .filter(|(pid, name)| name_of(**pid).as_ref() == Some(name))
            .collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "still running: {left:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// The name of a process, as the kernel keeps it (15 characters); `None` once it is gone or dead.
fn name_of(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    (!rest.trim_start().starts_with('Z')).then(|| name.to_owned())
}

/// Every process below this one, with its name.
fn descendants(of: i32) -> HashMap<i32, String> {
    let parents: Vec<(i32, i32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
        .into_iter()
        .skip(1)
        .filter_map(|pid| Some((pid, name_of(pid)?)))
        .collect()
}
