//! Which Events are written and how: the same Event again only counts up the one written before, and nobody writes too
//! many. The numbers are those of client-go's `tools/record/events_cache.go`. Pure: time is an argument.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use ahash::HashMap;

use super::{Event, Regarding};

/// A controller may write so many Events about one object at once, and one more per [`OBJECT_REFILL`].
const OBJECT_BURST: u32 = 25;
const OBJECT_REFILL: Duration = Duration::from_mins(5);

/// The process may write so many Events at once, and one more per [`TOTAL_REFILL`].
const TOTAL_BURST: u32 = 100;
const TOTAL_REFILL: Duration = Duration::from_millis(200);

/// How many objects are remembered.
const MOST_OBJECTS: usize = 4096;

/// How long an object and an Event about it are remembered: as long as an apiserver keeps Events by default.
const MEMORY: Duration = Duration::from_hours(1);

/// What to do with an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Create it, then call [`Correlator::created`].
    Create,
    /// The Event of this name tells the same: set its series.
    Count {
        /// The name of the Event object.
        name: String,
        /// How often it has happened, this time included; at least 2.
        count: i32,
    },
    /// Too many: drop it.
    Limited,
}

/// A token bucket.
struct Bucket {
    tokens: u32,
    burst: u32,
    refill: Duration,
    /// Up to when tokens have been added.
    since: Instant,
}

impl Bucket {
    fn full(now: Instant, burst: u32, refill: Duration) -> Self {
        Self {
            tokens: burst,
            burst,
            refill,
            since: now,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        let refills = u32::try_from(elapsed.as_nanos() / self.refill.as_nanos()).unwrap_or(u32::MAX);
        if refills >= self.burst - self.tokens {
            self.tokens = self.burst;
            self.since = now;
        } else {
            self.tokens += refills;
            self.since += self.refill * refills;
        }
        let taken = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        taken
    }
}

struct Series {
    name: String,
    count: i32,
    last: Instant,
}

struct Object {
    bucket: Bucket,
    /// By the hash of everything that makes two Events the same.
    series: HashMap<u64, Series>,
    last: Instant,
}

/// What is remembered of Events.
pub(super) struct Correlator {
    objects: HashMap<(&'static str, Regarding), Object>,
    total: Bucket,
    hasher: RandomState,
    swept: Instant,
}

impl Correlator {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            objects: HashMap::default(),
            total: Bucket::full(now, TOTAL_BURST, TOTAL_REFILL),
            hasher: RandomState::new(),
            swept: now,
        }
    }

    /// Decides on `event`, which happened `now`. An Event over the limit counts all the same: the next one that is
    /// written carries the true number.
    pub(super) fn admit(&mut self, now: Instant, event: &Event) -> Verdict {
        self.sweep(now);
        let same = self.hasher.hash_one(event);
        let object = self
            .objects
            .entry((event.controller, event.regarding.clone()))
            .or_insert_with(|| Object {
                bucket: Bucket::full(now, OBJECT_BURST, OBJECT_REFILL),
                series: HashMap::default(),
                last: now,
            });
        object.last = now;
        let known = object.series.get_mut(&same).map(|series| {
            series.count = series.count.saturating_add(1);
            series.last = now;
            Verdict::Count {
                name: series.name.clone(),
                count: series.count,
            }
        });
        if object.bucket.take(now) && self.total.take(now) {
            known.unwrap_or(Verdict::Create)
        } else {
            Verdict::Limited
        }
    }

    /// `event` was created under this name.
    pub(super) fn created(&mut self, now: Instant, event: &Event, name: String) {
        let same = self.hasher.hash_one(event);
        if let Some(object) = self.objects.get_mut(&(event.controller, event.regarding.clone())) {
            object.series.insert(
                same,
                Series {
                    name,
                    count: 1,
                    last: now,
                },
            );
        }
    }

