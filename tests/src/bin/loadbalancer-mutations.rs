//! `make loadbalancer-mutations`: for rows of docs/loadbalancer.md, picked by a seed, one line of the rule is changed, and the test that the row
//! names must fail.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use svcplane_tests::balancer_mutations::{ROWS, Row};
use svcplane_tests::mutate::Changed;

/// Breaks rules and looks whether anybody notices.
#[derive(Parser)]
struct Args {
    /// Picks the rows
    #[arg(env = "SEED", long, default_value_t = 1)]
    seed: u64,
    /// How many
    #[arg(env = "ROWS", long, default_value_t = 10)]
    rows: usize,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut rows: Vec<&Row> = ROWS.iter().collect();
    rows.shuffle(&mut StdRng::seed_from_u64(args.seed));
    rows.truncate(args.rows);
    for row in &rows {
        row.change.check()?;
    }
    let mut unnoticed = Vec::new();
    for row in rows {
        let found = fails(row).with_context(|| row.change.name)?;
        println!(
            "{}: {} {}",
            row.change.name,
            row.test,
            if found { "fails" } else { "DOES NOT FAIL" }
        );
        if !found {
            unnoticed.push(row.change.name);
        }
    }
    ensure!(unnoticed.is_empty(), "nobody noticed: {}", unnoticed.join("; "));
    Ok(())
}

fn fails(row: &Row) -> Result<bool> {
    let (target, test) = row.test.split_once(": ").context("no target")?;
    let changed = Changed::workspace("loadbalancer-mutations", &row.change)?;
    if target == "balancers" {
        let svcplane = changed.svcplane()?;
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["test", "--quiet", "--workspace", "--test", target, "--", test]);
        let output = command
            .env("SVCPLANE_BIN", svcplane)
            .output()
            .context("starting cargo")?;
        return judged(output.status.success(), &String::from_utf8_lossy(&output.stdout));
    }
    let built = changed.cargo(&["test", "--quiet", "-p", target, "--lib", "--no-run"])?;
    ensure!(built, "the changed tree does not build");
    Ok(!changed.cargo(&["test", "--quiet", "-p", target, "--lib", "--", test])?)
}

/// A test that did not run has not failed.
fn judged(success: bool, output: &str) -> Result<bool> {
    if !success && !output.contains("test result: FAILED") {
        bail!("it did not run: {output}");
    }
    Ok(!success)
}
