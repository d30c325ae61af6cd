//! From the command line to an exit code: 0 = well, 1 = failed, 2 = the command line is wrong. Every error is one line.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command, RunArgs, one_line};
use crate::run::run;
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
        Command::Completions { shell } => {
            // Into memory first: clap_complete panics when its reader goes away.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "svcplane", &mut script);
            match io::stdout().write_all(&script) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    complain(&format!("error: cannot write the script: {error}"), FAILED)
                }
                _ => ExitCode::SUCCESS,
            }
        }
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
