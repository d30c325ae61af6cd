//! `make bench-loadbalancers`: svcplane's LoadBalancer controller beside MetalLB's, in one sitting.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Parser;
use svcplane_tests::bench::balancers::{Side, run};
use svcplane_tests::bench::record::{self, Row};

/// Lets both give addresses to the same Services, and keeps a CSV file of each size.
#[derive(Parser)]
struct Args {
    /// How many Services, separated by commas
    #[arg(env = "SERVICES", long, value_delimiter = ',', default_values_t = [2000, 10_000])]
    services: Vec<usize>,
    /// One side alone, for a try
    #[arg(env = "ONLY", long, value_enum)]
    only: Option<Side>,
    /// Where the CSV files are
    #[arg(env = "FIGURES", long, default_value = "docs/figures/loadbalancers")]
    out: PathBuf,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let in_docs = args.out.starts_with("docs");
    for services in args.services {
        ensure!(
            !in_docs || services >= 2000 && args.only.is_none(),
            "a small run, or half of one, under a full one's name: set FIGURES to another directory"
        );
        let mut rows: Vec<Row> = Vec::new();
        let both = [Side::Ours, Side::Peer].into_iter().enumerate();
        for (turn, side) in both.filter(|(_, side)| args.only.is_none_or(|only| only == *side)) {
            let started = Instant::now();
            rows.extend(run(services, side, turn).await?);
            eprintln!(
                "{services} Services, {side:?}: {:.0} s",
                started.elapsed().as_secs_f64()
            );
        }
        for row in &rows {
            let figures: Vec<String> = row
                .figures
                .iter()
                .map(|(name, value)| format!("{name} {value:.2}"))
                .collect();
            println!("{} {} {}: {}", row.workload, row.phase, row.side, figures.join(", "));
        }
        record::write(&args.out.join(format!("lb-{services}.csv")), &rows)?;
    }
    Ok(())
}
