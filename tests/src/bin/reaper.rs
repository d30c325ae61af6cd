//! Runs one program and ends it, with everything it started, when standard input ends.
//!
//! `reaper --grace-ms N [--remove DIRECTORY] --stdout FILE --stderr FILE -- PROGRAM [ARGUMENT...]`
//!
//! Standard input is a pipe that the kit holds open, so its end means that the test is over: returned, panicked or
//! killed. Then the child's process group gets SIGTERM and, `N` ms later, SIGKILL (N = 0: SIGKILL at once), and
//! DIRECTORY is removed. A number on a line of standard input is a signal for the child: it is sent from here because
//! only here is known that the child's pid is still the child's.
//!
//! Standard output says `pid N`, then `code N` or `signal N`; or `failed REASON` when the program did not start.

use std::fs::{self, File};
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

#[derive(Parser)]
struct Args {
    #[arg(long)]
    grace_ms: u64,
    #[arg(long)]
    remove: Option<String>,
    #[arg(long)]
    stdout: String,
    #[arg(long)]
    stderr: String,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

enum Event {
    Exited,
    Signal(i32),
    InputEnded,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match start(&args) {
        Ok((child, pid)) => {
            say(&format!("pid {pid}"));
            watch_over(child, pid, Duration::from_millis(args.grace_ms));
        }
        Err(error) => say(&format!("failed {}: {error}", args.command[0])),
    }
    if let Some(directory) = &args.remove {
        // Whoever else still writes there is being killed by a reaper of its own.
        let _ = fs::remove_dir_all(directory);
    }
    ExitCode::SUCCESS
}

fn start(args: &Args) -> io::Result<(Child, Pid)> {
    let append = |path: &str| File::options().create(true).append(true).open(path);
    let child = Command::new(&args.command[0])
        .args(&args.command[1..])
        .stdin(Stdio::null())
        .stdout(append(&args.stdout)?)
        .stderr(append(&args.stderr)?)
        .process_group(0)
        .spawn()?;
    let pid = Pid::from_child(&child);
    Ok((child, pid))
}

fn watch_over(mut child: Child, pid: Pid, grace: Duration) {
    let (events, inbox) = mpsc::channel();
    let exits = events.clone();
    thread::spawn(move || {
        // Waits without reaping: until `finish` has run, the pid and the group cannot belong to anybody else.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = exits.send(Event::Exited);
    });
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(signal) = line.parse() {
                let _ = events.send(Event::Signal(signal));
            }
        }
        let _ = events.send(Event::InputEnded);
    });

    let mut kill_at = None;
    loop {
        let patience = kill_at.map_or(Duration::MAX, |at: Instant| {
            at.saturating_duration_since(Instant::now())
        });
        match inbox.recv_timeout(patience) {
            Ok(Event::Signal(raw)) => {
                if let Some(signal) = Signal::from_named_raw(raw) {
                    let _ = kill_process(pid, signal);
                }
            }
            Ok(Event::InputEnded) if !grace.is_zero() => {
                // A stopped child would not see SIGTERM.
                let _ = kill_process_group(pid, Signal::TERM);
                let _ = kill_process_group(pid, Signal::CONT);
                kill_at = Some(Instant::now() + grace);
            }
            Ok(Event::Exited | Event::InputEnded) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                break;
            }
        }
    }
    // The child, if it is still there, and whatever it left behind in its group.
    let _ = kill_process_group(pid, Signal::KILL);
    if let Ok(status) = child.wait() {
        match (status.code(), status.signal()) {
            (Some(code), _) => say(&format!("code {code}")),
            (None, Some(signal)) => say(&format!("signal {signal}")),
            (None, None) => {}
        }
    }
}

/// To the kit, which may be gone.
fn say(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
