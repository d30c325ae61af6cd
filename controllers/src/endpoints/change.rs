//! What a write would change, for a person who reads the log of an observer.

use std::collections::BTreeSet;
use std::fmt;

use crate::model::{EndpointsObject, Subset};

/// Addresses named at most; the rest is counted.
const NAMED: usize = 8;

/// The addresses of two states of one object, side by side.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    before: Count,
    after: Count,
    /// `+10.0.0.1 -10.0.0.2 …`: ready addresses that come and go.
    ready: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    ready: usize,
    not_ready: usize,
}

impl Change {
    /// From what is stored to what would be.
    pub(crate) fn between(observed: Option<&EndpointsObject>, desired: &[Subset]) -> Self {
        let observed = observed.map_or(&[][..], |object| &object.subsets);
        let (old, new) = (ready(observed), ready(desired));
        let come = new.difference(&old).map(|ip| format!("+{ip}"));
        let gone = old.difference(&new).map(|ip| format!("-{ip}"));
        Self {
            before: count(observed),
            after: count(desired),
            ready: come.chain(gone).collect(),
        }
    }
}

fn ready(subsets: &[Subset]) -> BTreeSet<&str> {
    let addresses = subsets.iter().flat_map(|subset| &subset.addresses);
    addresses.map(|address| &*address.ip).collect()
}

fn count(subsets: &[Subset]) -> Count {
    Count {
        ready: subsets.iter().map(|subset| subset.addresses.len()).sum(),
        not_ready: subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum(),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, ready } = self;
        write!(
            f,
            "{} ready and {} not -> {} ready and {} not",
            before.ready, before.not_ready, after.ready, after.not_ready
        )?;
        for (place, address) in ready.iter().take(NAMED).enumerate() {
            write!(f, "{}{address}", if place == 0 { ": " } else { " " })?;
        }
        match ready.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Address;

    fn subset(ready: &[&str], not_ready: &[&str]) -> Subset {
        let addresses = |ips: &[&str]| {
            let address = |ip: &&str| Address {
                ip: (*ip).into(),
                hostname: None,
                node_name: None,
                target: None,
            };
            ips.iter().map(address).collect()
        };
        Subset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: Vec::new(),
        }
    }

    #[test]
    fn a_reader_sees_what_comes_and_goes() {
        let desired = [subset(&["10.0.0.1", "10.0.0.2"], &["10.0.0.3"])];
        let change = Change::between(None, &desired).to_string();
        assert_eq!(change, "0 ready and 0 not -> 2 ready and 1 not: +10.0.0.1 +10.0.0.2");
        let many: Vec<String> = (0..10).map(|number| format!("10.0.1.{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let change = Change::between(None, &[subset(&many, &[])]).to_string();
        assert!(change.ends_with("+10.0.1.7 and 2 more"), "{change}");
    }
}
