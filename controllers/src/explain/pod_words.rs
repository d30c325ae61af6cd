//! The words for what is the matter with a Pod.

use k8s_openapi::api::core::v1 as core;

use super::named_ports::NamedPorts;
use crate::endpoints::{CAPACITY, Unlisted};
use crate::model::{IpFamily, Pod, Service};

/// Why a Pod is not listed; `family` is the one that counts there. `None` = it should be, and has found no room.
pub fn why(unlisted: Option<Unlisted>, family: Option<IpFamily>, pod: &Pod, full: &core::Pod) -> String {
    let Some(unlisted) = unlisted else {
        return format!("Endpoints hold at most {CAPACITY} addresses");
    };
    match unlisted {
        Unlisted::Finished => {
            let status = full.status.as_ref();
            let phase = status.and_then(|status| status.phase.as_deref());
            format!("its phase is {}", phase.unwrap_or("Succeeded or Failed"))
        }
        Unlisted::Terminating => "it is being deleted".to_owned(),
        Unlisted::NoNode => "it is not scheduled to a Node".to_owned(),
        Unlisted::UnknownNode => {
            let node = pod.node_name.as_deref().unwrap_or_default();
            format!("there is no Node {node}")
        }
        Unlisted::NoAddress => match family {
            Some(family) if !pod.ips.is_empty() => format!("it has no {} address", family.as_str()),
            _ => "it has no address yet".to_owned(),
        },
        Unlisted::Refused(ip) => format!("the apiserver takes no loopback or link-local address such as {ip}"),
        Unlisted::NoPort => "it has none of the Service's ports".to_owned(),
        Unlisted::NoServicePorts => "the Service has no ports and is not headless".to_owned(),
    }
}

/// What explains how a Pod is listed.
pub fn notes(service: &Service, ports: &NamedPorts<'_>, pod: &Pod, full: &core::Pod) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(time) = &full.metadata.deletion_timestamp {
        notes.push(format!(
            "being deleted, with time until {}",
            time.0.strftime("%Y-%m-%dT%H:%M:%SZ")
        ));
    }
    if !pod.ready {
        notes.extend(not_ready(pod, full));
    }
    if service.publish_not_ready && (!pod.ready || full.metadata.deletion_timestamp.is_some()) {
        let listed = "publishNotReadyAddresses: the Service lists Pods that are not ready or are being deleted as if they were ready";
        notes.push(listed.to_owned());
    }
    notes.extend(ports.missing_in(pod));
    notes
}

fn not_ready(pod: &Pod, full: &core::Pod) -> Vec<String> {
    let status = full.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let Some(ready) = conditions.iter().find(|condition| condition.type_ == "Ready") else {
        return vec!["not ready: it has no condition Ready".to_owned()];
    };
    let since = pod
        .ready_transition
        .map(|time| format!(" since {time}"))
        .unwrap_or_default();
    let mut words = Vec::new();
    let inits = status.init_container_statuses.unwrap_or_default();
    let inits = inits.iter().filter(|it| !it.ready && !has_succeeded(it));
    let containers = status.container_statuses.unwrap_or_default();
    let containers = containers.iter().filter(|container| !container.ready);
    words.extend(inits.map(|it| format!("init container {}", container(it))));
    words.extend(containers.map(|it| format!("container {}", container(it))));
    let gates = full.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let gates = gates.map(|gate| gate.condition_type.as_str()).filter(|gate| {
        let condition = conditions.iter().find(|condition| condition.type_ == **gate);
        condition.is_none_or(|condition| condition.status != "True")
    });
    words.extend(gates.map(|gate| format!("readiness gate {gate} is not True")));
    if words.is_empty() {
        let said = [ready.reason.as_deref(), ready.message.as_deref()];
        words.extend(said.into_iter().flatten().map(str::to_owned));
    }
    let status = if ready.status == "False" {
        String::new()
    } else {
        format!(" (Ready is {})", ready.status)
    };
    let because = if words.is_empty() {
        String::new()
    } else {
        format!(": {}", words.join("; "))
    };
    vec![format!("not ready{since}{status}{because}")]
}

/// An init container that has done its work is not ready and need not be.
fn has_succeeded(container: &core::ContainerStatus) -> bool {
    let state = container.state.as_ref();
    let terminated = state.and_then(|state| state.terminated.as_ref());
    terminated.is_some_and(|terminated| terminated.exit_code == 0)
}

fn container(container: &core::ContainerStatus) -> String {
    let name = &container.name;
    let state = container.state.clone().unwrap_or_default();
    if let Some(waiting) = state.waiting {
        return format!(
            "{name} waits: {}",
            waiting.reason.unwrap_or_else(|| "no reason given".to_owned())
        );
    }
    if let Some(terminated) = state.terminated {
        let reason = terminated.reason.unwrap_or_else(|| "ended".to_owned());
        return format!("{name} has ended: {reason}, exit code {}", terminated.exit_code);
    }
    if state.running.is_some() {
        return format!("{name} runs and its probes have not passed");
    }
    format!("{name} is not ready")
}
