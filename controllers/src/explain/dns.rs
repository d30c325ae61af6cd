//! The DNS records of a Service by the Kubernetes DNS schema 1.1.0, as CoreDNS serves them.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use serde::Serialize;

/// One record. TTL, priority and weight are the server's choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// What is asked for.
    pub name: String,
    /// `A`, `AAAA`, `CNAME`, `PTR` or `SRV`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The answer. Of an SRV record the port, then the target.
    pub value: String,
}

/// The records of one Service. Where there is none for its name, the answer is NXDOMAIN.
///
/// * With a clusterIP: an address record and a PTR for each clusterIP, an SRV for each named port, which leads to the Service's port.
/// * Headless: an address record for each address of each ready endpoint, under the Service's name and under the endpoint's own; an SRV for
///   each of these and each named port, which leads to the endpoint's port; a PTR for each address.
/// * `ExternalName`: a CNAME.
pub fn records(service: &Service, slices: &[EndpointSlice], zone: &str) -> Vec<Record> {
    let mut records = Records::default();
    let Some(spec) = &service.spec else { return records.0 };
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (name, namespace) = (text(&service.metadata.name), text(&service.metadata.namespace));
    let own = format!("{name}.{namespace}.svc.{zone}");
    if spec.type_.as_deref() == Some("ExternalName") {
        records.add(own, "CNAME", text(&spec.external_name));
        return records.0;
    }
    let ips: Vec<&str> = match spec.cluster_ips.as_deref() {
        Some(ips) if !ips.is_empty() => ips.iter().map(String::as_str).collect(),
        _ => spec.cluster_ip.as_deref().into_iter().collect(),
    };
    if ips.first() == Some(&"None") {
        records.of_endpoints(&own, slices);
        return records.0;
    }
    let ips: Vec<IpAddr> = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
    if ips.is_empty() {
        return records.0;
    }
    for ip in &ips {
        records.address(&own, *ip);
    }
    for port in spec.ports.iter().flatten() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        records.service(&own, port.name.as_deref(), protocol, port.port, &own);
    }
    for ip in &ips {
        records.reverse(*ip, &own);
    }
    records.0
}

/// Each once, in the order of their making.
#[derive(Default)]
struct Records(Vec<Record>);

impl Records {
    fn add(&mut self, name: String, kind: &'static str, value: String) {
        let record = Record { name, kind, value };
        if !self.0.contains(&record) {
            self.0.push(record);
        }
    }

    fn address(&mut self, name: &str, ip: IpAddr) {
        let kind = if ip.is_ipv4() { "A" } else { "AAAA" };
        self.add(name.to_owned(), kind, ip.to_string());
    }

    fn service(&mut self, own: &str, port: Option<&str>, protocol: &str, number: i32, target: &str) {
        if let Some(port) = port.filter(|port| !port.is_empty()) {
            let name = format!("_{port}._{}.{own}", protocol.to_lowercase());
            self.add(name, "SRV", format!("{number} {target}"));
        }
    }

    fn reverse(&mut self, ip: IpAddr, target: &str) {
        self.add(reverse_name(ip), "PTR", target.to_owned());
    }

    fn of_endpoints(&mut self, own: &str, slices: &[EndpointSlice]) {
        let all: Vec<(IpAddr, String, &EndpointSlice)> = slices
            .iter()
            .flat_map(|slice| {
                let ready = slice.endpoints.iter().flatten().filter(|endpoint| is_ready(endpoint));
                ready.flat_map(move |endpoint| {
                    let ips = endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
                    ips.map(move |ip| (ip, format!("{}.{own}", host_name(endpoint, ip)), slice))
                })
            })
            .collect();
        for (ip, _, _) in &all {
            self.address(own, *ip);
        }
        for (ip, host, _) in &all {
            self.address(host, *ip);
        }
        for (_, host, slice) in &all {
            for EndpointPort {
                name, port, protocol, ..
            } in slice.ports.iter().flatten()
            {
                if let Some(number) = port {
                    let protocol = protocol.as_deref().unwrap_or("TCP");
                    self.service(own, name.as_deref(), protocol, *number, host);
                }
            }
        }
        for (ip, host, _) in &all {
            self.reverse(*ip, host);
        }
    }
}

/// Absent counts as ready.
fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|conditions| conditions.ready).unwrap_or(true)
}

/// The first label of an endpoint's own name: its hostname, else the address with dashes.
fn host_name(endpoint: &Endpoint, ip: IpAddr) -> String {
    match endpoint.hostname.as_deref() {
        Some(hostname) if !hostname.is_empty() => hostname.to_owned(),
        _ => ip.to_string().replace(['.', ':'], "-"),
    }
}

fn reverse_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits = ip.octets().into_iter().rev();
            let digits = digits.map(|octet| format!("{:x}.{:x}.", octet & 0xf, octet >> 4));
            format!("{}ip6.arpa", digits.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests;
