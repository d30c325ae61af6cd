//! Whether what a watch has told is complete and recent enough to choose by.

use std::time::{Duration, Instant};

/// How long a watch may be broken.
const BROKEN: Duration = Duration::from_secs(5);
/// How long it may be silent: the apiserver sends a bookmark about once a minute.
const SILENT: Duration = Duration::from_secs(90);

/// What the books know of one kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The first list is not complete.
    Loading,
    /// Complete, and the watch is at work.
    Live,
    /// It was complete once, and the watch has been broken for more than 5 s or silent for 90 s.
    Stale,
}

/// Keeps the freshness of one kind. Nothing is chosen unless every kind that a choice rests on is [`Freshness::Live`]; a kind that is no
/// longer `Live` does not make a replica unready.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feed {
    /// The last list, event or bookmark after the first complete list.
    heard: Option<Instant>,
    broken: Option<Instant>,
}

impl Feed {
    /// A complete list has arrived.
    pub fn listed(&mut self, now: Instant) {
        (self.heard, self.broken) = (Some(now), None);
    }

    /// An event or a bookmark has arrived. Before the first list is complete it says nothing.
    pub fn heard(&mut self, now: Instant) {
        if self.heard.is_some() {
            self.listed(now);
        }
    }

    /// The watch is broken, or broken still.
    pub fn broke(&mut self, now: Instant) {
        self.broken = self.broken.or(Some(now));
    }

    /// What it is at `now`.
    pub fn freshness(&self, now: Instant) -> Freshness {
        let since = |time: Instant| now.saturating_duration_since(time);
        match (self.heard, self.broken) {
            (None, _) => Freshness::Loading,
            (Some(_), Some(broken)) if since(broken) > BROKEN => Freshness::Stale,
            (Some(heard), _) if since(heard) >= SILENT => Freshness::Stale,
            _ => Freshness::Live,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Freshness::{Live, Loading, Stale};

    #[test]
    fn a_feed_is_live_from_its_first_list_until_it_breaks_or_falls_silent() {
        let (mut feed, start) = (Feed::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        feed.heard(at(0));
        feed.broke(at(0));
        assert_eq!(feed.freshness(at(500)), Loading);
        feed.listed(at(500));
        assert_eq!((feed.freshness(at(589)), feed.freshness(at(590))), (Live, Stale));
        feed.heard(at(600));
        assert_eq!(feed.freshness(at(600)), Live, "a bookmark is enough");
        feed.broke(at(610));
        feed.broke(at(614));
        assert_eq!((feed.freshness(at(615)), feed.freshness(at(616))), (Live, Stale));
        feed.listed(at(617));
        assert_eq!(feed.freshness(at(617)), Live);
    }
}
