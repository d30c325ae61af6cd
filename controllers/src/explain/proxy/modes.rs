//! What differs between the modes of kube-proxy, as its packages `iptables`, `nftables` and `ipvs` have it.

use k8s_openapi::api::core::v1::ServiceSpec;

use super::ProxiedPort;

/// What it does in this mode, a sentence each.
pub fn does(mode: &str, spec: &ServiceSpec, ports: &[ProxiedPort]) -> Vec<String> {
    let look = Look { mode, spec, ports };
    let some = ports.iter().any(|port| !port.endpoints.is_empty());
    let mut does = Vec::new();
    if some {
        does.push(if look.is_ipvs() {
            "sends each new connection to the next endpoint (scheduler rr, unless it is told otherwise)".to_owned()
        } else {
            "sends each new connection to an endpoint at random".to_owned()
        });
    }
    does.extend(look.refuses());
    if some {
        does.extend(look.affinity());
        does.extend(look.internal_policy());
        does.extend(look.external_policy());
    }
    does.extend(look.answers_load_balancers());
    // In iptables mode the rules for it are written only if there are endpoints.
    if some || mode != "iptables" {
        does.extend(look.source_ranges());
    }
    does
}

struct Look<'a> {
    mode: &'a str,
    spec: &'a ServiceSpec,
    ports: &'a [ProxiedPort],
}

impl Look<'_> {
    fn is_ipvs(&self) -> bool {
        self.mode == "ipvs"
    }

    /// The words for this mode.
    fn by_mode<'t>(&self, iptables: &'t str, nftables: &'t str, ipvs: &'t str) -> &'t str {
        match self.mode {
            "iptables" => iptables,
            "nftables" => nftables,
            _ => ipvs,
        }
    }

    /// Without any endpoint traffic from outside is refused like that from inside, whatever the policies say.
    fn refuses(&self) -> Option<String> {
        let empty = self.ports.iter().filter(|port| port.endpoints.is_empty());
        let empty: Vec<String> = empty.map(|port| port.frontends.join(" ")).collect();
        let how = self.by_mode("REJECT", "reject", "a virtual server without destinations");
        (!empty.is_empty()).then(|| format!("refuses connections to {}: no endpoints ({how})", empty.join(", ")))
    }

    fn affinity(&self) -> Option<String> {
        if self.spec.session_affinity.as_deref() != Some("ClientIP") {
            return None;
        }
        let config = self.spec.session_affinity_config.as_ref();
        let config = config.and_then(|it| it.client_ip.as_ref());
        let seconds = config.and_then(|it| it.timeout_seconds).unwrap_or(10_800);
        let how = self.by_mode("match recent", "a set with a timeout", "persistence");
        Some(format!(
            "keeps a client at its endpoint until it has made no connection for {seconds} s ({how})"
        ))
    }

    /// Addresses and ports for clients outside the cluster that lead somewhere.
    fn outside(&self) -> Vec<&str> {
        let ports = self.ports.iter().filter(|port| !port.endpoints.is_empty());
        let mut all: Vec<&str> = Vec::new();
        for frontend in ports.flat_map(|port| port.frontends.iter().skip(1)) {
            // A nodePort stands for both families.
            if !all.contains(&frontend.as_str()) {
                all.push(frontend);
            }
        }
        all
    }

    fn internal_policy(&self) -> Option<String> {
        if self.spec.internal_traffic_policy.as_deref() != Some("Local") {
            return None;
        }
        let nowhere = match (self.is_ipvs(), self.outside().is_empty()) {
            (false, _) => "dropped",
            // Endpoints of other Nodes are known to it for the sake of clients outside only.
            (true, true) => "refused",
            (true, false) => "to all of them",
        };
        Some(format!(
            "from inside the cluster: to endpoints on the client's Node; on a Node without one {nowhere}"
        ))
    }

    fn is_external_local(&self) -> bool {
        self.spec.external_traffic_policy.as_deref() == Some("Local")
    }

    fn external_policy(&self) -> Option<String> {
        let outside = self.outside();
        if outside.is_empty() || !self.is_external_local() {
            return None;
        }
        let nowhere = self.by_mode("dropped", "dropped", "replies are lost");
        Some(format!(
            "from outside, to {}: to endpoints on the Node that it comes to, with the client's address; on a Node without one {nowhere}",
            outside.join(" ")
        ))
    }

    fn answers_load_balancers(&self) -> Option<String> {
        let number = self.spec.health_check_node_port.filter(|number| *number > 0)?;
        let is_ready = |port: &ProxiedPort| !port.endpoints.is_empty() && !port.terminating_only;
        let what = if self.ports.iter().any(is_ready) {
            "200 on Nodes with a ready endpoint, 503 on others"
        } else {
            "503 on every Node"
        };
        self.is_external_local()
            .then(|| format!("answers load balancers on NODE:{number}: {what}"))
    }

    fn source_ranges(&self) -> Option<String> {
        let ranges = self.spec.load_balancer_source_ranges.as_deref().unwrap_or_default();
        (!ranges.is_empty()).then(|| format!("lets only {} through to load balancer addresses", ranges.join(", ")))
    }
}
