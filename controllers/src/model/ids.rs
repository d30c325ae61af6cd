//! Names, versions and times.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// `namespace/name` of a namespaced object. A Service, its Endpoints and the work item of both share one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The apiserver writes the Endpoints and slices of this Service itself, and makes it again if somebody deletes it.
    pub fn is_apiservers_own(&self) -> bool {
        (&*self.namespace, &*self.name) == ("default", "kubernetes")
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One state of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
}

/// `metadata.uid`. The apiserver hands out UUIDs; anything else is kept as text, so that nothing is lost. Sorts as its text does, bytewise.
///
/// Made by [`Uid::parse`], so that one text has one form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Uid {
    /// A UUID in its canonical lower-case form, 16 bytes instead of 36.
    Uuid(uuid::Uuid),
    /// Any other text, including the empty one.
    Text(Box<str>),
}

/// The empty one.
impl Default for Uid {
    fn default() -> Self {
        Self::Text(Box::default())
    }
}

impl Uid {
    /// Reads a uid. `to_string` gives back exactly the text that came in.
    pub fn parse(text: &str) -> Self {
        match uuid::Uuid::parse_str(text) {
            Ok(uuid)
                if uuid
                    .as_hyphenated()
                    .encode_lower(&mut [0; uuid::fmt::Hyphenated::LENGTH])
                    == text =>
            {
                Self::Uuid(uuid)
            }
            _ => Self::Text(text.into()),
        }
    }

    /// The text is empty, as in a hand-made `targetRef` that names no uid.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    fn as_text<'a>(&'a self, buffer: &'a mut [u8; uuid::fmt::Hyphenated::LENGTH]) -> &'a str {
        match self {
            Self::Uuid(uuid) => uuid.as_hyphenated().encode_lower(buffer),
            Self::Text(text) => text,
        }
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Self::Uuid(this), Self::Uuid(other)) = (self, other) {
            // The hyphens stand in the same places and hexadecimal digits sort as their values do.
            return this.cmp(other);
        }
        let (mut left, mut right) = ([0; 36], [0; 36]);
        self.as_text(&mut left).cmp(other.as_text(&mut right))
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.as_hyphenated().fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// `metadata.resourceVersion` as a number. Versions of one kind are comparable (KEP-5504). 0 = not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl Revision {
    /// Reads a resourceVersion; one that is not a number counts as not known.
    pub fn parse(text: &str) -> Self {
        Self(text.parse().unwrap_or(0))
    }
}

/// Seconds since 1970 in UTC: API timestamps carry no fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

/// RFC 3339 in UTC with `Z` and no fraction, as Go prints an API timestamp.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, seconds) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        // Counted from 0000-03-01 the leap day is the last day of its year, and 400 years are always 146,097 days.
        let since_march = days + 719_468;
        let (era, day) = (since_march.div_euclid(146_097), since_march.rem_euclid(146_097));
        let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let (month, next_year) = match month_from_march {
            0..10 => (month_from_march + 3, 0),
            _ => (month_from_march - 9, 1),
        };
        let year = era * 400 + year_of_era + next_year;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// A transport protocol of a Service port, container port or endpoint port. An absent one is TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// `TCP`, also where the field is absent or empty.
    #[default]
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
    /// A protocol that this version does not know, kept as it stands.
    Other(Box<str>),
}

impl Protocol {
    /// Reads the API's text.
    pub fn parse(text: &str) -> Self {
        match text {
            "" | "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            "SCTP" => Self::Sctp,
            other => Self::Other(other.into()),
        }
    }

    /// The API's text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Other(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_keeps_its_text_and_sorts_by_it() {
        let sorted = [
            "",
            "0",
            "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
            "1b4e28ba-2fa1-11d2-883f-b9a761bde3fb",
            "1b4e28ba2fa111d2883f0016d3cca427",
            "9B4E28BA-2FA1-11D2-883F-0016D3CCA427",
            "9b4e28ba-2fa1-11d2-883f-0016d3cca427",
            "pod-7",
        ];
        let mut uids: Vec<Uid> = sorted.iter().rev().map(|text| Uid::parse(text)).collect();
        uids.sort();
        assert_eq!(uids.iter().map(ToString::to_string).collect::<Vec<_>>(), sorted);
        assert!(uids[0].is_empty() && !uids[1].is_empty() && !uids[2].is_empty());
    }

    #[test]
    fn a_timestamp_prints_as_go_prints_it() {
        // The right column is the output of time.Unix(n, 0).UTC().Format(time.RFC3339Nano).
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_514_764_800, "2018-01-01T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (-62_135_596_800, "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp(seconds).to_string(), text);
        }
    }
}
