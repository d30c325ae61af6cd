//! `make tools` builds once, builds safely, and says what is missing. With a script in the place of Go.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/build");

/// What the script needs besides Go.
const UTILITIES: [&str; 18] = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "cut",
    "date",
    "dirname",
    "env",
    "flock",
    "head",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sh",
    "sha256sum",
    "sleep",
    "tr",
];

/// Writes down what it builds, and takes a while over it. `BROKEN` makes it fail.
const GO: &str = r#"#!/bin/sh
if [ "$1" = env ]; then echo go9.9.9; exit; fi
while [ "$1" != -o ]; do shift; done
echo "$3" >> "$LOG"
echo half > "$2"
sleep 0.2
[ -z "$BROKEN" ] || exit 1
echo whole > "$2"
chmod +x "$2"
"#;

/// A machine with a PATH, a cache and a log of what its Go built.
struct Machine(TempDir);

impl Machine {
    fn new(with_go: bool) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let bin = machine.path("bin");
        fs::create_dir(&bin).unwrap();
        let search = std::env::var_os("PATH").unwrap();
        for utility in UTILITIES {
            let mut candidates = std::env::split_paths(&search).map(|dir| dir.join(utility));
            if let Some(found) = candidates.find(|path| path.exists()) {
                std::os::unix::fs::symlink(found, bin.join(utility)).unwrap();
            }
        }
        if with_go {
            write_program(&bin.join("go"), GO);
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(SCRIPT);
        command
            .args(args)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("XDG_CACHE_HOME", self.path("cache"));
        command
            .env("LOG", self.path("log"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn built(&self) -> Vec<String> {
        fs::read_to_string(self.path("log"))
            .unwrap_or_default()
            .lines()
            .map(String::from)
            .collect()
    }

    fn assets(&self, programs: &[&str]) -> PathBuf {
        let assets = self.path("assets");
        fs::create_dir_all(&assets).unwrap();
        for program in programs {
            write_program(&assets.join(program), "#!/bin/sh\n");
        }
        assets
    }
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

/// The one line of a failure.
fn complaint(output: &Output) -> String {
    assert!(!output.status.success());
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

const ALL: [&str; 4] = [
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kubectl",
];

#[test]
fn it_builds_once_and_finds_what_it_built() {
    let machine = Machine::new(true);
    assert!(complaint(&machine.run(&["--find"])).contains("not built yet: etcd kube-apiserver"));
    let first = machine.run(&[]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let progress = text(&first.stdout);
    for program in ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"] {
        assert!(
            progress.contains(&format!("building {program}\n  {program}: done in")),
            "{progress}"
        );
    }
    assert_eq!(machine.built(), ALL);
    let again = machine.run(&[]);
    assert!(
        again.status.success() && again.stdout.is_empty(),
        "{}",
        text(&again.stdout)
    );
    assert_eq!(machine.built(), ALL);

    let found = text(&machine.run(&["--find"]).stdout);
    assert_eq!(found.lines().count(), 4, "{found}");
    for line in found.lines() {
        let (_, path) = line.split_once('=').unwrap();
        assert!(path.contains("/svcplane/tools/v") && path.contains("go9.9.9"), "{path}");
        assert_eq!(fs::read_to_string(path).unwrap(), "whole\n");
    }

    // Built earlier, Go gone since: still found.
    fs::remove_file(machine.path("bin/go")).unwrap();
    assert_eq!(text(&machine.run(&["--find"]).stdout), found);
}

#[test]
fn two_builds_at_once_share_the_work() {
    let machine = Machine::new(true);
    let builds: Vec<_> = (0..3).map(|_| machine.command(&[]).spawn().unwrap()).collect();
    for build in builds {
        let output = build.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(machine.built(), ALL);
}

#[test]
fn a_failed_build_leaves_nothing_and_is_tried_again() {
    let machine = Machine::new(true);
    let failed = machine.command(&[]).env("BROKEN", "1").output().unwrap();
    assert_eq!(complaint(&failed), "building etcd failed, see above");
    assert!(complaint(&machine.run(&["--find"])).contains("not built yet: etcd"));
    assert!(machine.run(&[]).status.success());
    assert_eq!(machine.built()[1..], ALL);
}

#[test]
fn without_go_it_says_what_to_install() {
    let machine = Machine::new(false);
    for args in [&[][..], &["--find"]] {
        let complaint = complaint(&machine.run(args));
        assert!(
            complaint.contains("install Go") && complaint.contains("KUBEBUILDER_ASSETS"),
            "{complaint}"
        );
    }
}

#[test]
fn assets_win_and_the_controller_manager_may_come_from_the_cache() {
    let machine = Machine::new(true);
    let assets = machine.assets(&["etcd"]);
    let with_assets = |args: &[&str]| {
        machine
            .command(args)
            .env("KUBEBUILDER_ASSETS", &assets)
            .output()
            .unwrap()
    };
    assert!(
        complaint(&with_assets(&["--find"])).contains("lacks kube-apiserver kube-controller-manager kubectl: put them")
    );

    machine.assets(&["kube-apiserver", "kubectl"]);
    assert!(complaint(&with_assets(&["--find"])).contains("kube-controller-manager is neither in KUBEBUILDER_ASSETS"));
    assert!(with_assets(&[]).status.success());
    assert_eq!(machine.built(), ["k8s.io/kubernetes/cmd/kube-controller-manager"]);
    let found = text(&with_assets(&["--find"]).stdout);
    for (line, directory) in found.lines().zip([&assets, &assets, &machine.path("cache"), &assets]) {
        assert!(
            line.split_once('=').unwrap().1.starts_with(directory.to_str().unwrap()),
            "{line}"
        );
    }

    machine.assets(&["kube-controller-manager"]);
    let found = text(&with_assets(&["--find"]).stdout);
    assert!(found.lines().all(|line| line.contains("/assets/")), "{found}");
}

#[test]
fn an_unknown_argument_is_refused() {
    assert_eq!(
        complaint(&Machine::new(true).run(&["--fnd"])),
        "usage: build [--find] [helm4|helm3|promtool|metallb]…"
    );
}

#[test]
fn what_only_the_chart_needs_is_built_when_it_is_named() {
    let machine = Machine::new(true);
    assert_eq!(
        complaint(&machine.run(&["--find", "promtool"])),
        "not built yet: promtool: run 'make tools-chart'"
    );
    let both = ["helm4", "promtool"];
    assert!(machine.run(&both).status.success());
    assert!(machine.run(&both).stdout.is_empty(), "built a second time");
    let built = [
        "helm.sh/helm/v4/cmd/helm",
        "github.com/prometheus/prometheus/cmd/promtool",
    ];
    assert_eq!(machine.built(), built);
    let found = text(&machine.run(&["--find", "helm4", "promtool"]).stdout);
    for (line, name) in found.lines().zip(both) {
        let (program, path) = line.split_once('=').unwrap();
        assert_eq!(program, name);
        assert!(path.contains(&format!("/svcplane/tools/{name}-v")), "{path}");
    }
    assert_eq!(found.lines().count(), 2, "{found}");
}
