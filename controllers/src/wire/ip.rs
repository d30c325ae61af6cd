//! IP addresses as Go reads them.

use std::net::IpAddr;

/// Reads an IP address as Go's sloppy parser does: leading zeros in IPv4 are decimal, and an IPv4-mapped IPv6 address is IPv4.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    let parsed = if let Ok(ip) = text.parse() {
        Some(ip)
    } else {
        without_leading_zeros(text)?.parse().ok()
    };
    parsed.map(|ip: IpAddr| match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        IpAddr::V4(_) => ip,
    })
}

fn without_leading_zeros(text: &str) -> Option<String> {
    let (prefix, dotted) = match text.rsplit_once(':') {
        Some((prefix, dotted)) => (Some(prefix), dotted),
        None => (None, text),
    };
    if !dotted.contains('.') {
        return None;
    }
    let octets: Vec<&str> = dotted
        .split('.')
        .map(|octet| {
            let trimmed = octet.trim_start_matches('0');
            if trimmed.is_empty() && !octet.is_empty() {
                "0"
            } else {
                trimmed
            }
        })
        .collect();
    let dotted = octets.join(".");
    Some(prefix.map_or_else(|| dotted.clone(), |prefix| format!("{prefix}:{dotted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        let table = [
            ("10.0.0.9", Some("10.0.0.9")),
            ("010.000.00.009", Some("10.0.0.9")),
            ("::ffff:10.1.2.3", Some("10.1.2.3")),
            ("::ffff:010.1.2.03", Some("10.1.2.3")),
            ("::ffff:a01:203", Some("10.1.2.3")),
            ("fd00:0:0::007", Some("fd00::7")),
            ("FD00::A", Some("fd00::a")),
            ("fe80::1%eth0", None),
            ("10.0.0", None),
            ("10.0.0.256", None),
            ("10..0.1", None),
            ("10.0.0.1/32", None),
            ("", None),
            ("node-1", None),
        ];
        for (text, want) in table {
            assert_eq!(parse_ip(text), want.map(|want| want.parse().unwrap()), "{text}");
        }
    }
}
