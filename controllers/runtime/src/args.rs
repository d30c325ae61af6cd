//! Values of command-line flags that several flags share, in the syntax of kube-controller-manager's flags.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use thiserror::Error;

/// A flag whose value is well formed but makes no sense, alone or beside another flag.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{flag}: {problem}")]
pub struct InvalidFlag {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl InvalidFlag {
    /// An error about `flag`.
    pub fn new(flag: &'static str, problem: impl Into<String>) -> Self {
        Self {
            flag,
            problem: problem.into(),
        }
    }
}

/// Parses an address to listen on. A value parser for clap.
///
/// # Errors
/// One line that says what would be right.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not IP:PORT, such as 127.0.0.1:9808 or [::]:9808"))
}

/// Makes a value parser for clap that takes a whole number of this range, both ends included. Its error names the range, whatever is wrong.
pub fn whole_number(range: RangeInclusive<u16>) -> impl Fn(&str) -> Result<u16, String> + Clone {
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Parses what the apiserver takes for the name of a namespace. A value parser for clap.
///
/// # Errors
/// One line that says what would be right.
pub fn dns_label(text: &str) -> Result<String, String> {
    dns_name(text, is_dns_label(text), "label", 63, "'-'")
}

/// Parses what the apiserver takes for the name of most other objects, and kubelets for a cluster's domain. A value parser for clap.
///
/// # Errors
/// One line that says what would be right.
pub fn dns_subdomain(text: &str) -> Result<String, String> {
    let fits = text.split('.').all(is_dns_label);
    dns_name(text, fits, "subdomain", 253, "'-', '.'")
}

fn is_dns_label(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

fn dns_name(text: &str, fits: bool, kind: &str, longest: usize, signs: &str) -> Result<String, String> {
    if fits && text.len() <= longest {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not a DNS-1123 {kind}: expected at most {longest} characters out of a-z, 0-9, {signs}, a letter or digit at both ends"
    ))
}

/// Go's units of time, in nanoseconds; both spellings of the micro sign.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Go's largest duration, about 292 years.
const LARGEST: u128 = i64::MAX as u128;

/// Parses a duration as Go's `time.ParseDuration` does: decimal numbers, each with a unit, such as `15s`, `1m30s`,
/// `1.5h`, `500ms`, or a bare `0`. Negative durations are refused: no flag of ours has a use for one. A value parser for
/// clap.
///
/// # Errors
/// One line that says what would be right.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{text:?} is not a duration: expected numbers with units (ns, us, ms, s, m, h), such as 15s, 1m30s or 500ms"
        )
    };
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    if text.strip_prefix('-').is_some_and(|rest| duration(rest).is_ok()) {
        return Err(format!(
            "{text:?} is negative: expected a duration such as 15s, 1m30s or 500ms"
        ));
    }
    if unsigned.is_empty() {
        return Err(wrong());
    }
    let mut rest = unsigned;
    let mut nanoseconds: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split(after, |c| !c.is_ascii_digit() && c != '.');
        rest = after;
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let part = scaled(number, *scale).ok_or_else(wrong)?;
        nanoseconds = nanoseconds.saturating_add(part);
    }
    if nanoseconds > LARGEST {
        return Err(format!("{text:?} is too long: expected at most 2562047h"));
    }
    u64::try_from(nanoseconds)
        .map(Duration::from_nanos)
        .map_err(|_| wrong())
}

/// The longest start of `text` of characters that `take` accepts, and the rest.
fn split(text: &str, take: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !take(c)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// `number`, which may have a fraction, times `scale`, rounded down.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // More digits than these change nothing, and 20 digits of hours fit into 128 bits.
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<u64>().ok().map(u128::from)
        }
    };
    let fraction: String = fraction.chars().take(15).collect();
    let tail = digits(&fraction)?.checked_mul(scale)? / 10u128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(scale)?.checked_add(tail)
}

/// Writes a duration as Go does: `15s`, `1m30s`, `500ms`, `0s`.
pub fn format_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    if nanoseconds < 1_000_000_000 {
        let (unit, scale) = match nanoseconds {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("\u{b5}s", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{}{unit}", decimal(nanoseconds, scale));
    }
    let seconds = duration.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = String::new();
    if hours > 0 {
        _ = write!(text, "{hours}h");
    }
    if seconds >= 60 {
        _ = write!(text, "{minutes}m");
    }
    text + &decimal(nanoseconds % 60_000_000_000, 1_000_000_000) + "s"
}

/// `value / scale` as a decimal number without trailing zeros; `scale` is a power of ten.
fn decimal(value: u128, scale: u128) -> String {
    let digits = scale.ilog10() as usize;
    let (whole, fraction) = (value / scale, value % scale);
    let fraction = format!("{fraction:0digits$}");
    match fraction.trim_end_matches('0') {
        "" => whole.to_string(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_numbers_are_of_their_range() {
        let parse = whole_number(1..=256);
        assert_eq!((parse("1"), parse("256")), (Ok(1), Ok(256)));
        for text in ["0", "257", "-1", "x", "", "1.5", "99999999999999999999"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error, "expected a whole number from 1 to 256", "{text}");
        }
    }

    #[test]
    fn names_are_the_apiservers() {
        let long = format!("{}.{}", "a".repeat(120), "b".repeat(132));
        for text in ["a", "a-b.c", "1.2", "cluster.local", long.as_str()] {
            assert_eq!(dns_subdomain(text).as_deref(), Ok(text));
        }
        let longer = format!("{long}b");
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a.-b",
            "foo bar",
            "A",
            "a_b",
            "\u{e9}",
            longer.as_str(),
        ] {
            let error = dns_subdomain(text).unwrap_err();
            let start = format!("{text:?} is not a DNS-1123 subdomain: expected at most 253 characters");
            assert!(error.starts_with(&start), "{error}");
        }
        assert_eq!(dns_label("kube-system").as_deref(), Ok("kube-system"));
        for text in ["a.b", "-a", "a-", "a".repeat(64).as_str()] {
            let error = dns_label(text).unwrap_err();
            assert!(error.contains("is not a DNS-1123 label"), "{error}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("+0", 0),
            ("0s", 0),
            ("15s", 15_000_000_000),
            ("1m30s", 90_000_000_000),
            ("500ms", 500_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("+2s", 2_000_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("3s2m", 123_000_000_000),
            ("0.000000001s", 1),
            ("0.9ns", 0),
            ("2562047h47m16.854775807s", 9_223_372_036_854_775_807),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_be_right() {
        for text in [
            "", "+", "-", "15", "s", ".s", "1..5s", "1.2.3s", "15 s", " 15s", "15sec", "15S", "1d", "1s5", "0x1s",
            "1e3s", "\u{663}s", "--5s",
        ] {
            let error = duration(text).unwrap_err();
            assert!(
                error.contains("1m30s") && error.contains(&format!("{text:?}")),
                "{error}"
            );
        }
        assert!(duration("-5s").unwrap_err().contains("negative"));
        assert!(duration("2562048h").unwrap_err().contains("too long"));
        assert!(duration("99999999999999999999999999h").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(nanoseconds in 0..=u64::try_from(LARGEST).unwrap()) {
            let given = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(duration(&format_duration(given)), Ok(given));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}|[0-9.smhnu+-]{0,40}") {
            let _ = duration(&text);
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5\u{b5}s"),
            (500_000_000, "500ms"),
            (15_000_000_000, "15s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (1_500_000_000, "1.5s"),
        ] {
            assert_eq!(format_duration(Duration::from_nanos(nanoseconds)), text);
        }
    }
}
