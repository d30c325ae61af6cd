//! The value of `--service-node-port-range`, in all forms that kube-apiserver reads.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::interval::Interval;
use crate::value::NodePort;

/// Port numbers from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange(Interval<NodePort>);

impl PortRange {
    /// A range of these numbers.
    pub fn new(ports: Interval<NodePort>) -> Self {
        Self(ports)
    }

    /// Its numbers.
    pub fn interval(self) -> Interval<NodePort> {
        self.0
    }
}

/// kube-apiserver's: 30000-32767.
impl Default for PortRange {
    fn default() -> Self {
        let (first, last) = (NodePort::saturating(30_000), NodePort::saturating(32_767));
        Self(Interval::new(first, last).unwrap_or(Interval::single(first)))
    }
}

/// As kube-apiserver prints it, one port too: `30000-30000`.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.first(), self.0.last())
    }
}

/// Why a text is not a port range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PortRangeError {
    /// None of the three forms.
    #[error("must be a port range: 30000-32767, 30000+2767 or 30000")]
    Form,
    /// kube-apiserver takes port 0 here and then cannot give it; the empty range it takes too.
    #[error("must lie between 1 and 65535")]
    Bounds,
    /// `32767-30000`.
    #[error("must not end below its start, as 30000-32767")]
    Reversed,
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    /// `A-B`, `A+OFFSET` or `N`, with white space around it.
    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let text = text.trim();
        let (first, last) = match (text.split_once('-'), text.split_once('+')) {
            (Some((first, last)), None) => (number(first)?, number(last)?),
            (None, Some((first, offset))) => {
                let first = number(first)?;
                (first, first.saturating_add(number(offset)?))
            }
            (None, None) => (number(text)?, number(text)?),
            (Some(_), Some(_)) => return Err(PortRangeError::Form),
        };
        let port = |number: u32| u16::try_from(number).ok().and_then(NodePort::new);
        let (first, last) = port(first).zip(port(last)).ok_or(PortRangeError::Bounds)?;
        Interval::new(first, last).map(Self).ok_or(PortRangeError::Reversed)
    }
}

/// Digits, with zeros in front if somebody likes them; too large a number is out of bounds, not out of form.
fn number(text: &str) -> Result<u32, PortRangeError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PortRangeError::Form);
    }
    Ok(text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_forms_of_kube_apiservers_flag_are_read() {
        use PortRangeError::{Bounds, Form, Reversed};
        for (text, range) in [
            ("30000-32767", "30000-32767"),
            (" 30000-32767\n", "30000-32767"),
            ("30000+2767", "30000-32767"),
            ("30000+0", "30000-30000"),
            ("28080", "28080-28080"),
            ("030000-032767", "30000-32767"),
            ("1-65535", "1-65535"),
        ] {
            assert_eq!(
                text.parse::<PortRange>().map(|range| range.to_string()).as_deref(),
                Ok(range),
                "{text}"
            );
        }
        assert_eq!(PortRange::default().to_string(), "30000-32767");
        for (text, error) in [
            ("", Form),
            ("-", Form),
            ("30000-", Form),
            ("-32767", Form),
            ("30000 - 32767", Form),
            ("30000-32767-32768", Form),
            ("30000-30000+1", Form),
            ("30000+-1", Form),
            ("+5", Form),
            ("http", Form),
            ("0", Bounds),
            ("0-100", Bounds),
            ("30000-65536", Bounds),
            ("65535+1", Bounds),
            ("99999999999999999999-99999999999999999999", Bounds),
            ("4294967295+4294967295", Bounds),
            ("32767-30000", Reversed),
        ] {
            assert_eq!(text.parse::<PortRange>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..24), near in "[0-9 +-]{0,14}") {
            for text in [String::from_utf8_lossy(&bytes).as_ref(), &near] {
                if let Ok(range) = text.parse::<PortRange>() {
                    prop_assert_eq!(range.to_string().parse(), Ok(range));
                }
            }
        }
    }
}
