//! The workloads by their names.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::controllers::Controllers;
use super::side::Side;
use super::stream::{self, Stream};
use super::workload::{Phase, Workload};
use crate::load::Load;

/// All of the Endpoints controller alone, in the order of their running.
const ENDPOINTS: &[&str] = &[
    "calibration",
    "w1-spread",
    "w1-single",
    "w4-250",
    "w4-1000",
    "w4-3000",
    "w5-100",
    "w5-300",
    "w5-1500",
    "scale-50",
    "scale-500",
    "scale-5000",
    "memory",
    "memory-50000",
];
/// All of both controllers.
const BOTH: &[&str] = &[
    "calibration",
    "w1-spread",
    "w1-single",
    "w2-1",
    "w2-10",
    "w3-25",
    "w3-50",
    "w3-hot",
    "w4-250",
    "w4-3000",
    "w5-100",
    "w5-1500",
    "w6",
    "memory",
    "memory-50000",
];

/// For how long Pods flip at random.
const FLIPPING: Duration = Duration::from_secs(30);
/// From one storm to the next: more than the peer needs for one.
const STORM_EVERY: Duration = Duration::from_secs(4);
/// From one flip of the Service that storms do not touch to the next.
const UNRELATED_EVERY: Duration = Duration::from_millis(100);

/// How workloads are made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Which controllers run.
    pub controllers: Controllers,
    /// Divides Services, Pods and the time of changes.
    pub scale: usize,
    /// Rounds of A-B-B-A.
    pub pairs: usize,
}

impl Plan {
    /// What is run if nothing is named.
    pub fn names(self) -> &'static [&'static str] {
        match self.controllers {
            Controllers::Endpoints => ENDPOINTS,
            Controllers::Both => BOTH,
        }
    }

    /// One with sides that take turns.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn workload(self, name: &str) -> Result<Workload> {
        let (family, size) = name.split_once('-').unwrap_or((name, ""));
        // Those whose name is a size.
        let size = || -> Result<usize> { Ok(self.scaled(size.parse().with_context(|| name.to_owned())?)) };
        let mut fan = 0;
        let (load, phases) = match (family, name) {
            ("w1", "w1-spread") => (load(20, self.scaled(200), 10), Vec::new()),
            ("w1", _) => (load(1, self.scaled(200), 10), Vec::new()),
            ("w2", "w2-1") => self.rolling(60, Duration::from_secs(1)),
            ("w2", "w2-10") => self.rolling(250, Duration::from_millis(100)),
            ("w3", "w3-25") => self.flipping(100, 25.0),
            ("w3", "w3-50") => self.flipping(100, 50.0),
            // Whatever the scale: it is the few Pods that make it hot.
            ("w3", "w3-hot") => self.flipping(self.scale, 50.0),
            ("w4", _) => {
                let pods = size()?;
                let flips = stream::waves(pods, 30.min(pods), 1, Duration::from_millis(250));
                (load(1, 1, pods), vec![flipped("flips", flips)])
            }
            // 500 flips, 50 a second.
            ("w5" | "scale", _) => {
                let services = size()?;
                let flips = stream::waves(services, 50.min(services), 5, Duration::from_millis(20));
                (load(1, services, 1), vec![flipped("flips", flips)])
            }
            ("w6", _) => {
                fan = self.scaled(300) - 1;
                (load(1, 2, 1), self.storms())
            }
            _ => bail!("there is no workload {name}"),
        };
        let turns = match family {
            "scale" => vec![Side::Ours; 2],
            _ => [Side::Ours, Side::Peer, Side::Peer, Side::Ours].repeat(self.pairs),
        };
        Ok(Workload {
            name: name.into(),
            controllers: self.controllers,
            load,
            fan,
            phases,
            turns,
            trial: self.scale > 1,
        })
    }

    fn scaled(self, count: usize) -> usize {
        (count / self.scale).max(1)
    }

    fn rolling(self, replaced: usize, every: Duration) -> (Load, Vec<Phase>) {
        let (pods, replaced) = (self.scaled(250), self.scaled(replaced));
        let phase = Phase {
            name: "rolling",
            stream: stream::rolling(pods, replaced, every),
            unit: "pod",
            units: replaced,
            unrelated: None,
        };
        (load(1, 1, pods), vec![phase])
    }

    fn flipping(self, services: usize, a_second: f64) -> (Load, Vec<Phase>) {
        let services = self.scaled(services);
        let time = FLIPPING / u32::try_from(self.scale).unwrap_or(u32::MAX);
        let flips = stream::random_flips(services * 10, a_second, time);
        (load(1, services, 10), vec![flipped("flips", flips)])
    }

    /// The second Service's Pod flips throughout; the first one's, in the second phase, with all the Services that select it.
    fn storms(self) -> Vec<Phase> {
        let storms = (10 / self.scale).max(2);
        let calm = self.scaled(200).max(20);
        let every = STORM_EVERY.as_millis() / UNRELATED_EVERY.as_millis();
        let meanwhile = storms * usize::try_from(every).unwrap_or(1);
        let unrelated = |count| stream::blinks(1, count, UNRELATED_EVERY);
        let calm = Phase {
            unrelated: Some(1),
            ..flipped("calm", unrelated(calm))
        };
        let storm = Phase {
            name: "storm",
            stream: stream::together([stream::blinks(0, storms, STORM_EVERY), unrelated(meanwhile)]),
            unit: "storm",
            units: storms,
            unrelated: Some(1),
        };
        vec![calm, storm]
    }
}

fn flipped(name: &'static str, stream: Stream) -> Phase {
    Phase {
        name,
        units: stream.len(),
        stream,
        unit: "flip",
        unrelated: None,
    }
}

/// A load of the usual kind.
pub fn load(namespaces: usize, services: usize, pods: usize) -> Load {
    Load {
        prefix: "load",
        namespaces,
        services,
        pods,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_workload_but_calibration_and_memory_takes_turns() {
        for (controllers, scale) in [
            (Controllers::Endpoints, 1),
            (Controllers::Both, 1),
            (Controllers::Both, 10),
        ] {
            let plan = Plan {
                controllers,
                scale,
                pairs: 2,
            };
            let names = plan.names().iter();
            for name in names.filter(|name| !name.starts_with("memory") && **name != "calibration") {
                let workload = plan.workload(name).unwrap();
                let turns = if name.starts_with("scale") { 2 } else { 8 };
                assert_eq!(workload.turns.len(), turns, "{name}");
                let known = |pod| pod < 2 * workload.load.all();
                for phase in &workload.phases {
                    assert!(
                        phase.units > 0 && phase.stream.iter().all(|step| known(step.pod)),
                        "{name}"
                    );
                }
            }
            plan.workload("w7").unwrap_err();
            plan.workload("w4-many").unwrap_err();
        }
    }

    #[test]
    fn the_hot_pods_are_ten() {
        for scale in [1, 5] {
            let plan = Plan {
                controllers: Controllers::Both,
                scale,
                pairs: 1,
            };
            assert_eq!(plan.workload("w3-hot").unwrap().load.all(), 10);
        }
    }

    #[test]
    fn a_storm_is_a_change_of_three_hundred_services() {
        let plan = Plan {
            controllers: Controllers::Both,
            scale: 1,
            pairs: 1,
        };
        let workload = plan.workload("w6").unwrap();
        // Of the Services, one is the unrelated one.
        assert_eq!(workload.load.services - 1 + workload.fan, 300);
        let units: Vec<_> = workload
            .phases
            .iter()
            .map(|phase| (phase.units, phase.stream.len()))
            .collect();
        assert_eq!(units, [(200, 200), (10, 410)]);
    }
}
