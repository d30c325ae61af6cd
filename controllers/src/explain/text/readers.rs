//! What those see who read what is stored.

use super::{Screen, not_known};
use crate::explain::objects::LIST_SLICES;
use crate::explain::proxy::Proxied;
use crate::explain::report::Report;
use crate::listing::some;

impl Screen {
    pub(super) fn dns(&mut self, report: &Report) {
        let heading = "DNS, as stored now";
        let Some(records) = &report.dns else {
            return self.list(heading, vec![not_known(LIST_SLICES)]);
        };
        if records.is_empty() {
            return self.list(heading, vec!["no record: NXDOMAIN".to_owned()]);
        }
        let lines = records
            .iter()
            .map(|it| format!("{}  {}  {}", it.name, it.kind, it.value));
        self.list(heading, lines.collect());
    }

    pub(super) fn environment(&mut self, report: &Report) {
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

    pub(super) fn kube_proxy(&mut self, proxied: Option<&Proxied>) {
        let heading = "kube-proxy, as stored now";
        let Some(proxied) = proxied else {
            return self.list(heading, vec![not_known(LIST_SLICES)]);
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
        for line in proxied.unused.iter().chain(&proxied.hints) {
            self.line(&format!("  {line}"));
        }
        for mode in &proxied.modes {
            self.line(&format!("  {:<8}  {}", mode.mode, mode.does.join("; ")));
        }
    }
}
