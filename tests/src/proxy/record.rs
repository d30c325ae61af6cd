//! What went through the proxy, for tests that count.

use std::collections::{HashMap, VecDeque};
use std::time::{Instant, SystemTime};

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::matcher::Match;
use super::request::ApiRequest;

/// Requests kept; the oldest go first.
const MAX_RECORDS: usize = 200_000;
/// Request bodies kept, in bytes, when asked for; the oldest go first.
const MAX_BODIES: usize = 128 << 20;
/// Objects whose last resourceVersion is remembered.
const MAX_KNOWN: usize = 200_000;

/// What became of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not finished: waiting, or a watch that is open.
    Pending,
    /// The whole reply was handed to the client's connection.
    Delivered,
    /// The proxy answered in the server's place.
    Refused,
    /// The server replied and a rule kept all or part of it from the client.
    Lost,
    /// A rule reset the connection before the server saw the request.
    Reset,
    /// The client left, or its connection was cut, before the reply was complete.
    ClientGone,
    /// The apiserver could not be reached or broke off.
    ServerGone,
}

/// One request and what became of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Counts up over the proxy's life, in order of arrival.
    pub seq: u64,
    /// When it arrived.
    pub at: Instant,
    /// The same by the wall clock.
    pub wall: SystemTime,
    /// What was asked.
    pub request: ApiRequest,
    /// The body sent, if bodies are kept (`FaultProxy::keep_bodies`).
    pub body: Option<Bytes>,
    /// The server saw the request.
    pub reached_server: bool,
    /// HTTP status of the server's reply, or of the proxy's own.
    pub status: Option<u16>,
    /// Reply bytes handed to the client, head excluded.
    pub bytes: u64,
    /// What became of the reply.
    pub outcome: Outcome,
    /// When the server's reply began.
    pub answered: Option<Instant>,
    /// For a write that the server answered: whether it changed the stored object; `None` when that is not known.
    pub changed: Option<bool>,
    /// The resourceVersion in the server's reply to a write that succeeded; a deletion's reply has none of its own. All
    /// objects of an apiserver count with the same counter, so it tells the order of two writes whoever saw them first.
    pub version: Option<u64>,
}

impl Record {
    /// A write that the server saw, whatever it answered; dry runs are none.
    pub fn is_write(&self) -> bool {
        self.reached_server && self.request.is_write() && !self.request.is_dry_run
    }
}

#[derive(Default)]
struct Store {
    records: VecDeque<Record>,
    next: u64,
    keep_bodies: bool,
    body_bytes: usize,
    /// Records went for lack of room since the last `clear`.
    dropped: bool,
    known: HashMap<[String; 4], String>,
}

pub(super) struct Records {
    store: Mutex<Store>,
    changes: watch::Sender<u64>,
}

impl Records {
    pub(super) fn new() -> Self {
        Self {
            store: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn keep_bodies(&self, keep: bool) {
        self.store.lock().keep_bodies = keep;
    }

    /// Enters a request and gives its number.
    pub(super) fn open(&self, request: &ApiRequest, body: &Bytes) -> u64 {
        let mut store = self.store.lock();
        let seq = store.next;
        store.next += 1;
        let body = store.keep_bodies.then(|| body.clone());
        store.body_bytes += body.as_ref().map_or(0, Bytes::len);
        store.records.push_back(Record {
            seq,
            at: Instant::now(),
            wall: SystemTime::now(),
            request: request.clone(),
            body,
            reached_server: false,
            status: None,
            bytes: 0,
            outcome: Outcome::Pending,
            answered: None,
            changed: None,
            version: None,
        });
        while store.records.len() > MAX_RECORDS || store.body_bytes > MAX_BODIES {
            let Some(gone) = store.records.pop_front() else { break };
            store.dropped = true;
            store.body_bytes -= gone.body.map_or(0, |b| b.len());
        }
        drop(store);
        self.changes.send_modify(|n| *n += 1);
        seq
    }

    pub(super) fn update(&self, seq: u64, change: impl FnOnce(&mut Record)) {
        let mut store = self.store.lock();
        let first = store.records.front().map_or(store.next, |r| r.seq);
        let index = seq.checked_sub(first).and_then(|i| usize::try_from(i).ok());
        if let Some(record) = index.and_then(|i| store.records.get_mut(i)) {
            change(record);
        }
        drop(store);
        self.changes.send_modify(|n| *n += 1);
    }

    /// Remembers the resourceVersion of an object seen in a reply and gives the one remembered before.
    pub(super) fn learn(&self, request: &ApiRequest, name: &str, version: &str) -> Option<String> {
        let key = [&request.group, &request.resource, &request.namespace, name].map(str::to_owned);
        let mut store = self.store.lock();
        if store.known.len() >= MAX_KNOWN {
            store.known.clear();
        }
        store.known.insert(key, version.to_owned())
    }

    /// The records that `matcher` takes, oldest first.
    ///
    /// # Panics
    /// If records were dropped for lack of room: a count from what is left would be wrong.
    pub(super) fn select(&self, matcher: &Match) -> Vec<Record> {
        let store = self.store.lock();
        assert!(
            !store.dropped,
            "the proxy dropped its oldest records; call clear_records() between the parts of a long test"
        );
        store
            .records
            .iter()
            .filter(|r| matcher.matches(&r.request))
            .cloned()
            .collect()
    }

    pub(super) fn clear(&self) {
        let mut store = self.store.lock();
        store.records.clear();
        store.body_bytes = 0;
        store.dropped = false;
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "dropped its oldest records")]
    fn a_count_from_what_is_left_is_refused() {
        let records = Records::new();
        let request = ApiRequest::default();
        for _ in 0..MAX_RECORDS {
            records.open(&request, &Bytes::new());
        }
        assert_eq!(records.select(&Match::any()).len(), MAX_RECORDS);
        records.open(&request, &Bytes::new());
        records.select(&Match::any());
    }

    #[test]
    fn bodies_are_bounded_and_clear_begins_anew() {
        let records = Records::new();
        records.keep_bodies(true);
        let body = Bytes::from(vec![0; MAX_BODIES / 2]);
        let request = ApiRequest::default();
        for _ in 0..4 {
            records.open(&request, &body);
        }
        assert_eq!(records.store.lock().records.len(), 2);
        records.clear();
        let seq = records.open(&request, &body);
        records.update(seq, |r| r.status = Some(200));
        records.update(0, |r| r.status = Some(500));
        let left: Vec<_> = records
            .select(&Match::any())
            .iter()
            .map(|r| (r.seq, r.status))
            .collect();
        assert_eq!(left, [(4, Some(200))]);
    }
}
