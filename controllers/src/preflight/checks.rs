//! What the facts mean for an installation, without a client.

use std::time::Duration;

use serde::Serialize;
use svcplane_runtime::api::in_seconds;
use svcplane_runtime::leader::{MODE_ANNOTATION, SeenLease};

use super::builtin::{running, without};
use crate::canary::RESULT_ANNOTATION;
use crate::orders::kinds;

/// What was read of the cluster. `Err`: why something could not be read, in one line.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `v1.37.2`.
    pub version: String,
    /// `37`.
    pub minor: Option<u32>,
    /// Pods of kube-controller-manager, each with its `--controllers`.
    pub managers: Result<Vec<(String, Option<String>)>, String>,
    /// Pods of kube-apiserver, each with its `--service-node-port-range`.
    pub node_ports: Result<Vec<(String, Option<String>)>, String>,
    /// Products with pools of LoadBalancer addresses, and how many each has, as `IPAddressPools (MetalLB)`.
    pub balancers: Result<Vec<(&'static str, usize)>, String>,
    /// Objects of each kind that kube-controller-manager wrote in the last hour, as `Endpoints shop/web`, and how long ago: the newest of each.
    pub writes: Result<Vec<(String, Duration)>, String>,
    /// CIDRs of the ServiceCIDRs; `None` on a server that has none.
    pub ranges: Result<Option<Vec<String>>, String>,
    /// Rights that `svcplane run` needs in active mode and this account lacks.
    pub missing: Result<Vec<String>, String>,
    /// Webhooks of others that may change Services.
    pub mutators: Result<Vec<String>, String>,
    /// svcplane's Lease.
    pub lease: Result<Option<SeenLease>, String>,
    /// Services with the label `svcplane.io/canary`.
    pub canaries: Result<Vec<String>, String>,
}

/// What to make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Nothing to do.
    Ok,
    /// To know.
    Note,
    /// Could not be seen.
    Unknown,
    /// To be done before `--mode=active`.
    Act,
}

impl State {
    /// Its word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Unknown => "?",
            Self::Act => "ACT",
        }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub subject: &'static str,
    /// What to make of it.
    pub state: State,
    /// What there is.
    pub found: String,
    /// What to set or do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub todo: String,
}

fn check(subject: &'static str, state: State, found: impl Into<String>, todo: impl Into<String>) -> Check {
    Check {
        subject,
        state,
        found: found.into(),
        todo: todo.into(),
    }
}

/// The version that svcplane is tested with.
const TESTED: u32 = 37;

/// The first one with ServiceCIDRs.
const WITH_RANGES: u32 = 33;

/// Whoever wrote within this time lives, as far as anybody can tell.
const LIVES: Duration = Duration::from_mins(5);

/// Every row, in the order in which one goes about it.
pub fn checks(facts: &Facts) -> Vec<Check> {
    let mut rows = vec![version(facts)];
    rows.extend(built_in(facts));
    rows.extend([
        row("last writers", &facts.writes, |writes| last_writers(writes)),
        row("ranges", &facts.ranges, |found| ranges(found.as_deref())),
        row("nodePorts", &facts.node_ports, |found| node_ports(found)),
        row("permissions", &facts.missing, |missing| permissions(missing)),
        row("other mutators", &facts.mutators, |found| mutators(found)),
        row("load balancers", &facts.balancers, |found| balancers(found)),
        row("svcplane", &facts.lease, |lease| svcplane(lease.as_ref())),
        row("canary", &facts.canaries, |found| canaries(found)),
    ]);
    rows
}

/// What is made of what was read, if it could be.
fn row<T>(subject: &'static str, read: &Result<T, String>, judge: impl FnOnce(&T) -> Check) -> Check {
    match read {
        Ok(read) => judge(read),
        Err(why) => check(subject, State::Unknown, why.as_str(), ""),
    }
}

fn version(facts: &Facts) -> Check {
    let found = facts.version.as_str();
    match facts.minor {
        Some(TESTED) => check("Kubernetes", State::Ok, found, ""),
        Some(minor) if minor < WITH_RANGES => {
            let todo = "svcplane is tested with 1.37; the webhook needs --service-cluster-ip-range here";
            check("Kubernetes", State::Note, found, todo)
        }
        _ => check("Kubernetes", State::Note, found, "svcplane is tested with 1.37"),
    }
}

