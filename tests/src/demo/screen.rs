//! Plain lines on standard output, each with the time since the start; nothing here needs a terminal.

use std::fmt::Display;
use std::io::{Write, stdout};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// A long step says this often that it still goes on.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Writes lines with the time since it was made.
pub struct Screen {
    started: Instant,
}

impl Screen {
    /// Starts the clock.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// A line with the time.
    pub fn say(&self, text: impl Display) {
        line(format_args!("{:5.1} s  {text}", self.started.elapsed().as_secs_f64()));
    }

    /// The heading of a part of the demo.
    pub fn part(&self, text: impl Display) {
        line("");
        self.say(text);
    }

    /// Indented below the last line.
    pub fn detail(&self, text: impl Display) {
        line(format_args!("         {text}"));
    }

    /// Says what begins, and that it still goes on.
    pub async fn during<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        self.say(what);
        let mut ticks = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = ticks.tick() => self.say(format_args!("... still {what}")),
            }
        }
    }

    /// A table; the first row is its head.
    pub fn table(&self, rows: &[Vec<String>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column| {
            rows.iter()
                .filter_map(|r| r.get(column))
                .map(String::len)
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            self.detail(cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

/// A line as it is. A reader who has gone away (`| head`) is no reason to stop.
pub fn line(text: impl Display) {
    let _ = writeln!(stdout(), "{text}");
}