    /// Forgets what is old, once in a while and when there is too much.
    fn sweep(&mut self, now: Instant) {
        let due = now.saturating_duration_since(self.swept) >= MEMORY / 10;
        if due {
            self.swept = now;
            let young = |last: Instant| now.saturating_duration_since(last) < MEMORY;
            self.objects.retain(|_, object| {
                object.series.retain(|_, series| young(series.last));
                young(object.last)
            });
        }
        if self.objects.len() >= MOST_OBJECTS
            && let Some(oldest) = self
                .objects
                .iter()
                .min_by_key(|(_, object)| object.last)
                .map(|(key, _)| key.clone())
        {
            self.objects.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventType;

    fn event(name: &str, note: &str) -> Event {
        let (namespace, name) = ("marsh".to_owned(), name.to_owned());
        Event {
            regarding: Regarding {
                api_version: "v1",
                kind: "Endpoints",
                namespace,
                name,
                uid: "u".to_owned(),
            },
            event_type: EventType::Warning,
            reason: "FailedToUpdateEndpoint",
            action: "Update",
            note: note.to_owned(),
            controller: "endpoint-controller",
        }
    }

    /// Admits and, when told to, creates.
    fn emit(correlator: &mut Correlator, now: Instant, event: &Event) -> Verdict {
        let verdict = correlator.admit(now, event);
        if verdict == Verdict::Create {
            correlator.created(now, event, format!("{}.{}", event.regarding.name, event.note));
        }
        verdict
    }

    #[test]
    fn the_same_event_again_counts_up_the_first() {
        let now = Instant::now();
        let mut correlator = Correlator::new(now);
        assert_eq!(emit(&mut correlator, now, &event("reed", "a")), Verdict::Create);
        for count in 2..5 {
            let name = "reed.a".to_owned();
            assert_eq!(
                emit(&mut correlator, now, &event("reed", "a")),
                Verdict::Count { name, count }
            );
        }
        assert_eq!(
            emit(&mut correlator, now, &event("reed", "b")),
            Verdict::Create,
            "another text"
        );
        assert_eq!(
            emit(&mut correlator, now, &event("sedge", "a")),
            Verdict::Create,
            "another object"
        );
        let other = Event {
            reason: "Other",
            ..event("reed", "a")
        };
        assert_eq!(emit(&mut correlator, now, &other), Verdict::Create, "another reason");
        let other = Event {
            controller: "repair-controller",
            ..event("reed", "a")
        };
        assert_eq!(
            emit(&mut correlator, now, &other),
            Verdict::Create,
            "another controller"
        );
    }

    #[test]
    fn an_event_whose_creation_failed_is_created_the_next_time() {
        let now = Instant::now();
        let mut correlator = Correlator::new(now);
        assert_eq!(correlator.admit(now, &event("reed", "a")), Verdict::Create);
        assert_eq!(correlator.admit(now, &event("reed", "a")), Verdict::Create);
    }

    #[test]
    fn one_object_gets_25_at_once_and_one_more_each_five_minutes() {
        let start = Instant::now();
        let mut correlator = Correlator::new(start);
        let mut written = 0;
        for number in 0..100 {
            written += u32::from(emit(&mut correlator, start, &event("reed", &number.to_string())) != Verdict::Limited);
        }
        assert_eq!(written, 25);
        assert_eq!(
            emit(&mut correlator, start, &event("sedge", "a")),
            Verdict::Create,
            "others are not affected"
        );
        let mut now = start;
        let mut written = 0;
        for number in 0..3600 {
            now += Duration::from_secs(1);
            written += u32::from(emit(&mut correlator, now, &event("reed", &number.to_string())) != Verdict::Limited);
        }
        assert_eq!(written, 12);
    }

    #[test]
    fn what_was_held_back_is_in_the_next_count() {
        let now = Instant::now();
        let mut correlator = Correlator::new(now);
        for _ in 0..60 {
            emit(&mut correlator, now, &event("reed", "a"));
        }
        let name = "reed.a".to_owned();
        let later = now + OBJECT_REFILL;
        assert_eq!(
            emit(&mut correlator, later, &event("reed", "a")),
            Verdict::Count { name, count: 61 }
        );
    }

    #[test]
    fn the_process_writes_at_most_100_at_once_and_five_a_second() {
        let start = Instant::now();
        let mut correlator = Correlator::new(start);
        let mut burst = |now: Instant, round: &str| {
            let names = (0..1000).map(|number| format!("{round}-{number}"));
            names
                .filter(|name| emit(&mut correlator, now, &event(name, "a")) != Verdict::Limited)
                .count()
        };
        assert_eq!(burst(start, "a"), 100);
        assert_eq!(burst(start + Duration::from_secs(10), "b"), 50);
    }

    #[test]
    fn memory_is_bounded_and_what_is_old_is_forgotten() {
        let start = Instant::now();
        let mut correlator = Correlator::new(start);
        let mut now = start;
        for number in 0..MOST_OBJECTS + 300 {
            now += Duration::from_millis(1);
            correlator.admit(now, &event(&number.to_string(), "a"));
            assert!(correlator.objects.len() <= MOST_OBJECTS);
        }
        let newest = event(&(MOST_OBJECTS + 299).to_string(), "a").regarding;
        assert!(
            correlator.objects.contains_key(&("endpoint-controller", newest)),
            "the oldest go, not the newest"
        );
        correlator.admit(now + MEMORY, &event("reed", "a"));
        assert_eq!(correlator.objects.len(), 1);
    }
}