fn built_in(facts: &Facts) -> Vec<Check> {
    const SUBJECT: &str = "built-in controllers";
    let managers = match &facts.managers {
        Ok(managers) => managers,
        Err(why) => return vec![check(SUBJECT, State::Unknown, why.as_str(), "")],
    };
    if managers.is_empty() {
        let found = "no Pod of kube-controller-manager is to be seen in kube-system";
        let todo = "where the control plane is not yours, they cannot be switched off: stay in observe mode, and use webhook and pools";
        return vec![check(SUBJECT, State::Unknown, found, todo)];
    }
    let rows = managers.iter().map(|(pod, flag)| {
        let flag = flag.as_deref().unwrap_or("*");
        let alive = running(flag);
        if alive.is_empty() {
            return check(SUBJECT, State::Ok, format!("{pod}: off"), "");
        }
        let todo = format!(
            "for active mode: --controllers={} on kube-controller-manager",
            without(flag)
        );
        check(SUBJECT, State::Act, format!("{pod}: keeps {}", kinds(&alive)), todo)
    });
    rows.collect()
}

fn last_writers(writes: &[(String, Duration)]) -> Check {
    if writes.is_empty() {
        let found = "kube-controller-manager has written no Endpoints or EndpointSlice in the last hour";
        return check("last writers", State::Ok, found, "");
    }
    let written: Vec<String> = writes
        .iter()
        .map(|(object, age)| format!("{object}, {} ago", in_seconds(*age)))
        .collect();
    let found = format!("kube-controller-manager: {}", written.join("; "));
    if writes.iter().any(|(_, age)| *age < LIVES) {
        let todo = "for active mode: its endpoint controllers must be off; look again five minutes later";
        return check("last writers", State::Act, found, todo);
    }
    check(
        "last writers",
        State::Note,
        found,
        "they ran a while ago: make sure that they are off",
    )
}

fn ranges(found: Option<&[String]>) -> Check {
    match found {
        Some([]) => check(
            "ranges",
            State::Note,
            "no ServiceCIDR",
            "the webhook needs --service-cluster-ip-range",
        ),
        Some(cidrs) => check("ranges", State::Ok, cidrs.join(", "), ""),
        None => check(
            "ranges",
            State::Note,
            "this apiserver has no ServiceCIDRs",
            "the webhook needs --service-cluster-ip-range",
        ),
    }
}

fn node_ports(found: &[(String, Option<String>)]) -> Check {
    const SUBJECT: &str = "nodePorts";
    const DEFAULT: &str = "30000-32767";
    let told = |range: &Option<String>| range.clone().unwrap_or_else(|| DEFAULT.to_owned());
    let mut ranges: Vec<String> = found.iter().map(|(_, range)| told(range)).collect();
    ranges.sort_unstable();
    ranges.dedup();
    match ranges.as_slice() {
        [] => {
            let found = "no Pod of kube-apiserver is to be seen in kube-system";
            let todo =
                "if it has a --service-node-port-range, svcplane needs the same (chart: allocator.nodePort.range)";
            check(SUBJECT, State::Unknown, found, todo)
        }
        [range] if range == DEFAULT => check(SUBJECT, State::Ok, DEFAULT, ""),
        [range] => {
            let todo =
                format!("svcplane needs it, too: --service-node-port-range={range} (chart: allocator.nodePort.range)");
            check(SUBJECT, State::Note, range.as_str(), todo)
        }
        _ => {
            let each: Vec<String> = found
                .iter()
                .map(|(pod, range)| format!("{pod}: {}", told(range)))
                .collect();
            let todo = "give every kube-apiserver, and svcplane, the same --service-node-port-range";
            check(SUBJECT, State::Note, each.join("; "), todo)
        }
    }
}

fn balancers(found: &[(&str, usize)]) -> Check {
    const SUBJECT: &str = "load balancers";
    if found.is_empty() {
        return check(SUBJECT, State::Ok, "no pools of MetalLB or Cilium", "");
    }
    let each: Vec<String> = found
        .iter()
        .map(|(plural, count)| format!("{count} {plural}"))
        .collect();
    let todo = "svcplane touches no Service whose class is not its own; svcplane pools import makes LoadBalancerPools of theirs";
    check(SUBJECT, State::Note, each.join(", "), todo)
}

