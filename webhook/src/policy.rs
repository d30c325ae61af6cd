//! `--external-ips`: which `spec.externalIPs` a Service may have. Whoever may create a Service can take over the traffic to
//! any address with one (CVE-2020-8554); the apiserver has no rule against it.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use svcplane_allocators::address::{AddressError, parse_cidr};
use thiserror::Error;

use crate::address::Written;
use crate::cause::{Cause, Reason, quoted};
use crate::service::Spec;

/// The policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExternalIps {
    /// `allow`: any.
    #[default]
    Allow,
    /// `deny`: none.
    Deny,
    /// Those inside these ranges.
    Within(Vec<IpNet>),
}

/// What the flag may say.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0} {1}; use allow, deny, or CIDRs joined by commas, such as 203.0.113.0/24,2001:db8::/64")]
pub struct InvalidPolicy(String, AddressError);

impl FromStr for ExternalIps {
    type Err = InvalidPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidPolicy> {
        match text {
            "allow" => Ok(Self::Allow),
            "deny" => Ok(Self::Deny),
            ranges => {
                let ranges = ranges.split(',').map(str::trim);
                let range = |text: &str| parse_cidr(text).map_err(|error| InvalidPolicy(quoted(text), error));
                ranges.map(range).collect::<Result<_, _>>().map(Self::Within)
            }
        }
    }
}

impl ExternalIps {
    /// The addresses that may not be. On an update only those that the old object had not.
    pub fn refused(&self, new: &Spec, old: Option<&Spec>) -> Vec<Cause> {
        let had: ahash::AHashSet<&str> = old
            .map(|old| old.external_ips.iter().map(String::as_str).collect())
            .unwrap_or_default();
        let given = new
            .external_ips
            .iter()
            .enumerate()
            .filter(|(_, ip)| !had.contains(ip.as_str()));
        let refused = given.filter_map(|(i, ip)| {
            Some(Cause {
                field: format!("spec.externalIPs[{i}]"),
                reason: Reason::Forbidden,
                message: self.against(ip)?,
            })
        });
        refused.take(crate::cause::MOST_CAUSES).collect()
    }

    fn against(&self, text: &str) -> Option<String> {
        match self {
            Self::Allow => None,
            Self::Deny => Some(format!(
                "{} is refused: this cluster allows no externalIPs; use type LoadBalancer",
                quoted(text)
            )),
            Self::Within(ranges) => {
                let inside = |ip: IpAddr| ranges.iter().any(|range| range.contains(&ip));
                if Written::parse(text).is_some_and(|ip| inside(ip.address)) {
                    return None;
                }
                let ranges: Vec<_> = ranges.iter().map(ToString::to_string).collect();
                Some(format!(
                    "{} is refused: this cluster allows {}",
                    quoted(text),
                    ranges.join(", ")
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(ips: &[&str]) -> Spec {
        Spec {
            external_ips: ips.iter().map(ToString::to_string).collect(),
            ..Spec::default()
        }
    }

    fn fields(policy: &str, new: &[&str], old: Option<&[&str]>) -> Vec<String> {
        let policy: ExternalIps = policy.parse().unwrap();
        let causes = policy.refused(&spec(new), old.map(spec).as_ref());
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn only_what_is_new_is_refused() {
        let new = ["203.0.113.9", "198.51.100.1", "::ffff:203.0.113.8"];
        assert_eq!(fields("allow", &new, None), [""; 0]);
        assert_eq!(fields("deny", &new, None).len(), 3);
        assert_eq!(fields("203.0.113.0/24", &new, None), ["spec.externalIPs[1]"]);
        assert_eq!(
            fields("deny", &new, Some(&["198.51.100.1"])),
            ["spec.externalIPs[0]", "spec.externalIPs[2]"]
        );
        assert_eq!(fields("deny", &new, Some(&new)), [""; 0]);
    }

    #[test]
    fn a_wrong_policy_says_what_is_right() {
        let table = [
            ("allow,10.0.0.0/8", "\"allow\" must be a CIDR"),
            ("", "\"\" must be a CIDR"),
            ("10.0.0.0/8,", "\"\" must be a CIDR"),
            (
                "10.0.0.0/8, 192.0.2.1/24",
                "\"192.0.2.1/24\" must not have bits behind the prefix: write 192.0.2.0/24",
            ),
            (
                "2001:DB8::/64",
                "\"2001:DB8::/64\" must be in canonical form: write 2001:db8::/64",
            ),
        ];
        for (policy, start) in table {
            let error = policy.parse::<ExternalIps>().unwrap_err().to_string();
            assert!(
                error.starts_with(start) && error.contains("; use allow, deny, or"),
                "{error}"
            );
        }
    }
}
