//! Child processes that cannot outlive us.
//!
//! Each child runs under a small program, the reaper (`src/bin/reaper.rs`), whose standard input is a pipe from this
//! process. When this process ends, even by SIGKILL, the kernel closes the pipe and the reaper ends the child and
//! whatever that started. The reaper is in a process group of its own, so that Ctrl-C does not reach it first.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use tokio::sync::watch;

pub use rustix::process::Signal;

use crate::{binaries, usage};

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal number.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// What to start.
#[derive(Debug)]
pub struct Program {
    name: String,
    path: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    stdout: PathBuf,
    stderr: PathBuf,
    grace: Duration,
    remove: Option<PathBuf>,
}

impl Program {
    /// A program whose standard output and error are appended to `log`. Without [`Program::grace`] it gets SIGKILL at
    /// the end.
    pub fn new(name: &str, path: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        let log = log.into();
        Self {
            name: name.into(),
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdout: log.clone(),
            stderr: log,
            grace: Duration::ZERO,
            remove: None,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable, besides those of this process.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sends standard output elsewhere than to the log.
    #[must_use]
    pub fn stdout(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout = path.into();
        self
    }

    /// At the end: SIGTERM, and SIGKILL this much later.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// A directory to remove once the child is gone.
    #[must_use]
    pub fn remove_afterwards(mut self, directory: impl Into<PathBuf>) -> Self {
        self.remove = Some(directory.into());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// The program cannot be executed, or its log file cannot be opened.
    pub fn start(self) -> Result<Process> {
        let reaper_path = binaries::reaper()?;
        let mut command = Command::new(&reaper_path);
        command.arg("--grace-ms").arg(self.grace.as_millis().to_string());
        command
            .arg("--stdout")
            .arg(&self.stdout)
            .arg("--stderr")
            .arg(&self.stderr);
        if let Some(directory) = &self.remove {
            command.arg("--remove").arg(directory);
        }
        command
            .arg("--")
            .arg(&self.path)
            .args(&self.args)
            .envs(self.env.iter().map(|(k, v)| (k, v)));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0);
        let mut reaper = command
            .spawn()
            .with_context(|| format!("starting {}", reaper_path.display()))?;

        let input = reaper.stdin.take().context("the reaper has no standard input")?;
        let mut lines = BufReader::new(reaper.stdout.take().context("the reaper has no standard output")?).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let Some(pid) = first.strip_prefix("pid ").and_then(|pid| pid.parse().ok()) else {
            drop(input);
            let _ = reaper.wait();
            bail!(
                "starting {}: {}",
                self.name,
                first.strip_prefix("failed ").unwrap_or(&first)
            );
        };
        let (ended, exit) = watch::channel(None);
        let listener = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                ended.send_replace(parse_exit(&line));
            }
            let _ = reaper.wait();
        });
        Ok(Process {
            name: self.name,
            pid,
            log: self.stderr,
            exit,
            input: Mutex::new(Some(input)),
            listener: Mutex::new(Some(listener)),
        })
    }
}

fn parse_exit(line: &str) -> Option<Exit> {
    let (how, number) = line.split_once(' ')?;
    let number = number.parse().ok()?;
    match how {
        "code" => Some(Exit::Code(number)),
        "signal" => Some(Exit::Signal(number)),
        _ => None,
    }
}

/// A running child. Dropping it ends the child and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    exit: watch::Receiver<Option<Exit>>,
    input: Mutex<Option<ChildStdin>>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Process {
    /// The name given to [`Program::new`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The child's process id (not the reaper's).
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that holds what the child wrote to standard error.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its resident memory now, in bytes (Linux).
    ///
    /// # Errors
    /// It has ended, or this is not Linux.
    pub fn resident_bytes(&self) -> Result<u64> {
        Ok(usage::memory(self.pid)?.resident)
    }

    /// The most resident memory it had since its start or [`Process::forget_peak`], in bytes (Linux).
    ///
    /// # Errors
    /// As [`Process::resident_bytes`].
    pub fn peak_resident_bytes(&self) -> Result<u64> {
        Ok(usage::memory(self.pid)?.peak)
    }

    /// Measures the peak from now on.
    ///
    /// # Errors
    /// As [`Process::resident_bytes`].
    pub fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.pid);
        fs::write(&path, "5").with_context(|| format!("writing {path}"))
    }

    /// Processor time it has used so far, all its threads together (Linux).
    ///
    /// # Errors
    /// As [`Process::resident_bytes`].
    pub fn cpu_time(&self) -> Result<Duration> {
        usage::cpu_time(self.pid)
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Sends a signal; none if the child has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(input) = self.input.lock().as_mut() {
            // Fails only when the reaper is gone, and the child with it.
            let _ = writeln!(input, "{}", signal.as_raw());
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It still runs at the deadline.
    pub async fn wait_exit(&self, deadline: Duration) -> Result<Exit> {
        let mut exit = self.exit.clone();
        match tokio::time::timeout(deadline, exit.wait_for(Option::is_some)).await {
            Ok(Ok(exit)) => (*exit).with_context(|| format!("{} ended in an unknown way", self.name)),
            Ok(Err(_)) => bail!("{}: its reaper is gone", self.name),
            Err(_) => bail!(
                "{} (pid {}) still runs after {deadline:?}{}",
                self.name,
                self.pid,
                self.log_tail()
            ),
        }
    }

    /// SIGTERM, SIGKILL at the deadline, and waits.
    ///
    /// # Errors
    /// It cannot be ended at all.
    pub async fn terminate(&self, deadline: Duration) -> Result<Exit> {
        self.signal(Signal::TERM);
        match self.wait_exit(deadline).await {
            Ok(exit) => Ok(exit),
            Err(_) => self.kill9().await,
        }
    }

    /// SIGKILL, and waits.
    ///
    /// # Errors
    /// It cannot be ended at all.
    pub async fn kill9(&self) -> Result<Exit> {
        self.signal(Signal::KILL);
        self.wait_exit(Duration::from_secs(10)).await
    }

    /// The path of the log and its last lines, to go into an error.
    pub fn log_tail(&self) -> String {
        tail(&self.log, 15)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.lock().take());
        if let Some(listener) = self.listener.lock().take() {
            let _ = listener.join();
        }
    }
}

/// The path of a log and its last lines, to go into an error.
pub fn tail(log: &Path, count: usize) -> String {
    let mut last = VecDeque::with_capacity(count);
    if let Ok(file) = File::open(log) {
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            if last.len() == count {
                last.pop_front();
            }
            last.push_back(line);
        }
    }
    let lines: String = last
        .iter()
        .map(|line| format!("\n  {}", line.chars().take(400).collect::<String>()))
        .collect();
    format!("\nlog {}, last lines:{lines}", log.display())
}