fn permissions(missing: &[String]) -> Check {
    if missing.is_empty() {
        return check(
            "permissions",
            State::Ok,
            "this account has all that active mode needs",
            "",
        );
    }
    let found = format!("this account lacks: {}", missing.join(", "));
    check(
        "permissions",
        State::Act,
        found,
        "if svcplane is to run as this account, grant them",
    )
}

fn mutators(found: &[String]) -> Check {
    if found.is_empty() {
        return check("other mutators", State::Ok, "no other webhook changes Services", "");
    }
    let todo = "svcplane's webhook must come after them: name its configuration zz-…, with reinvocationPolicy IfNeeded";
    check("other mutators", State::Note, found.join("; "), todo)
}

fn svcplane(lease: Option<&SeenLease>) -> Check {
    let Some(lease) = lease else {
        return check(
            "svcplane",
            State::Ok,
            "not installed here: it has no Lease",
            "begin with --mode=observe, the default",
        );
    };
    let holder = match lease.record.holder.as_str() {
        "" => "nobody leads".to_owned(),
        holder => format!("{holder} leads"),
    };
    match lease.notes.get(MODE_ANNOTATION) {
        Some(mode) => {
            let found = format!("{holder}; the Lease says {mode}");
            check(
                "svcplane",
                State::Note,
                found,
                "svcplane handback --cancel takes it back",
            )
        }
        None if lease
            .notes
            .get(RESULT_ANNOTATION)
            .is_some_and(|text| text.starts_with("failed")) =>
        {
            let todo = "it writes nothing until the built-in controllers that its canary has found are off";
            check("svcplane", State::Note, holder, todo)
        }
        None => check("svcplane", State::Ok, holder, ""),
    }
    .with(lease.notes.get(RESULT_ANNOTATION).map(|text| format!("canary {text}")))
}

impl Check {
    fn with(mut self, more: Option<String>) -> Self {
        if let Some(more) = more {
            self.found = format!("{}; {more}", self.found);
        }
        self
    }
}

fn canaries(found: &[String]) -> Check {
    match found {
        [] => {
            let todo = "make one, and start svcplane with --canary=NAMESPACE/NAME: it will not write while a built-in controller lives";
            check("canary", State::Note, "there is none", todo)
        }
        [one] => check("canary", State::Ok, one.as_str(), format!("--canary={one}")),
        several => check("canary", State::Note, several.join(", "), "one is enough"),
    }
}

#[cfg(test)]
mod tests {
    use svcplane_runtime::leader::record::Record;

    use super::*;

    fn quiet() -> Facts {
        Facts {
            version: "v1.37.2".into(),
            minor: Some(37),
            managers: Ok(vec![(
                "kcm-1".into(),
                Some("*,-endpoint,-endpointslice,-endpointslicemirroring".into()),
            )]),
            node_ports: Ok(vec![
                ("kas-1".into(), None),
                ("kas-2".into(), Some("30000-32767".into())),
            ]),
            balancers: Ok(Vec::new()),
            writes: Ok(Vec::new()),
            ranges: Ok(Some(vec!["10.96.0.0/16".into()])),
            missing: Ok(Vec::new()),
            mutators: Ok(Vec::new()),
            lease: Ok(None),
            canaries: Ok(vec!["svcplane/canary".into()]),
        }
    }

    fn row_of(facts: &Facts, subject: &str) -> (State, String, String) {
        let rows = checks(facts);
        let row = rows.into_iter().find(|row| row.subject == subject).unwrap();
        (row.state, row.found, row.todo)
    }

    #[test]
    fn nothing_is_to_be_done_where_all_is_ready() {
        let rows = checks(&quiet());
        assert_eq!(rows.len(), 10);
        assert!(rows.iter().all(|row| row.state == State::Ok), "{rows:?}");
    }

