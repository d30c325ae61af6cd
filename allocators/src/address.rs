//! The text of addresses and CIDRs that somebody writes into a field of ours: only the form that the apiserver would store.
//!
//! kube-apiserver reads old objects more loosely and refuses this in new values (`StrictIPCIDRValidation`): leading zeros, which some
//! programs read as octal, IPv4-mapped IPv6, which some read as IPv4, and of networks the bits behind the prefix. An IPAddress is named by
//! the canonical text, so a second spelling of one address would be a second name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use thiserror::Error;

/// Why a text is not an address or CIDR that we take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Nothing that any reader would take.
    #[error("must be an IPv4 or IPv6 address, such as 10.96.0.20 or fd00::20")]
    NotAnAddress,
    /// `10.96.0.020`.
    #[error("must not have leading zeros: some programs read them as octal")]
    LeadingZeros,
    /// `::ffff:10.96.0.20`.
    #[error("must not be an IPv4-mapped IPv6 address: write {0}")]
    Ipv4Mapped(Ipv4Addr),
    /// `fe80::1%eth0`.
    #[error("must not name a zone")]
    Zone,
    /// `FD00::0020`.
    #[error("must be in canonical form: write {0}")]
    NotCanonical(String),
    /// Nothing that any reader would take as a CIDR.
    #[error("must be a CIDR, such as 10.96.0.0/24 or fd00::/112")]
    NotACidr,
    /// `10.96.0.20/24`.
    #[error("must not have bits behind the prefix: write {0}")]
    HostBits(IpNet),
}

/// Reads an address in canonical text.
pub fn parse_address(text: &str) -> Result<IpAddr, AddressError> {
    let address = match text.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) if text.contains('%') => return Err(AddressError::Zone),
        Err(_) if has_leading_zeros(text) => return Err(AddressError::LeadingZeros),
        Err(_) => return Err(AddressError::NotAnAddress),
    };
    if let IpAddr::V6(v6) = address
        && let Some(v4) = v6.to_ipv4_mapped()
    {
        return Err(AddressError::Ipv4Mapped(v4));
    }
    // Rust prints an address as Go does, by RFC 5952.
    let canonical = address.to_string();
    if canonical == text {
        Ok(address)
    } else {
        Err(AddressError::NotCanonical(canonical))
    }
}

/// Reads a CIDR in canonical text.
pub fn parse_cidr(text: &str) -> Result<IpNet, AddressError> {
    let (address, prefix) = text.split_once('/').ok_or(AddressError::NotACidr)?;
    let address = parse_address(address).map_err(|error| match error {
        AddressError::NotAnAddress => AddressError::NotACidr,
        AddressError::NotCanonical(canonical) => AddressError::NotCanonical(format!("{canonical}/{prefix}")),
        other => other,
    })?;
    let length: u8 = prefix.parse().map_err(|_| AddressError::NotACidr)?;
    let cidr = match address {
        IpAddr::V4(v4) => Ipv4Net::new(v4, length).map(IpNet::V4),
        IpAddr::V6(v6) => Ipv6Net::new(v6, length).map(IpNet::V6),
    };
    let cidr = cidr.map_err(|_| AddressError::NotACidr)?;
    if length.to_string() != prefix {
        return Err(AddressError::NotCanonical(cidr.to_string()));
    }
    if cidr.network() != address {
        return Err(AddressError::HostBits(cidr.trunc()));
    }
    Ok(cidr)
}

