//! What a Pod needs next; pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

/// The next thing to do for one Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Not ours, or finished.
    Nothing,
    /// Give it a Node.
    Bind,
    /// Give it addresses and a running status.
    Run,
    /// Write this readiness.
    Ready(bool),
    /// Delete it for good.
    Remove,
}

/// What the kubelet knows of a Pod besides the object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// When it was first seen with a deletionTimestamp.
    pub terminating_since: Option<Instant>,
    /// The test said that its readiness fails.
    pub failing: bool,
}

/// How Pods end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The containers exit this long after the deletion and their preStop hooks, or at the end of the grace period if that comes first.
    pub exit_after: Duration,
    /// The Pod stays Ready until then.
    pub stay_ready: bool,
}

/// When a terminating Pod's containers are gone.
pub(super) fn end_of(pod: &Pod, since: Instant, ending: Ending) -> Instant {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
    since + grace.min(ending.exit_after.saturating_add(pre_stop(pod)))
}

/// How long the preStop hooks of its containers sleep.
pub(crate) fn pre_stop(pod: &Pod) -> Duration {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let hooks = containers.filter_map(|it| it.lifecycle.as_ref()?.pre_stop.as_ref()?.sleep.as_ref());
    let seconds = hooks.map(|sleep| u64::try_from(sleep.seconds).unwrap_or_default());
    Duration::from_secs(seconds.max().unwrap_or_default())
}

/// Decides from the object as last seen. `ours` tells which Nodes this kubelet plays.
pub(super) fn next(pod: &Pod, known: Known, ending: Ending, now: Instant, ours: impl Fn(&str) -> bool) -> Step {
    let Some(spec) = &pod.spec else {
        return Step::Nothing;
    };
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.as_deref().unwrap_or_default();
    match spec.node_name.as_deref().unwrap_or_default() {
        "" if pod.metadata.deletion_timestamp.is_some() => return Step::Nothing,
        "" if spec.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty()) => return Step::Nothing,
        "" => return Step::Bind,
        node if !ours(node) => return Step::Nothing,
        _ => {}
    }
    let is_ready = status
        .conditions
        .iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True");
    let readiness = |want: bool| {
        if is_ready == want {
            Step::Nothing
        } else {
            Step::Ready(want)
        }
    };
    if let Some(since) = known.terminating_since {
        if now >= end_of(pod, since, ending) {
            return Step::Remove;
        }
        return if ending.stay_ready {
            Step::Nothing
        } else {
            readiness(false)
        };
    }
    match phase {
        "Succeeded" | "Failed" => Step::Nothing,
        "Running" if status.pod_ip.is_some() => readiness(!known.failing),
        _ => Step::Run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_pods_life() {
        let now = Instant::now();
        let earlier = now.checked_sub(Duration::from_secs(3)).unwrap();
        let ready =
            |s: &str| json!({"phase": "Running", "podIP": "10.9.0.1", "conditions": [{"type": "Ready", "status": s}]});
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30});
        let ours = json!({"containers": [], "nodeName": "ours"});
        let fails = Known {
            failing: true,
            ..Known::default()
        };
        let ends = Known {
            terminating_since: Some(earlier),
            ..Known::default()
        };
        let slow = |stay_ready| Ending {
            exit_after: Duration::from_secs(10),
            stay_ready,
        };
        let quick = Ending {
            exit_after: Duration::from_secs(3),
            stay_ready: false,
        };
        let known = Known::default();
        let none = Value::Null;
        let table = [
            (&none, json!({"containers": []}), none.clone(), known, quick, Step::Bind),
            (
                &none,
                json!({"containers": [], "schedulingGates": [{"name": "g"}]}),
                none.clone(),
                known,
                quick,
                Step::Nothing,
            ),
            (
                &none,
                json!({"containers": [], "nodeName": "other"}),
                none.clone(),
                known,
                quick,
                Step::Nothing,
            ),
            (&none, ours.clone(), none.clone(), known, quick, Step::Run),
            (
                &none,
                ours.clone(),
                json!({"phase": "Pending"}),
                known,
                quick,
                Step::Run,
            ),
            (&none, ours.clone(), ready("True"), known, quick, Step::Nothing),
            (&none, ours.clone(), ready("False"), known, quick, Step::Ready(true)),
            (&none, ours.clone(), ready("True"), fails, quick, Step::Ready(false)),
            (
                &none,
                ours.clone(),
                json!({"phase": "Failed"}),
                known,
                quick,
                Step::Nothing,
            ),
            (
                &deleted,
                json!({"containers": []}),
                none.clone(),
                ends,
                quick,
                Step::Nothing,
            ),
            (
                &deleted,
                ours.clone(),
                ready("True"),
                ends,
                slow(false),
                Step::Ready(false),
            ),
            (&deleted, ours.clone(), ready("False"), ends, slow(false), Step::Nothing),
            (&deleted, ours.clone(), ready("True"), ends, slow(true), Step::Nothing),
            (&deleted, ours.clone(), ready("False"), ends, quick, Step::Remove),
        ];
        for (row, (metadata, spec, status, known, ending, want)) in table.into_iter().enumerate() {
            let pod = json!({"metadata": metadata, "spec": spec, "status": status});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(next(&pod, known, ending, now, |n| n == "ours"), want, "row {row}");
        }
    }
}
