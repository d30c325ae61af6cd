//! Addresses and ranges in the fields of a Service, read as the apiserver reads them (`ParseIPSloppy` of k8s.io/utils,
//! validation.md 9): leading zeros in IPv4 are decimal, IPv4-mapped IPv6 counts as IPv4.
//!
//! What the lenient reader takes and the strict one does not is refused by an apiserver with the gate
//! `StrictIPCIDRValidation`, which is on by default since 1.36 and can be switched off.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Why an apiserver with `StrictIPCIDRValidation` refuses a text that the lenient reader takes; what would be right.
pub type Doubt = String;

/// An address as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its value, IPv4-mapped addresses as IPv4.
    pub address: IpAddr,
    mapped: bool,
}

impl Written {
    /// Reads an address leniently. `None`: not an address for any apiserver.
    pub fn parse(text: &str) -> Option<Self> {
        // As upstream, what comes first decides.
        match text.bytes().find(|byte| matches!(byte, b'.' | b':'))? {
            b'.' => parse_ipv4(text).map(|address| Self {
                address: address.into(),
                mapped: false,
            }),
            _ => parse_ipv6(text).map(Self::from_ipv6),
        }
    }

    fn from_ipv6(address: Ipv6Addr) -> Self {
        let mapped = address.to_ipv4_mapped();
        Self {
            address: mapped.map_or(address.into(), IpAddr::from),
            mapped: mapped.is_some(),
        }
    }

    /// What the strict reader has against it, and what would be right.
    pub fn doubt(self, text: &str) -> Option<Doubt> {
        let why = self.against(text)?;
        Some(format!("{why}; use {:?}", self.address.to_string()))
    }

    fn against(self, text: &str) -> Option<&'static str> {
        if self.mapped {
            Some("an IPv4-mapped address is taken for IPv4 by some programs and for IPv6 by others")
        } else if text.parse::<IpAddr>().is_err() {
            Some("leading zeros are read as octal by some programs")
        } else {
            None
        }
    }

    fn in_ipv6(self) -> Ipv6Addr {
        match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        }
    }
}

/// A range as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenRange {
    written: Written,
    length: u8,
}

impl WrittenRange {
    /// Reads a CIDR leniently. `None`: not a range for any apiserver.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let (written, most) = match parse_ipv4(address) {
            Some(address) => (
                Written {
                    address: address.into(),
                    mapped: false,
                },
                32,
            ),
            None => (Written::from_ipv6(parse_ipv6(address)?), 128),
        };
        let (number, rest) = decimal(length)?;
        if !rest.is_empty() || number > most {
            return None;
        }
        Some(Self {
            written,
            length: u8::try_from(number).ok()?,
        })
    }

    /// What the strict reader has against it.
    pub fn doubt(self, text: &str) -> Option<Doubt> {
        let (address, length) = text.split_once('/')?;
        let host_bits = |range: IpNet| range.addr() != range.trunc().addr();
        let why = if let Some(why) = self.written.against(address) {
            why
        } else if length != self.length.to_string() {
            "leading zeros in the prefix length"
        } else if host_bits(self.range()?) {
            "bits are set beyond the prefix length"
        } else {
            return None;
        };
        Some(format!("{why}; use {:?}", self.range()?.trunc().to_string()))
    }

    /// IPv4-mapped ranges as IPv4 ones, where they are short enough for that.
    fn range(self) -> Option<IpNet> {
        let address = self.written.address;
        let length = match (self.written.mapped, self.length) {
            (true, 96..) => self.length - 96,
            (true, _) => return IpNet::new(self.written.in_ipv6().into(), self.length).ok(),
            (false, length) => length,
        };
        IpNet::new(address, length).ok()
    }
}

/// A number without sign, and what follows it. Upstream stops at 0xFFFFFF.
fn decimal(text: &str) -> Option<(u32, &str)> {
    number(text, 10, 0xFF_FFFF)
}

fn number(text: &str, radix: u32, below: u32) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u32;
    for digit in digits.chars() {
        value = value.checked_mul(radix)?.checked_add(digit.to_digit(radix)?)?;
        if value >= below {
            return None;
        }
    }
    Some((value, rest))
}

fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut rest = text;
    for (i, octet) in octets.iter_mut().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('.')?;
        }
        let (value, after) = decimal(rest)?;
        *octet = u8::try_from(value).ok()?;
        rest = after;
    }
    rest.is_empty().then(|| octets.into())
}

