//! The signals that end the process.

use std::io;

use futures::future::select_all;
use tokio::signal::unix::{SignalKind, signal};

/// SIGHUP in a mask of signals.
const HANGUP: u64 = 1;

/// Listens from now on, and completes with the name of the first signal that asks the process to end. SIGHUP, which a terminal that is closed
/// sends, is one of them, unless the process was started to outlive it, as by `nohup`.
pub fn told_to_stop() -> io::Result<impl Future<Output = &'static str>> {
    let mut kinds = vec![
        ("SIGTERM", SignalKind::terminate()),
        ("SIGINT", SignalKind::interrupt()),
    ];
    if !ignores_hangup(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        kinds.push(("SIGHUP", SignalKind::hangup()));
    }
    let listening = kinds
        .into_iter()
        .map(|(name, kind)| signal(kind).map(|signal| (name, signal)));
    let mut signals = listening.collect::<io::Result<Vec<_>>>()?;
    Ok(async move {
        let received = signals.iter_mut().map(|(name, signal)| {
            Box::pin(async move {
                signal.recv().await;
                *name
            })
        });
        select_all(received).await.0
    })
}

/// Whether a process of this `/proc/self/status` ignores SIGHUP.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_shows_in_the_mask_of_ignored_signals() {
        let table = [
            ("Name:\tsvcplane\nSigIgn:\t0000000000000001\nSigCgt:\t0", true),
            ("SigIgn:\t0000000000001001\n", true),
            ("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n", false),
            ("SigIgn:\t?\n", false),
            ("", false),
        ];
        for (status, want) in table {
            assert_eq!(ignores_hangup(status), want, "{status}");
        }
    }
}
