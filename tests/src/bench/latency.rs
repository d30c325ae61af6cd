//! Latencies as figures.

use std::time::Duration;

/// Of a round trip that waits for a retry with a back-off of a second; none of these is a slow machine.
const LATE: Duration = Duration::from_millis(900);
/// From fewer the 99th percentile is but the greatest.
const ENOUGH: usize = 100;

/// Figures of some latencies, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies(Vec<Duration>);

impl FromIterator<Duration> for Latencies {
    fn from_iter<T: IntoIterator<Item = Duration>>(latencies: T) -> Self {
        let mut latencies: Vec<_> = latencies.into_iter().collect();
        latencies.sort_unstable();
        Self(latencies)
    }
}

impl Latencies {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many are later than 900 ms.
    pub fn late(&self) -> usize {
        self.0.iter().filter(|latency| **latency > LATE).count()
    }

    /// The named ones that can be told from this many: median, 90th and 99th percentile, greatest.
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        let known = [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("max_ms", 1.0)];
        let told = known
            .into_iter()
            .filter(|(name, _)| *name != "p99_ms" || self.0.len() >= ENOUGH);
        told.filter_map(|(name, part)| Some((name, self.at(part)?))).collect()
    }

    fn at(&self, part: f64) -> Option<f64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = (self.0.len() as f64 * part) as usize;
        let latency = self.0.get(index).or(self.0.last())?;
        Some(latency.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_those_that_are_late() {
        let of = |count: u64| -> Latencies { (0..count).rev().map(|ms| Duration::from_millis(ms * 10)).collect() };
        assert_eq!(of(100).count(), 100);
        assert_eq!(of(100).late(), 9, "910 to 990");
        assert_eq!(
            of(100).figures(),
            [
                ("p50_ms", 500.0),
                ("p90_ms", 900.0),
                ("p99_ms", 990.0),
                ("max_ms", 990.0)
            ]
        );
        assert_eq!(of(4).figures(), [("p50_ms", 20.0), ("p90_ms", 30.0), ("max_ms", 30.0)]);
        assert_eq!(of(0).figures(), []);
    }
}