    #[test]
    fn each_fact_is_told_with_what_to_set() {
        let change = |change: fn(&mut Facts)| {
            let mut facts = quiet();
            change(&mut facts);
            facts
        };
        let table: [(&str, Facts, State, &str, &str); 17] = [
            (
                "built-in controllers",
                change(|it| it.managers = Ok(vec![("kcm-1".into(), Some("*,tokencleaner".into()))])),
                State::Act,
                "kcm-1: keeps Endpoints,EndpointSlice,MirroredEndpointSlice",
                "--controllers=*,tokencleaner,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller",
            ),
            (
                "built-in controllers",
                change(|it| it.managers = Ok(vec![])),
                State::Unknown,
                "no Pod",
                "stay in observe mode",
            ),
            (
                "built-in controllers",
                change(|it| it.managers = Err("not permitted".into())),
                State::Unknown,
                "not permitted",
                "",
            ),
            (
                "Kubernetes",
                change(|it| it.minor = Some(32)),
                State::Note,
                "v1.37.2",
                "--service-cluster-ip-range",
            ),
            (
                "ranges",
                change(|it| it.ranges = Ok(None)),
                State::Note,
                "no ServiceCIDRs",
                "--service-cluster-ip-range",
            ),
            (
                "built-in controllers",
                change(|it| it.managers = Ok(vec![("kcm-1".into(), None)])),
                State::Act,
                "kcm-1: keeps Endpoints,EndpointSlice,MirroredEndpointSlice",
                "--controllers=*,-endpoints-controller",
            ),
            (
                "nodePorts",
                change(|it| it.node_ports = Ok(vec![])),
                State::Unknown,
                "no Pod of kube-apiserver",
                "svcplane needs the same",
            ),
            (
                "nodePorts",
                change(|it| it.node_ports = Ok(vec![("kas-1".into(), Some("20000-22767".into()))])),
                State::Note,
                "20000-22767",
                "--service-node-port-range=20000-22767",
            ),
            (
                "nodePorts",
                change(|it| {
                    it.node_ports = Ok(vec![
                        ("kas-1".into(), None),
                        ("kas-2".into(), Some("20000-22767".into())),
                    ]);
                }),
                State::Note,
                "kas-1: 30000-32767; kas-2: 20000-22767",
                "give every kube-apiserver",
            ),
            (
                "load balancers",
                change(|it| it.balancers = Ok(vec![("IPAddressPools (MetalLB)", 2)])),
                State::Note,
                "2 IPAddressPools (MetalLB)",
                "pools import",
            ),
            (
                "permissions",
                change(|it| it.missing = Ok(vec!["get on pods".into()])),
                State::Act,
                "lacks: get on pods",
                "grant",
            ),
            (
                "other mutators",
                change(|it| it.mutators = Ok(vec!["aws".into()])),
                State::Note,
                "aws",
                "zz-",
            ),
            (
                "last writers",
                change(|it| it.writes = Ok(vec![("Endpoints a/b".into(), Duration::from_secs(299))])),
                State::Act,
                "Endpoints a/b, 4m59s ago",
                "must be off",
            ),
            (
                "last writers",
                change(|it| it.writes = Ok(vec![("Endpoints a/b".into(), Duration::from_mins(5))])),
                State::Note,
                "a/b, 5m0s ago",
                "make sure",
            ),
            (
                "canary",
                change(|it| it.canaries = Ok(vec![])),
                State::Note,
                "none",
                "--canary=NAMESPACE/NAME",
            ),
            (
                "svcplane",
                change(|it| {
                    it.lease = Ok(Some(SeenLease {
                        record: Record::default(),
                        notes: [(MODE_ANNOTATION.to_owned(), "observe".to_owned())].into(),
                    }));
                }),
                State::Note,
                "nobody leads; the Lease says observe",
                "--cancel",
            ),
            (
                "svcplane",
                change(|it| {
                    let said = "failed 2026-12-01T21:00:00Z Endpoints of Endpoints";
                    it.lease = Ok(Some(SeenLease {
                        record: Record::default(),
                        notes: [(RESULT_ANNOTATION.to_owned(), said.to_owned())].into(),
                    }));
                }),
                State::Note,
                "nobody leads; canary failed 2026-12-01T21:00:00Z Endpoints of Endpoints",
                "writes nothing until",
            ),
        ];
        for (subject, facts, state, found, todo) in table {
            let got = row_of(&facts, subject);
            assert!(
                got.0 == state && got.1.contains(found) && got.2.contains(todo),
                "{subject}: {got:?}"
            );
        }
    }
}
