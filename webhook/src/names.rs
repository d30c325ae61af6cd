//! The formats of names in the Kubernetes API, as the apiserver checks them (apimachinery `util/validation` and
//! `api/validate/content`). Lengths are in bytes, as there.
//!
//! Each check says how a text breaks the format, in words that tell what would be right; an empty list is a legal text.

/// The longest DNS label, and the longest label value and name part of a qualified name.
const LABEL_LENGTH: usize = 63;

/// The longest DNS subdomain.
const SUBDOMAIN_LENGTH: usize = 253;

/// The longest IANA service name.
const PORT_NAME_LENGTH: usize = 15;

/// How a text breaks a format; one entry per fault that the apiserver reports separately.
pub type Faults = Vec<String>;

/// An RFC 1123 DNS label: lower-case alphanumerics and `-`, alphanumeric at both ends, at most 63 bytes.
pub fn dns_label(text: &str) -> Faults {
    let mut faults = too_long(text, LABEL_LENGTH);
    if !is_dns_label(text) {
        let dots = if text.contains('.') { ", no dots" } else { "" };
        faults.push(format!(
            "use lower-case letters, digits and '-', with a letter or digit at both ends{dots}{}",
            proposal(&nearest_label(text, LABEL_LENGTH))
        ));
    }
    faults
}

/// The start of a generated name, to which five letters are appended: a DNS label that may end in `-`.
pub fn dns_label_prefix(text: &str) -> Faults {
    match text.strip_suffix('-') {
        // As upstream: the last but one character goes too, so that "a--" passes and "A-" does not matter.
        Some(rest) if !rest.is_empty() => {
            let mut kept = rest.as_bytes().to_vec();
            kept.pop();
            kept.push(b'a');
            // A cut inside a character leaves no UTF-8, and no label either.
            dns_label(&String::from_utf8_lossy(&kept))
        }
        _ => dns_label(text),
    }
}

/// An RFC 1123 subdomain: DNS labels joined by dots, at most 253 bytes.
pub fn dns_subdomain(text: &str) -> Faults {
    let mut faults = too_long(text, SUBDOMAIN_LENGTH);
    if !is_dns_subdomain(text) {
        faults.push(
            "use labels of lower-case letters, digits and '-' joined by dots, each with a letter or digit at both ends, \
             for example web.example.com"
                .to_owned(),
        );
    }
    faults
}

/// A qualified name: an optional DNS subdomain and `/`, then a name of at most 63 letters, digits, `-`, `_` and `.`
/// with a letter or digit at both ends.
pub fn qualified_name(text: &str) -> Faults {
    let mut parts = text.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let (prefix, name) = match (second, third) {
        (_, Some(_)) => return vec!["use at most one '/', for example example.com/name".to_owned()],
        (Some(name), None) => (Some(first), name),
        (None, None) => (None, first),
    };
    let mut faults = Faults::new();
    match prefix {
        Some("") => faults.push("leave out the '/', or put a DNS name before it".to_owned()),
        Some(prefix) => faults.extend(
            dns_subdomain(prefix)
                .iter()
                .map(|fault| format!("before the '/': {fault}")),
        ),
        None => {}
    }
    faults.extend(too_long(name, LABEL_LENGTH));
    if !is_name_part(name) {
        faults.push("use letters, digits, '-', '_' and '.', with a letter or digit at both ends".to_owned());
    }
    faults
}

/// The value of a label: empty, or like the name of a qualified name.
pub fn label_value(text: &str) -> Faults {
    let mut faults = too_long(text, LABEL_LENGTH);
    if !text.is_empty() && !is_name_part(text) {
        faults.push(
            "leave it empty, or use letters, digits, '-', '_' and '.', with a letter or digit at both ends".to_owned(),
        );
    }
    faults
}

