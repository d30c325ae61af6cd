//! Another writer of the same status: what it changed is put back once, and when it does the same again it is left alone.

use std::time::{Duration, Instant};

/// Two changes by one writer within this time are a fight; and for so long it is left alone.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// The other writers of one status.
#[derive(Clone, Debug, Default)]
pub struct Contention {
    last: Option<(String, Instant)>,
    until: Option<Instant>,
    /// The condition has been told of it.
    pub told: bool,
}

impl Contention {
    /// It has been told of already, by whoever led before.
    pub fn told_before(writer: &str, now: Instant) -> Self {
        Self {
            last: Some((writer.to_owned(), now)),
            until: now.checked_add(PATIENCE),
            told: true,
        }
    }

    /// `writer` has changed what is ours.
    pub fn note(&mut self, writer: &str, now: Instant) {
        let again = self
            .last
            .as_ref()
            .is_some_and(|(last, at)| last == writer && now.saturating_duration_since(*at) < PATIENCE);
        self.last = Some((writer.to_owned(), now));
        if again {
            self.until = now.checked_add(PATIENCE);
        }
    }

    /// Who is in the way at `now`; an empty name if that is not known.
    pub fn with(&self, now: Instant) -> Option<&str> {
        let until = self.until?;
        let (writer, _) = self.last.as_ref()?;
        (now < until).then_some(writer)
    }

    /// It is over, or never was.
    pub fn end(&mut self) {
        self.until = None;
        self.told = false;
    }

    /// When to look again.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_change_by_the_same_writer_within_ten_minutes_is_a_fight() {
        let (mut contention, start) = (Contention::default(), Instant::now());
        let minutes = |minutes| start + Duration::from_mins(minutes);
        contention.note("kubectl", start);
        assert_eq!(contention.with(start), None);
        contention.note("other", minutes(1));
        contention.note("kubectl", minutes(2));
        assert_eq!(contention.with(minutes(2)), None, "not the same one twice");
        contention.note("kubectl", minutes(13));
        assert_eq!(contention.with(minutes(13)), None, "long ago");
        contention.note("kubectl", minutes(14));
        assert_eq!(contention.with(minutes(23)), Some("kubectl"));
        assert_eq!(contention.with(minutes(24)), None);
        contention.end();
        assert_eq!(contention.until(), None);
    }
}
