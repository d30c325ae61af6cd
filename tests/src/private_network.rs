//! A network of a test binary's own, in which addresses of Pods and Services lead somewhere: whoever listens on one is reached there, as on a
//! cluster whose network works, and nobody outside of it is.
//!
//! The binary starts itself once more in it, with the same choice of tests, and each test takes its verdict from there. That takes `unshare` and
//! `ip`, and no rights: who is not root becomes it in a user namespace of his own.

use std::ffi::OsStr;
use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::runtime::Runtime;

use crate::cluster::{IPV4_RANGE, on_own_runtime, run_directory};
use crate::kubelet::POD_RANGE;
use crate::process::Program;

/// Set in the private network.
const INSIDE: &str = "SVCPLANE_PRIVATE_NETWORK";

/// All tests of a binary together.
const DEADLINE: Duration = Duration::from_secs(1800);

/// Runs the body of the test of this name in the network of this binary. Tests run one after another there, in one runtime that outlives them, so
/// that they can share what they start.
///
/// # Panics
/// It fails, or there is no such network; with what was printed there.
pub fn run<F: Future<Output = ()>>(test: &str, body: impl FnOnce() -> F) {
    if std::env::var_os(INSIDE).is_some() {
        runtime().block_on(body());
        return;
    }
    static PRINTED: OnceLock<Result<String, String>> = OnceLock::new();
    let printed = PRINTED.get_or_init(|| on_own_runtime(run_inside));
    let printed = printed.as_ref().unwrap_or_else(|error| panic!("{error}"));
    let report = printed.split(&format!("---- {test} stdout ----\n")).nth(1);
    let report = report.and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    let passed = printed.lines().any(|line| line == format!("test {test} ... ok"));
    assert!(passed, "{test}: not passed in the private network:\n{printed}");
    println!("{report}");
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime starts")
    })
}

async fn run_inside() -> Result<String> {
    let mut script = "ip link set lo up".to_owned();
    for range in [POD_RANGE, IPV4_RANGE] {
        script += &format!(" && ip route add local {range} dev lo");
    }
    script += " && exec \"$@\"";
    let spaces = if rustix::process::geteuid().is_root() {
        "--net"
    } else {
        "--net --user --map-root-user"
    };
    let log = run_directory("private-network")?.join("tests.log");
    // A run before this one with the same process id may have left one.
    let _ = fs::remove_file(&log);
    let exe = std::env::current_exe()?;
    let exe = exe.to_str().context("the path of this program is no text")?;
    let process = Program::new("tests in a private network", "unshare", &log)
        .args(spaces.split(' '))
        .args([
            "--",
            "sh",
            "-c",
            &script,
            "sh",
            exe,
            "--test-threads=1",
            "--show-output",
        ])
        .args(chosen())
        .env(INSIDE, "1")
        .start()
        .context("a private network needs the programs unshare (util-linux) and ip (iproute2)")?;
    process.wait_exit(DEADLINE).await?;
    let printed = fs::read_to_string(&log)?;
    ensure!(
        printed.contains("running "),
        "a private network needs unshare (util-linux), ip (iproute2) and a kernel that lets this user have it: {printed}"
    );
    Ok(printed)
}

/// What says which tests are to run.
fn chosen() -> Vec<String> {
    let known = ["--exact", "--ignored", "--include-ignored"];
    let mut arguments = std::env::args_os().skip(1);
    let mut chosen = Vec::new();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy().into_owned();
        if text == "--skip" {
            chosen.push(text);
            chosen.extend(arguments.next().as_deref().map(OsStr::to_string_lossy).map(Into::into));
        } else if text == "--test-threads" || text == "--format" {
            arguments.next();
        } else if known.contains(&text.as_str()) || !text.starts_with('-') {
            chosen.push(text);
        }
    }
    chosen
}