/// An IANA service name, such as a container port has: at most 15 lower-case letters, digits and `-`, with a letter,
/// no `-` at an end and no two together.
pub fn port_name(text: &str) -> Faults {
    let mut faults = too_long(text, PORT_NAME_LENGTH);
    let mut fault = |broken: bool, words: &str| {
        if broken {
            faults.push(words.to_owned());
        }
    };
    let charset = !text.is_empty() && text.bytes().all(is_label_byte);
    fault(!charset, "use lower-case letters, digits and '-' only");
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    fault(digits, "write it as a number, without quotes, or name a container port");
    let letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
    fault(!letter && !digits, "use at least one letter");
    fault(text.contains("--"), "use no two '-' together");
    fault(text.starts_with('-') || text.ends_with('-'), "use no '-' at an end");
    faults
}

/// The annotation key as the apiserver compares it: case does not matter. Go lowers each character to one.
pub fn lowered(text: &str) -> String {
    text.chars().filter_map(|c| c.to_lowercase().next()).collect()
}

/// A legal DNS label as near as possible to this text; empty when nothing is left of it.
pub fn nearest_label(text: &str, length: usize) -> String {
    let mut label = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => label.push(c),
            _ if label.is_empty() || label.ends_with('-') => {}
            _ => label.push('-'),
        }
    }
    // One byte per character.
    label.truncate(length);
    label.truncate(label.trim_end_matches('-').len());
    label
}

fn proposal(label: &str) -> String {
    if label.is_empty() {
        String::new()
    } else {
        format!("; {label:?} would do")
    }
}

fn too_long(text: &str, most: usize) -> Faults {
    if text.len() > most {
        vec![format!("use at most {most} characters, not {}", text.len())]
    } else {
        Faults::new()
    }
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

/// The form alone: the length is a fault of its own.
fn is_dns_label(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_label_byte) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_name_part(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && ends(text.bytes().next())
        && ends(text.bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        for legal in ["a", "8080", "web-1", &"a".repeat(63)] {
            assert!(dns_label(legal).is_empty(), "{legal}");
        }
        for illegal in ["", "Web", "-a", "a-", "a.b", "ä", &"a".repeat(64)] {
            assert_eq!(dns_label(illegal).len(), 1, "{illegal}");
        }
        assert_eq!(dns_label(&"A".repeat(64)).len(), 2);
        assert!(dns_label("My_Port")[0].ends_with("\"my-port\" would do"));
    }

    #[test]
    fn prefixes_may_end_in_a_dash() {
        for legal in ["a-", "web-", "a--"] {
            assert!(dns_label_prefix(legal).is_empty(), "{legal}");
        }
        for illegal in ["-", "Web-1-", "a.b-", "ü"] {
            assert!(!dns_label_prefix(illegal).is_empty(), "{illegal}");
        }
    }

    #[test]
    fn qualified_names() {
        for legal in ["a", "A_b.c", "example.com/Name", &format!("a/{}", "b".repeat(63))] {
            assert!(qualified_name(legal).is_empty(), "{legal}");
        }
        for (illegal, faults) in [
            ("", 1),
            ("/a", 1),
            ("/", 2),
            ("a/b/c", 1),
            ("A.b/c", 1),
            ("-a", 1),
            ("a/", 1),
        ] {
            assert_eq!(qualified_name(illegal).len(), faults, "{illegal}");
        }
    }

    #[test]
    fn port_names_differ_from_port_labels() {
        for legal in ["http", "a1", "1a", "fifteen-letters"] {
            assert!(port_name(legal).is_empty(), "{legal}");
        }
        for illegal in ["8080", "sixteen-letters-", "-a", "a--b", "HTTP", ""] {
            assert!(!port_name(illegal).is_empty(), "{illegal}");
        }
        assert_eq!(
            port_name("8080"),
            ["write it as a number, without quotes, or name a container port"]
        );
    }

    #[test]
    fn annotation_keys_are_lowered_as_go_does() {
        // Go has one lower-case letter for this one, Rust two.
        assert_eq!(lowered("\u{130}X"), "ix");
    }
}
