//! The report for a person.

use std::fmt::Write as _;

use super::kept::{Compared, State};
use super::objects::{GET_ENDPOINTS, LIST_PODS, LIST_SLICES, no_permission};
use super::pods::{Mark, NOT_KNOWN, SeenAs, Verdict};
use super::report::{About, Report};
use super::style::{Colour, Style};
use super::values::{Allocation, Origin, PoolSaid};
use crate::loadbalancer::Choice;

mod readers;

/// Lines of one kind shown at most; the rest is counted, and is in the JSON.
const SHOWN: usize = 20;
/// Near misses shown at most, the nearest first.
const MISSES: usize = 5;

/// The whole screen.
pub fn render(report: &Report, style: Style) -> String {
    let mut screen = Screen {
        text: String::new(),
        style,
    };
    screen.service(report);
    let address = report.load_balancer_address.as_ref();
    screen.list("LoadBalancer address", address.map(Choice::lines).unwrap_or_default());
    screen.allocation(report.allocation.as_ref());
    screen.pods(report);
    screen.objects("Endpoints", report.endpoints.as_deref(), GET_ENDPOINTS, &report.service);
    screen.objects(
        "EndpointSlices",
        report.endpoint_slices.as_deref(),
        LIST_SLICES,
        &report.service,
    );
    screen.list(
        "Hints of topology mode Auto",
        report
            .topology
            .iter()
            .map(|why| format!("none are expected: {why}"))
            .collect(),
    );
    screen.list("Mirroring", report.mirroring.clone());
    screen.dns(report);
    screen.environment(report);
    screen.kube_proxy(report.kube_proxy.as_ref());
    screen.list("Not read", report.unread.clone());
    screen.text
}

struct Screen {
    text: String,
    style: Style,
}

impl Screen {
    fn line(&mut self, text: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{}", text.trim_end());
    }

    fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.line("");
        }
        let text = self.style.paint(Colour::Bold, text);
        self.line(&text);
    }

    /// Nothing if there is nothing.
    fn list(&mut self, heading: &str, lines: Vec<String>) {
        self.list_of(heading, lines, SHOWN);
    }

    /// The first `shown`.
    fn list_of(&mut self, heading: &str, lines: Vec<String>, shown: usize) {
        if lines.is_empty() {
            return;
        }
        self.heading(heading);
        let more = lines.len().saturating_sub(shown);
        for line in lines.into_iter().take(shown) {
            self.line(&format!("  {line}"));
        }
        if more > 0 {
            self.line(&format!("  and {more} more"));
        }
    }

    fn service(&mut self, report: &Report) {
        let about = &report.service;
        let mut words = vec![about.kind.clone()];
        match &about.external_name {
            Some(name) => words.push(name.clone()),
            None if about.cluster_ips == ["None"] => words.push("headless".to_owned()),
            None => words.extend(about.cluster_ips.iter().cloned()),
        }
        if about.terminating {
            words.push("being deleted".to_owned());
        }
        self.heading(&format!(
            "Service {}/{}  {}",
            about.namespace,
            about.name,
            words.join(" ")
        ));
        let selector = match &about.selector {
            Some(selector) => {
                let pairs: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
                pairs.join(",")
            }
            None => "none".to_owned(),
        };
        self.line(&format!("  selector {selector}"));
        for port in &about.ports {
            self.line(&format!("  port {port}"));
        }
        if let Some(addresses) = &about.load_balancer {
            let text = if addresses.is_empty() {
                "address pending (status.loadBalancer.ingress is empty)".to_owned()
            } else {
                addresses.join(" ")
            };
            self.line(&format!("  load balancer {text}"));
        }
        if let Some(class) = &about.load_balancer_class {
            self.line(&format!("  loadBalancerClass {class}"));
        }
        self.distribution(about);
    }

    fn distribution(&mut self, about: &About) {
        let mut ignored = "";
        if let Some(name) = about.topology_annotation {
            self.line(&format!("  topology mode Auto (annotation {name})"));
            ignored = " (ignored: the annotation goes before it)";
        }
        if let Some(distribution) = &about.traffic_distribution {
            self.line(&format!("  trafficDistribution {distribution}{ignored}"));
        }
    }

    fn allocation(&mut self, allocation: Option<&Allocation>) {
        let Some(Allocation { values, pools, notes }) = allocation else {
            return;
        };
        let origin = |it: &Origin| format!("{}  {}; {}", it.value, it.place, it.written);
        let said = |it: &PoolSaid| format!("{} {} ({})  {}", it.kind, it.name, it.values, it.said);
        self.list(
            "Values",
            values.iter().map(origin).chain(notes.iter().cloned()).collect(),
        );
        self.list("Pools", pools.iter().map(said).collect());
    }

    fn pods(&mut self, report: &Report) {
        if report.service.selector.is_some() {
            match report.pods.as_deref() {
                Some([]) if report.service.external_name.is_some() => {
                    let none = "none: an ExternalName Service has no use for a selector";
                    self.list("Pods", vec![none.to_owned()]);
                }
                None => self.list("Pods", vec![not_known(LIST_PODS)]),
                Some([]) => self.list("Pods", vec![format!("the selector matches none{}", no_misses(report))]),
                Some(pods) => self.matched(report, pods),
            }
        }
        let misses = report.near_misses.iter();
        let misses = misses.map(|it| {
            format!(
                "{}  {}/{}  {}",
                self.style.mark(Mark::Out),
                it.namespace,
                it.name,
                it.why
            )
        });
        let misses = misses.collect();
        self.list_of("Near misses", misses, MISSES);
    }

    fn matched(&mut self, report: &Report, pods: &[SeenAs]) {
        self.heading("Pods");
        for line in &report.unresolved_ports {
            self.line(&format!("  {line}"));
        }
        for pod in pods.iter().take(SHOWN) {
            self.pod(pod);
        }
        let more = pods.len().saturating_sub(SHOWN);
        if more > 0 {
            let out = pods.iter().skip(SHOWN).filter(|pod| pod.mark != Mark::In).count();
            self.line(&format!("  and {more} more, {out} of them not wholly in"));
        }
    }

    fn pod(&mut self, pod: &SeenAs) {
        let addresses = if pod.addresses.is_empty() {
            "no address".to_owned()
        } else {
            pod.addresses.join(" ")
        };
        let node = pod
            .node
            .as_deref()
            .map(|node| format!(" on {node}"))
            .unwrap_or_default();
        let mark = self.style.mark(pod.mark);
        self.line(&format!("  {mark}  {}  {addresses}{node}", pod.name));
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for verdict in &pod.verdicts {
            let words = words(verdict);
            match said.iter_mut().find(|(before, _)| *before == words) {
                Some((_, places)) => places.push(verdict.place),
                None => said.push((words, vec![verdict.place])),
            }
        }
        for (words, places) in said {
            self.line(&format!("          {}: {words}", places.join(", ")));
        }
        for note in &pod.notes {
            self.line(&format!("          {note}"));
        }
    }

    /// `right`: what it takes to read them.
    fn objects(&mut self, heading: &str, objects: Option<&[Compared]>, right: &str, service: &About) {
        let lines = match objects {
            None => vec![not_known(right)],
            Some([]) if service.kept_by_apiserver => vec!["none: the apiserver keeps them itself".to_owned()],
            Some([]) => vec!["none, and there should be none".to_owned()],
            Some(objects) => {
                let hinted = objects.iter().flat_map(|it| it.expected.iter().chain(&it.stored));
                let hinted = hinted.flat_map(|it| &it.endpoints).any(|it| !it.hints.is_empty());
                let asked = service.traffic_distribution.is_some() || service.topology_annotation.is_some();
                objects.iter().map(|it| self.object(it, hinted || asked)).collect()
            }
        };
        self.list(heading, lines);
    }

    /// `places`: zones and hints are worth showing.
    fn object(&self, it: &Compared, places: bool) -> String {
        let places = places && it.kind != "Endpoints";
        let name = match (&it.name, &it.state) {
            (Some(name), _) => name.as_str(),
            (None, State::NotKnown(_)) => "none stored",
            (None, _) => "(new)",
        };
        let family = it.family.map(|family| format!(" {family}")).unwrap_or_default();
        // A slice that should go is shown as it is, and Endpoints that should be empty as they should be.
        let as_expected =
            !it.expected.is_empty() || it.kind == "Endpoints" && matches!(it.state, State::Same | State::Differs(_));
        let listed = if as_expected { &it.expected } else { &it.stored };
        let listed: Vec<String> = listed.iter().map(|it| it.text(places)).collect();
        let listed = match (listed.is_empty(), &it.name) {
            (false, _) => format!("  {}", listed.join("; ")),
            (true, Some(_)) => "  no addresses".to_owned(),
            (true, None) => String::new(),
        };
        format!("{name}{family}{listed}  {}", self.style.state(&it.state))
    }
}

/// What follows if no Pod is matched.
fn no_misses(report: &Report) -> &'static str {
    match (report.near_misses.is_empty(), report.near_misses_everywhere) {
        (true, true) => "; near misses: none",
        (true, false) => "; near misses: none in this namespace",
        (false, _) => "",
    }
}

fn not_known(right: &str) -> String {
    format!("not known ({})", no_permission(right))
}

fn words(verdict: &Verdict) -> String {
    match &verdict.why {
        Some(why) if verdict.standing == NOT_KNOWN => format!("{NOT_KNOWN} ({why})"),
        Some(why) => format!("{}, {why}", verdict.standing),
        None if verdict.ports.is_empty() => format!("{}, without ports", verdict.standing),
        None => format!("{} -> {}", verdict.standing, verdict.ports.join(" ")),
    }
}

#[cfg(test)]
mod tests;