/// As the standard library, but for more than four digits in a group and leading zeros in a trailing IPv4 address.
fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    let mut rest = text;
    let mut groups: Vec<u16> = Vec::with_capacity(8);
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
    }
    while groups.len() < 8 && !(rest.is_empty() && ellipsis == Some(groups.len())) {
        let (value, after) = number(rest, 16, 0xFF_FFFF)?;
        let value = u16::try_from(value).ok()?;
        if after.starts_with('.') {
            if groups.len() > 6 || (ellipsis.is_none() && groups.len() != 6) {
                return None;
            }
            let [a, b, c, d] = parse_ipv4(rest)?.octets();
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            rest = "";
            break;
        }
        groups.push(value);
        rest = after;
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(':').filter(|rest| !rest.is_empty())?;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return None;
            }
            ellipsis = Some(groups.len());
            rest = after;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    match ellipsis {
        None if groups.len() == 8 => {}
        Some(at) if groups.len() < 8 => {
            let zeros = std::iter::repeat_n(0, 8 - groups.len());
            groups.splice(at..at, zeros);
        }
        _ => return None,
    }
    let groups: [u16; 8] = groups.try_into().ok()?;
    Some(groups.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_section_9() {
        for (text, lenient, strict) in [
            ("10.0.0.1", true, true),
            ("2001:db8::1", true, true),
            ("2001:DB8::1", true, true),
            ("2001:db8:0::1", true, true),
            ("::", true, true),
            ("1::", true, true),
            ("1:2:3:4:5:6:7::", true, true),
            ("1:2:3:4:5:6:1.2.3.4", true, true),
            ("::1.2.3.4", true, true),
            ("10.0.0.01", true, false),
            ("::ffff:10.0.0.1", true, false),
            ("::ffff:a00:1", true, false),
            ("::00001", true, false),
            ("::1.2.3.04", true, false),
            ("fe80::1%eth0", false, false),
            ("[::1]", false, false),
            ("10.0.0.1:80", false, false),
            ("10.0.0", false, false),
            ("10.0.0.256", false, false),
            ("1:2:3:4:5:6:7:8::", false, false),
            ("1::2::3", false, false),
            ("1:2", false, false),
            ("::1:", false, false),
            (":", false, false),
            ("None", false, false),
            ("", false, false),
            (" 10.0.0.1", false, false),
        ] {
            let read = Written::parse(text);
            assert_eq!(read.is_some(), lenient, "{text}");
            assert_eq!(read.is_some_and(|read| read.doubt(text).is_none()), strict, "{text}");
        }
    }

    #[test]
    fn ranges() {
        for (text, lenient, strict) in [
            ("10.0.0.0/24", true, true),
            ("2001:db8::/32", true, true),
            ("0.0.0.0/0", true, true),
            ("10.0.0.5/24", true, false),
            ("10.0.0.0/024", true, false),
            ("010.0.0.0/24", true, false),
            ("::ffff:10.0.0.0/120", true, false),
            ("10.0.0.0", false, false),
            ("10.0.0.0/33", false, false),
            ("10.0.0.0/", false, false),
            ("10.0.0.0/+8", false, false),
            ("::/129", false, false),
        ] {
            let read = WrittenRange::parse(text);
            assert_eq!(read.is_some(), lenient, "{text}");
            assert_eq!(read.is_some_and(|read| read.doubt(text).is_none()), strict, "{text}");
        }
    }

    #[test]
    fn a_doubt_names_the_right_form() {
        let doubt = |text: &str| Written::parse(text).unwrap().doubt(text).unwrap();
        assert!(doubt("010.0.0.1").ends_with("use \"10.0.0.1\""));
        assert!(doubt("::ffff:10.0.0.1").ends_with("use \"10.0.0.1\""));
        let range = |text: &str| WrittenRange::parse(text).unwrap().doubt(text).unwrap();
        for (text, right) in [
            ("10.0.0.5/24", "10.0.0.0/24"),
            ("010.0.0.5/024", "10.0.0.0/24"),
            ("10.0.0.0/024", "10.0.0.0/24"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.0/80", "::/80"),
        ] {
            assert!(
                range(text).ends_with(&format!("use {right:?}")),
                "{text}: {}",
                range(text)
            );
        }
    }

    proptest! {
        #[test]
        fn what_the_standard_library_reads_is_read_alike(bits: u128, text in "[0-9a-f:.]{0,24}") {
            for text in [Ipv6Addr::from_bits(bits).to_string(), text] {
                if let Ok(address) = text.parse::<IpAddr>() {
                    let read = Written::parse(&text).unwrap();
                    prop_assert_eq!(read.address, address.to_canonical());
                }
            }
        }

        #[test]
        fn no_text_panics(text in ".*") {
            if let Some(read) = Written::parse(&text) {
                read.doubt(&text);
            }
            if let Some(read) = WrittenRange::parse(&text) {
                read.doubt(&text);
            }
        }
    }
}
