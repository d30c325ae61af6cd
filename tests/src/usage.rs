//! What a process and the machine have used so far, as Linux tells it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now (`VmRSS`).
    pub resident: u64,
    /// The most that was resident (`VmHWM`).
    pub peak: u64,
    /// Resident and not backed by a file (`RssAnon`).
    pub anonymous: u64,
}

/// Memory of the process now.
///
/// # Errors
/// It has ended, or this is not Linux.
pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib: u64 = line
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .with_context(|| format!("no {name} in {path}"))?
            .parse()?;
        Ok(kib * 1024)
    };
    Ok(Memory {
        resident: field("VmRSS")?,
        peak: field("VmHWM")?,
        anonymous: field("RssAnon")?,
    })
}

/// Processor time of the process so far: user and system, all threads, those too that have ended. By its clock and not by
/// `/proc/PID/stat`, which counts in steps of 10 ms.
///
/// # Errors
/// It has ended.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid)?);
    let clock = clock_getcpuclockid(pid).with_context(|| format!("the processor clock of {pid}"))?;
    Ok(clock
        .now()
        .with_context(|| format!("the processor clock of {pid}"))?
        .into())
}

/// Processor time of the calling thread so far.
///
/// # Errors
/// The system has no such clock.
pub fn thread_cpu_time() -> Result<Duration> {
    Ok(ClockId::CLOCK_THREAD_CPUTIME_ID.now()?.into())
}

/// Processor time of the whole machine so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// Spent on anything, also by the host on other guests.
    pub busy: Duration,
    /// What there was to spend.
    pub all: Duration,
}

/// The machine's processors, from `/proc/stat`.
///
/// # Errors
/// This is not Linux.
pub fn machine() -> Result<Machine> {
    /// `USER_HZ`, the same on every Linux.
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    // user nice system idle iowait irq softirq steal; what follows is contained in them.
    let ticks: Vec<u32> = line
        .split_ascii_whitespace()
        .skip(1)
        .take(8)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let seconds = |ticks: u32| Duration::from_secs_f64(f64::from(ticks) / TICKS_A_SECOND);
    let all: u32 = ticks.iter().sum();
    let idle: u32 = ticks.iter().skip(3).take(2).sum();
    Ok(Machine {
        busy: seconds(all - idle),
        all: seconds(all),
    })
}
