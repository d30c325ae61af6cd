//! The report for a person.

use std::fmt::Write as _;

use super::kept::Compared;
use super::listing::Listing;
use super::pods::{Mark, SeenAs, Verdict};
use super::proxy::Proxied;
use super::report::Report;
use super::style::{Colour, Style};

/// Lines of one kind shown at most; the rest is counted, and is in the JSON.
const SHOWN: usize = 20;
/// Endpoints named in one line.
const NAMED: usize = 6;

/// The whole screen.
pub fn render(report: &Report, style: Style) -> String {
    let mut screen = Screen {
        text: String::new(),
        style,
    };
    screen.service(report);
    screen.pods(report);
    screen.objects("Endpoints", report.endpoints.as_deref());
    screen.objects("EndpointSlices", report.endpoint_slices.as_deref());
    screen.list(
        "No hints for topology mode Auto",
        report.topology.iter().cloned().collect(),
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
        if lines.is_empty() {
            return;
        }
        self.heading(heading);
        let more = lines.len().saturating_sub(SHOWN);
        for line in lines.into_iter().take(SHOWN) {
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
    }

    fn pods(&mut self, report: &Report) {
        if report.service.selector.is_some() {
            match report.pods.as_deref() {
                None => self.list("Pods", vec!["not known".to_owned()]),
                Some([]) => self.list("Pods", vec!["the selector matches none".to_owned()]),
                Some(pods) => {
                    self.heading("Pods");
                    for pod in pods.iter().take(SHOWN) {
                        self.pod(pod);
                    }
                    let more = pods.len().saturating_sub(SHOWN);
                    if more > 0 {
                        let out = pods.iter().skip(SHOWN).filter(|pod| pod.mark != Mark::In).count();
                        self.line(&format!("  and {more} more, {out} of them not wholly in"));
                    }
                }
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
        self.list("Near misses", misses);
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

    fn objects(&mut self, heading: &str, objects: Option<&[Compared]>) {
        let Some(objects) = objects else {
            return self.list(heading, vec!["not known".to_owned()]);
        };
        let style = self.style;
        let line = |it: &Compared| {
            let name = it.name.as_deref().unwrap_or("(new)");
            let family = it.family.map(|family| format!(" {family}")).unwrap_or_default();
            let listed = if it.expected.is_empty() {
                &it.stored
            } else {
                &it.expected
            };
            let listed: Vec<String> = listed.iter().map(listing).collect();
            let listed = if listed.is_empty() {
                String::new()
            } else {
                format!("  {}", listed.join("; "))
            };
            format!("{name}{family}{listed}  {}", style.state(&it.state))
        };
        let lines: Vec<String> = objects.iter().map(line).collect();
        let none = vec!["none, and there should be none".to_owned()];
        self.list(heading, if lines.is_empty() { none } else { lines });
    }

    fn dns(&mut self, report: &Report) {
        let heading = "DNS, as stored now";
        let Some(records) = &report.dns else {
            return self.list(heading, vec!["not known".to_owned()]);
        };
        if records.is_empty() {
            return self.list(heading, vec!["no record: NXDOMAIN".to_owned()]);
        }
        let lines = records
            .iter()
            .map(|it| format!("{}  {}  {}", it.name, it.kind, it.value));
        self.list(heading, lines.collect());
    }

    fn environment(&mut self, report: &Report) {
        let environment = &report.environment;
        let lines = environment
            .variables
            .iter()
            .map(|it| format!("{}={}", it.name, it.value));
        let heading = format!(
            "Environment of containers that start now in {}",
            report.service.namespace
        );
        self.list(&heading, lines.chain(environment.notes.iter().cloned()).collect());
    }

    fn kube_proxy(&mut self, proxied: Option<&Proxied>) {
        let heading = "kube-proxy, as stored now";
        let Some(proxied) = proxied else {
            return self.list(heading, vec!["not known".to_owned()]);
        };
        if let Some(nothing) = &proxied.nothing {
            return self.list(heading, vec![format!("does nothing: {nothing}")]);
        }
        self.heading(heading);
        for port in &proxied.ports {
            let state = if port.terminating_only {
                " (none is ready: these are terminating and still serve)"
            } else {
                ""
            };
            let leads = if port.endpoints.is_empty() {
                "no endpoints".to_owned()
            } else {
                some(&port.endpoints)
            };
            self.line(&format!(
                "  {} {} -> {leads}{state}",
                port.frontends.join(" "),
                port.protocol
            ));
        }
        for mode in &proxied.modes {
            self.line(&format!("  {:<8}  {}", mode.mode, mode.does.join("; ")));
        }
    }
}

fn words(verdict: &Verdict) -> String {
    match &verdict.why {
        Some(why) => format!("{}, {why}", verdict.standing),
        None if verdict.ports.is_empty() => format!("{}, without ports", verdict.standing),
        None => format!("{} -> {}", verdict.standing, verdict.ports.join(" ")),
    }
}

fn listing(listing: &Listing) -> String {
    let endpoints: Vec<String> = listing.endpoints.iter().map(ToString::to_string).collect();
    let ports = if listing.ports.is_empty() {
        "no ports".to_owned()
    } else {
        listing.ports.join(" ")
    };
    let endpoints = if endpoints.is_empty() {
        "no endpoints".to_owned()
    } else {
        some(&endpoints)
    };
    format!("{endpoints} -> {ports}")
}

/// The first few, and how many more.
fn some(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED);
    let first: Vec<&str> = all.iter().take(NAMED).map(String::as_str).collect();
    if more == 0 {
        first.join(" ")
    } else {
        format!("{} and {more} more", first.join(" "))
    }
}

#[cfg(test)]
mod tests;
