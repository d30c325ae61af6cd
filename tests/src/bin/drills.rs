//! The high availability drills at full size: `drills [REPLICAS] [WORD...]`. Without arguments all of them, with three replicas
//! and with two; a word picks those whose name contains it. Prints a table, and fails if a write was made without a term, a
//! process ended by itself, or a flip was never shown.

use anyhow::{Result, ensure};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::drill::{Drill, Report, Times};

#[tokio::main]
async fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let replicas = match words.first().and_then(|word| word.parse().ok()) {
        Some(count) => {
            words.remove(0);
            vec![count]
        }
        None => vec![3, 2],
    };
    let picked = |drill: &Drill| words.is_empty() || words.iter().any(|word| drill.to_string().contains(word.as_str()));
    let drills: Vec<Drill> = Drill::ALL.into_iter().filter(picked).collect();
    ensure!(!drills.is_empty(), "no drill's name contains any of {words:?}");
    let cluster = Cluster::start(Flavour::Ipv4Only).await?;
    println!("{}", Report::HEAD);
    let mut bad = Vec::new();
    for replicas in replicas {
        for drill in &drills {
            let report = Report::of(*drill, replicas, &cluster, Times::DEFAULT).await?;
            println!("{report}");
            if report.without_term > 0 || report.unseen > 0 || !report.ended.is_empty() {
                bad.push(report);
            }
        }
    }
    ensure!(bad.is_empty(), "not as it should be: {bad:#?}");
    Ok(())
}
