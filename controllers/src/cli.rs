//! From the command line to an exit code: 0 = well, 1 = failed, 2 = the command line is wrong. Every error is one line.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command, RunArgs, one_line};
use crate::audit::audit;
use crate::crds::crds;
use crate::explain::{Style, explain};
use crate::handback::handback;
use crate::pools::pools;
use crate::preflight::preflight;
use crate::run::run;
use crate::selftest::selftest;
use crate::start;

/// Exit code of a command line that cannot be used.
const USAGE: u8 = 2;

/// Exit code of what could not be done.
const FAILED: u8 = 1;

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            ) =>
        {
            error.exit()
        }
        Err(error) => return complain(&one_line(&error), USAGE),
    };
    match cli.command {
        Command::Run(args) => run_to_end(*args),
        Command::Explain(args) => report(args.check(), async {
            let explained = explain(&args, style()).await?;
            Ok((explained.text, explained.in_order || !args.check))
        }),
        Command::Pools(args) => report(args.check(), async {
            Ok((Box::pin(pools(&args, style())).await?, true))
        }),
        Command::Audit(args) => report(args.ranges.check(), async {
            let audited = audit(&args).await?;
            Ok((audited.text, audited.in_order))
        }),
        Command::Preflight(args) => report(Ok(()), async {
            let preflight = preflight(&args).await?;
            Ok((preflight.text, preflight.in_order))
        }),
        Command::Handback(args) => report(Ok(()), async {
            let say = |step: &str| drop(writeln!(io::stderr(), "{step}"));
            Ok((handback(&args, say).await?, true))
        }),
        Command::Selftest(args) => report(Ok(()), selftest(&args)),
        Command::Crds => print(format!("{:#}\n", crds()).as_bytes(), ExitCode::SUCCESS),
        Command::Completions { shell } => {
            // Into memory first: clap_complete panics when its reader goes away.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "svcplane", &mut script);
            print(&script, ExitCode::SUCCESS)
        }
    }
}

/// Writes it all, unless the reader goes away, and exits with this code.
fn print(text: &[u8], code: ExitCode) -> ExitCode {
    let mut out = io::stdout();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("error: cannot write to standard output: {error}"), FAILED)
        }
        _ => code,
    }
}

/// Reads the cluster and prints what there is to say, with exit code 1 if something is wrong; or says why that cannot be done.
fn report(usage: Result<(), String>, command: impl Future<Output = Result<(String, bool), String>>) -> ExitCode {
    if let Err(error) = usage {
        return complain(&format!("error: {error}"), USAGE);
    }
    let thread = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = thread
        .map_err(|error| error.to_string())
        .and_then(|thread| thread.block_on(command));
    match report {
        Ok((text, true)) => print(text.as_bytes(), ExitCode::SUCCESS),
        Ok((text, false)) => print(text.as_bytes(), ExitCode::from(FAILED)),
        Err(error) => complain(&format!("error: {error}"), FAILED),
    }
}

/// Colours on a terminal, unless `NO_COLOR` says otherwise (no-color.org) or the terminal has none.
fn style() -> Style {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if io::stdout().is_terminal() && !set("NO_COLOR") && !is_dumb {
        Style::Terminal
    } else {
        Style::Plain
    }
}

fn run_to_end(args: RunArgs) -> ExitCode {
    if let Err(error) = args.check().and_then(|()| start::log(args.log_format, &args.log_level)) {
        return complain(&format!("error: {error}"), USAGE);
    }
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = match threads {
        Ok(threads) => threads.block_on(run(args)).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(FAILED)
        }
    }
}

fn complain(text: &str, code: u8) -> ExitCode {
    eprintln!("{text}");
    ExitCode::from(code)
}
