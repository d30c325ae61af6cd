//! The text of an IP address without an allocation.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};

/// Compares as the text does, bytewise: what is unused is zero, which no text holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IpText {
    bytes: [u8; Self::LONGEST],
    length: u8,
}

impl IpText {
    /// Eight groups of four digits and seven colons. An IPv4-mapped address is shorter.
    const LONGEST: usize = 39;

    /// As the standard library prints it.
    pub fn of(ip: IpAddr) -> Self {
        let mut text = Self {
            bytes: [0; Self::LONGEST],
            length: 0,
        };
        match ip {
            // By hand: the machinery of formatting takes several times as long, and most addresses are these.
            IpAddr::V4(ip) => {
                for (place, octet) in ip.octets().into_iter().enumerate() {
                    if place > 0 {
                        text.push(b'.');
                    }
                    text.push_number(octet);
                }
            }
            IpAddr::V6(ip) => {
                // It always fits.
                let _ = write!(text, "{ip}");
            }
        }
        text
    }

    fn push_number(&mut self, number: u8) {
        if number >= 100 {
            self.push(b'0' + number / 100);
        }
        if number >= 10 {
            self.push(b'0' + number / 10 % 10);
        }
        self.push(b'0' + number % 10);
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)) {
            *place = byte;
            self.length += 1;
        }
    }

    pub fn as_str(&self) -> &str {
        let used = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(used).unwrap_or_default()
    }
}

impl fmt::Write for IpText {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        more.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

impl fmt::Debug for IpText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Sorts IPv4 addresses as their texts do: each number by its place among the texts of all numbers, where what follows it (a dot, or the
/// end) sorts before any digit.
pub(super) fn rank(ip: Ipv4Addr) -> u32 {
    let rank = |octet: u8| RANKS.get(usize::from(octet)).copied().unwrap_or(0);
    u32::from_be_bytes(ip.octets().map(rank))
}

const RANKS: [u8; 256] = ranks();

/// 0, 1, 10, 100, 101 … 109, 11, 110 …
#[expect(clippy::indexing_slicing, reason = "the compiler does it")]
#[expect(clippy::cast_possible_truncation, reason = "below 256")]
const fn ranks() -> [u8; 256] {
    let mut ranks = [0; 256];
    let mut next: u16 = 0;
    let mut number = 0;
    while next < 256 {
        ranks[number] = next as u8;
        next += 1;
        // Deeper if there is a number with one more digit; else on, and up where the tens are over.
        if number > 0 && number * 10 < 256 {
            number *= 10;
        } else {
            if number == 255 {
                number = 25;
            }
            while number % 10 == 9 {
                number /= 10;
            }
            number += 1;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_standard_librarys_and_sorts_as_it() {
        let mut ips: Vec<IpAddr> = [
            "::",
            "::1",
            "fd00:1234:5678:9abc:def0:1234:5678:9abc",
            "fe80::1:0:0:2",
            "1::",
        ]
        .map(|text| text.parse().unwrap())
        .into();
        for octet in 0..=255_u8 {
            ips.push([10, octet, 255 - octet, 7].into());
        }
        for ip in &ips {
            assert_eq!(IpText::of(*ip).as_str(), ip.to_string());
        }
        ips.sort_by_key(|ip| IpText::of(*ip));
        assert!(ips.is_sorted_by_key(ToString::to_string));
    }

    #[test]
    fn the_rank_sorts_as_the_text() {
        let mut ips: Vec<Ipv4Addr> = Vec::new();
        for octet in 0..=255_u8 {
            ips.extend(
                [
                    [octet, 0, 0, 0],
                    [10, octet, 1, 1],
                    [10, 0, 0, octet],
                    [1, octet, 255, octet],
                ]
                .map(Ipv4Addr::from),
            );
        }
        ips.sort_by_key(|ip| rank(*ip));
        assert!(ips.is_sorted_by_key(ToString::to_string));
        ips.dedup();
        assert!(ips.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
    }
}
