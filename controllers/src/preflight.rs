//! `svcplane preflight`: who runs which controllers, and what to set before installing. All but `gather` is pure.

mod builtin;
mod checks;
mod gather;

use std::fmt::Write as _;

use self::checks::{Check, State, checks};
use crate::args::{Form, PreflightArgs};
use crate::start;

/// What there is to print.
#[derive(Debug)]
pub struct Preflight {
    /// All of it.
    pub text: String,
    /// Nothing has to be done before active mode.
    pub in_order: bool,
}

/// Reads the cluster. The error is one line.
pub async fn preflight(args: &PreflightArgs) -> Result<Preflight, String> {
    let client = start::connect(&args.cluster, "svcplane-preflight").await?;
    let facts = Box::pin(gather::gather(&client, &args.lease.lease())).await?;
    let rows = checks(&facts);
    let text = match args.output {
        Form::Text => table(&rows),
        Form::Json => serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())? + "\n",
    };
    Ok(Preflight {
        text,
        in_order: rows.iter().all(|row| row.state != State::Act),
    })
}

/// For people: what is to be done stands below what was found.
fn table(rows: &[Check]) -> String {
    let mut out = String::new();
    for row in rows {
        let _ = writeln!(out, "{:<5} {:<21} {}", row.state.as_str(), row.subject, row.found);
        if !row.todo.is_empty() {
            let _ = writeln!(out, "{:28}-> {}", "", row.todo);
        }
    }
    let count = |state| rows.iter().filter(|row| row.state == state).count();
    let _ = match (count(State::Act), count(State::Unknown)) {
        (0, 0) => writeln!(out, "\nNothing has to be done before --mode=active."),
        (0, unknown) => writeln!(
            out,
            "\n{unknown} could not be seen from here: see to it before --mode=active."
        ),
        (acts, _) => writeln!(
            out,
            "\n{acts} to do before --mode=active; --mode=observe, the default, needs of it no more than permissions to read."
        ),
    };
    out
}