/// It would be an IPv4 address, or end in one, without the zeros in front of its numbers.
fn has_leading_zeros(text: &str) -> bool {
    let (front, dotted) = text
        .rsplit_once(':')
        .map_or(("", text), |(front, dotted)| (front, dotted));
    let numbers: Vec<&str> = dotted.split('.').collect();
    let padded = |number: &&str| number.len() > 1 && number.starts_with('0');
    let readable = numbers.len() == 4 && numbers.iter().all(|number| number.parse::<u8>().is_ok());
    readable
        && numbers.iter().any(padded)
        && (front.is_empty() || format!("{front}:0").parse::<Ipv6Addr>().is_ok() || front.ends_with(":ffff"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_canonical_text_of_an_address_is_taken() {
        use AddressError::{Ipv4Mapped, LeadingZeros, NotAnAddress, NotCanonical, Zone};
        for text in [
            "10.96.0.20",
            "0.0.0.0",
            "255.255.255.255",
            "fd00::20",
            "::",
            "::1",
            "::102:304",
            "1:0:0:2::3",
        ] {
            assert_eq!(
                parse_address(text).map(|address| address.to_string()).as_deref(),
                Ok(text)
            );
        }
        for (text, error) in [
            ("", NotAnAddress),
            ("None", NotAnAddress),
            ("10.96.0", NotAnAddress),
            ("10.96.0.256", NotAnAddress),
            ("10.96.0.20 ", NotAnAddress),
            ("10.96.0.20/32", NotAnAddress),
            ("10.96.0.020", LeadingZeros),
            ("010.96.0.20", LeadingZeros),
            ("::ffff:10.96.0.020", LeadingZeros),
            ("::ffff:10.96.0.20", Ipv4Mapped(v4("10.96.0.20"))),
            ("::ffff:a60:14", Ipv4Mapped(v4("10.96.0.20"))),
            ("fe80::1%eth0", Zone),
            ("FD00::20", NotCanonical("fd00::20".into())),
            ("fd00::0020", NotCanonical("fd00::20".into())),
            ("fd00:0:0:0:0:0:0:20", NotCanonical("fd00::20".into())),
            ("::1.2.3.4", NotCanonical("::102:304".into())),
        ] {
            assert_eq!(parse_address(text), Err(error), "{text}");
        }
    }

    #[test]
    fn only_the_canonical_text_of_a_cidr_is_taken() {
        use AddressError::{HostBits, Ipv4Mapped, LeadingZeros, NotACidr, NotCanonical};
        for text in [
            "10.96.0.0/12",
            "0.0.0.0/0",
            "10.96.0.1/32",
            "fd00::/108",
            "::/0",
            "fd00::1/128",
        ] {
            assert_eq!(parse_cidr(text).map(|cidr| cidr.to_string()).as_deref(), Ok(text));
        }
        for (text, error) in [
            ("", NotACidr),
            ("/", NotACidr),
            ("10.96.0.0", NotACidr),
            ("10.96.0.0/", NotACidr),
            ("10.96.0.0/33", NotACidr),
            ("10.96.0.0/-1", NotACidr),
            ("10.96.0.0/12/12", NotACidr),
            ("fd00::/129", NotACidr),
            ("10.96.0.0/012", NotCanonical("10.96.0.0/12".into())),
            ("10.96.0.0/+12", NotCanonical("10.96.0.0/12".into())),
            ("FD00::/64", NotCanonical("fd00::/64".into())),
            ("10.96.0.20/24", HostBits("10.96.0.0/24".parse().unwrap())),
            ("010.96.0.0/12", LeadingZeros),
            ("::ffff:10.96.0.0/108", Ipv4Mapped(v4("10.96.0.0"))),
        ] {
            assert_eq!(parse_cidr(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..50), near in "[0-9a-fA-F.:/%+-]{0,45}") {
            for text in [String::from_utf8_lossy(&bytes).as_ref(), &near] {
                if let Ok(address) = parse_address(text) {
                    prop_assert_eq!(address.to_string(), text);
                }
                if let Ok(cidr) = parse_cidr(text) {
                    prop_assert_eq!(cidr.to_string(), text);
                }
            }
        }

        #[test]
        fn every_address_has_one_text(bits in any::<u128>(), small in any::<u32>(), short in any::<u8>()) {
            for address in [IpAddr::V6(Ipv6Addr::from_bits(bits)), IpAddr::V6(Ipv6Addr::from_bits(small.into())), IpAddr::V4(Ipv4Addr::from_bits(small))] {
                let text = address.to_string();
                prop_assert_eq!(text.parse::<IpAddr>().unwrap(), address);
                match parse_address(&text) {
                    Ok(read) => prop_assert_eq!(read, address),
                    Err(error) => prop_assert!(matches!(error, AddressError::Ipv4Mapped(_)), "{error}"),
                }
            }
            let cidr = IpNet::new(IpAddr::V6(Ipv6Addr::from_bits(bits)), short % 129).unwrap().trunc();
            if let Err(error) = parse_cidr(&cidr.to_string()) {
                prop_assert!(matches!(error, AddressError::Ipv4Mapped(_)), "{error}");
            }
        }
    }
}
