//! One Pod that is in many Services changes (a storm), and another Service's Pod meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::latency::Latencies;
use super::observer::Answer;
use super::record::Row;
use super::workload::Phase;

/// The answers of one phase.
#[derive(Debug, Default)]
pub struct Storms<'a> {
    /// When each began, and how long it took to the last answer of any of the many Services.
    pub storms: BTreeMap<Instant, Duration>,
    /// To the changes of the other Service that fell into a storm; to all of them if there was none.
    pub unrelated: Vec<&'a Answer>,
}

impl<'a> Storms<'a> {
    /// Sorts answers of all kinds. `unrelated`: the name of the other Service.
    pub fn of(answers: &'a [Answer], unrelated: &str) -> Self {
        let (others, many): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| &*answer.service == unrelated);
        let mut storms: BTreeMap<Instant, Duration> = BTreeMap::new();
        for answer in many {
            let longest = storms.entry(answer.since).or_default();
            *longest = answer.took.max(*longest);
        }
        let within = |at: Instant| {
            let began = storms.range(..=at).next_back();
            storms.is_empty() || began.is_some_and(|(began, took)| at - *began <= *took)
        };
        let unrelated = others.into_iter().filter(|answer| within(answer.since)).collect();
        Self { storms, unrelated }
    }
}

impl Row {
    /// Figures of storms and of the Service they do not touch. `calm`: that Service alone, before; its own row has none.
    pub fn storms(&mut self, storms: &Storms<'_>, calm: Option<&Self>, phase: &Phase, told: bool) {
        self.latencies("unrelated_", storms.unrelated.iter().copied(), told);
        let Some(calm) = calm else { return };
        let all = self.get("cpu_s").unwrap_or_default() * 1e3;
        if let Some(each) = calm.get("cpu_ms_per_flip") {
            let flips = phase.stream.len() - phase.units;
            #[expect(clippy::cast_precision_loss, reason = "hundreds")]
            self.set("cpu_ms_per_storm", (all - each * flips as f64) / phase.units as f64);
        }
        if !told {
            return;
        }
        let last: Latencies = storms.storms.values().copied().collect();
        for (name, value) in last.figures() {
            self.set(&format!("last_write_{name}"), value);
        }
        let p50 = |row: &Self| row.get("unrelated_p50_ms");
        if let (Some(now), Some(calm)) = (p50(self), p50(calm)) {
            self.set("unrelated_p50_over_calm", now / calm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_lasts_to_its_last_answer() {
        let start = Instant::now();
        let answer = |service: &str, since: u64, took: u64| Answer {
            service: service.into(),
            since: start + Duration::from_millis(since),
            took: Duration::from_millis(took),
        };
        let answers = [
            answer("a", 1000, 10),
            answer("b", 1000, 300),
            answer("other", 999, 1),
            answer("other", 1100, 2),
            answer("other", 1299, 3),
            answer("other", 1301, 4),
            answer("a", 5000, 20),
            answer("other", 5010, 5),
        ];
        let found = Storms::of(&answers, "other");
        let took: Vec<u128> = found.storms.values().map(Duration::as_millis).collect();
        assert_eq!(took, [300, 20]);
        let unrelated: Vec<u128> = found.unrelated.iter().map(|answer| answer.took.as_millis()).collect();
        assert_eq!(unrelated, [2, 3, 5]);

        let calm = [answer("other", 1, 7)];
        assert_eq!(Storms::of(&calm, "other").unrelated.len(), 1);
    }
}
