//! Do the documents tell the truth about metrics and tests?

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use svcplane_tests::cluster;
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::service;
use svcplane_tests::svcplane;

const SOON: Duration = Duration::from_secs(20);
const README: &str = include_str!("../../README.md");
const FIELD_BUGS: &str = include_str!("../../docs/field-bugs.md");
const LOAD_BALANCERS: &str = include_str!("../../docs/loadbalancer.md");
const ACCEPTANCE: &str = include_str!("../../docs/acceptance.md");
const DIFFERENCES: &str = include_str!("../../docs/differences.md");
const TARGETS: &str = include_str!("../Cargo.toml");

/// The names in backticks in the first column of the table of metrics.
fn written() -> BTreeSet<String> {
    let section = README.split("### Metrics").nth(1).expect("a section on metrics");
    let rows = section
        .lines()
        .skip_while(|line| !line.starts_with("| ---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let first = row.split('|').nth(1).unwrap_or_default();
        first
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .collect()
}

/// Where the sources of a package are that has tests of its own.
const PACKAGES: [(&str, &str); 4] = [
    ("svcplane", "../controllers/src"),
    ("svcplane-allocators", "../allocators/src"),
    ("svcplane-runtime", "../controllers/runtime/src"),
    ("svcplane-webhook", "../webhook/src"),
];

/// The source of `tests/Cargo.toml`'s target of this name, with its modules, else of the package.
fn source(target: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    if let Some((_, package)) = PACKAGES.iter().find(|(name, _)| *name == target) {
        sources(&root.join(package), &mut all);
        return all;
    }
    let entry = format!("name = \"{target}\"\npath = \"");
    let (_, rest) = TARGETS
        .split_once(&entry)
        .unwrap_or_else(|| panic!("no target {target}"));
    let path = root.join(rest.split('"').next().unwrap());
    let modules = path.with_extension("");
    if modules.is_dir() {
        sources(&modules, &mut all);
    }
    all + &std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_test_that_is_said_to_hold_a_field_bug_exists() {
    // The table, without the words above it.
    let table = FIELD_BUGS.split_once("\n## ").unwrap().1;
    let quoted = table.split('`').skip(1).step_by(2);
    let tests: Vec<_> = quoted.filter_map(|text| text.split_once(": ")).collect();
    assert!(tests.len() > 40, "{} tests are named", tests.len());
    for (target, function) in tests {
        let name = function.rsplit("::").next().unwrap();
        let found = source(target).contains(&format!("fn {name}("));
        assert!(found, "{target}: {function}");
    }
}

/// How many tests the last cells of these rows name, as `target: function`. Each must name some, and all must exist.
fn named<'a>(rows: impl Iterator<Item = &'a str>) -> usize {
    let mut named = 0;
    for row in rows {
        let held_by = row.trim_end_matches('|').rsplit(" | ").next().unwrap();
        let tests: Vec<_> = held_by.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            let (target, name) = test.split_once(": ").unwrap();
            assert!(source(target).contains(&format!("fn {name}(")), "{test}: {row}");
            named += 1;
        }
    }
    named
}

#[test]
fn every_feature_of_load_balancers_names_tests_that_exist() {
    let named = named(LOAD_BALANCERS.lines().filter(|line| line.contains(" | Y | ")));
    assert!(named > 30, "{named} tests are named");
}

#[test]
fn every_promise_of_the_chart_names_tests_that_exist() {
    let rows = ACCEPTANCE.lines().filter(|line| line.starts_with("| "));
    let named = named(rows.filter(|line| !line.starts_with("| | ") && !line.starts_with("| ---")));
    assert!(named > 25, "{named} tests are named");
}

/// What a heading is reached by, as on the forges.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars()
        .filter(|it| it.is_alphanumeric() || "-_".contains(*it))
        .collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![
        root.join("README.md"),
        root.join("CONTRIBUTING.md"),
        root.join("ARCHITECTURE.md"),
    ];
    pages.push(root.join("charts/svcplane/README.md"));
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        pages.extend(Some(entry.unwrap().path()).filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    let (mut links, mut dead) = (0, Vec::new());
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let other = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            let found = match std::fs::read_to_string(&other) {
                Ok(text) if !heading.is_empty() => {
                    let mut headings = text.lines().filter(|line| line.starts_with('#'));
                    headings.any(|line| anchor(line.trim_start_matches('#').trim()) == heading)
                }
                _ => other.exists(),
            };
            if !found {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(links > 30, "{links} links");
    assert!(dead.is_empty(), "{dead:#?}");
}

/// All Rust sources below this directory, one after another.
fn sources(directory: &Path, all: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_difference_names_tests_that_exist() {
    let mut all = String::new();
    for directory in ["../controllers", "integration"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut all);
    }
    let rows = DIFFERENCES.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|line| !line.starts_with("| ---") && !line.starts_with("| reference |"));
    let mut named = 0;
    for row in rows {
        let held_by = row.trim_end_matches('|').rsplit(" | ").next().unwrap();
        let tests = held_by.split('`').skip(1).step_by(2);
        let mut of_row = 0;
        for test in tests {
            let name = test.rsplit([':', ' ']).next().unwrap();
            // `…`: the whole module. Drills are made by a macro.
            let forms = [format!("fn {name}("), format!("mod {name};"), format!("    {name}: ")];
            let count = if test.starts_with("runtime-drills") { 3 } else { 2 };
            let exists = name == "…" || forms.iter().take(count).any(|form| all.contains(form));
            assert!(exists, "{test}: {row}");
            of_row += 1;
        }
        assert!(of_row > 0, "no test: {row}");
        named += of_row;
    }
    assert!(named > 50, "{named} tests are named");
}

#[tokio::test]
async fn every_metric_is_in_the_readme_and_every_metric_of_the_readme_exists() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let svcplane = svcplane::shared();
    service("web")
        .selector("app", "web")
        .port("http", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    let endpoints = namespace.endpoints();
    let there = |found: Option<&Endpoints>| found.map(drop).ok_or_else(|| "none".to_owned());
    eventually_one("the Endpoints", SOON, &endpoints, "web", there)
        .await
        .unwrap();
    // It is counted when the reply is in, which may be after others see it.
    let counted = svcplane.wait_metric("svcplane_operations_total", &[], SOON, |it| it > 0.5);
    counted.await.unwrap();

    let (_, page) = svcplane.get("/metrics").await.unwrap();
    let typed = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let there: BTreeSet<String> = typed
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect();
    let (mut written, mut there) = (written(), there);
    assert!(written.remove("process_*"));
    there.retain(|name| !name.starts_with("process_"));
    assert_eq!(there, written);
}
