//! Does the README tell the truth about metrics?

use std::collections::BTreeSet;
use std::time::Duration;

use svcplane_tests::cluster;
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::service;
use svcplane_tests::svcplane;

const README: &str = include_str!("../../README.md");

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
    eventually_one("the Endpoints", Duration::from_secs(20), &endpoints, "web", |_| Ok(()))
        .await
        .unwrap();

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
