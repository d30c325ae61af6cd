//! The work queue that reconcilers draw from: [`QueueCore`] behind a lock, with waiting.
//!
//! It is open only while this replica leads: a closed queue takes no work and hands none out; who opens it adds every key.

mod core;

use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::core::{Backoff, Lane, Outcome, QueueCore};
use crate::metrics::{Backlog, WorkqueueMetrics};

/// Keys of a fan that are at work at once: enough to keep an apiserver busy, and it answers others still.
const FAN_LIMIT: usize = 8;

struct State<K> {
    core: QueueCore<K>,
    open: bool,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    idle: Notify,
    metrics: WorkqueueMetrics,
}

/// A handle to one queue; clones share it.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Queue<K> {
    /// A closed queue, for so many workers. Its metrics carry the `name` they were made with.
    pub fn new(backoff: Backoff, workers: usize, metrics: WorkqueueMetrics) -> Self {
        let fan_limit = FAN_LIMIT.min(workers.saturating_sub(1));
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                core: QueueCore::new(backoff, fan_limit),
                open: false,
            }),
            changed: Notify::new(),
            idle: Notify::new(),
            metrics,
        });
        let weak = Arc::downgrade(&shared);
        shared.metrics.observe_backlog(move || {
            let now = Instant::now();
            let mut backlog = Backlog::default();
            if let Some(shared) = weak.upgrade() {
                let state = shared.state.lock();
                backlog.due = state.core.due(now);
                backlog.delayed = state.core.waiting() - backlog.due;
                for since in state.core.running() {
                    let age = now.saturating_duration_since(since);
                    backlog.unfinished += age;
                    backlog.longest = backlog.longest.max(age);
                }
            }
            backlog
        });
        Self { shared }
    }

    /// Lets work in and out.
    pub fn open(&self) {
        self.shared.state.lock().open = true;
        self.shared.changed.notify_waiters();
    }

    /// Drops what waits and takes no more; work in progress goes on.
    pub fn close(&self) {
        let mut state = self.shared.state.lock();
        state.open = false;
        state.core.clear();
    }

    /// Asks for work on `key`, `delay` from now. Nothing happens while the queue is closed.
    pub fn add(&self, key: &K, delay: Duration) {
        self.add_to(key, Lane::Single, delay);
    }

    /// The same in this lane.
    pub fn add_to(&self, key: &K, lane: Lane, delay: Duration) {
        let mut state = self.shared.state.lock();
        if !state.open {
            return;
        }
        if state.core.add(key, lane, Instant::now() + delay) {
            self.shared.metrics.added();
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// Waits for the next key. Cancel safe.
    pub async fn take(&self) -> K {
        loop {
            let notified = self.shared.changed.notified();
            let due = {
                let mut state = self.shared.state.lock();
                if state.open {
                    if let Some((key, waited)) = state.core.take(Instant::now()) {
                        self.shared.metrics.waited(waited);
                        if state.core.next_due().is_some() {
                            // A stored wake-up is one, however many keys came: pass it on.
                            self.shared.changed.notify_one();
                        }
                        return key;
                    }
                    state.core.next_due()
                } else {
                    None
                }
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        () = notified => {}
                        () = tokio::time::sleep_until(due.into()) => {}
                    }
                }
                None => notified.await,
            }
        }
    }

    /// Gives back a key that [`take`](Self::take) handed out.
    pub fn finish(&self, key: &K, outcome: Outcome, worked: Duration) {
        let mut state = self.shared.state.lock();
        let retried = state.core.finish(key, outcome, Instant::now(), rand::random());
        if !state.open {
            state.core.clear();
        }
        self.shared.metrics.worked(worked);
        if retried {
            self.shared.metrics.retried();
        }
        let busy = state.core.is_busy();
        drop(state);
        self.shared.changed.notify_one();
        if !busy {
            self.shared.idle.notify_waiters();
        }
    }

    /// Waits until no worker has a key. The caller sets the limit.
    pub async fn idle(&self) {
        loop {
            let notified = self.shared.idle.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if !self.shared.state.lock().core.is_busy() {
                return;
            }
            notified.await;
        }
    }

    /// Keys that wait.
    pub fn waiting(&self) -> usize {
        self.shared.state.lock().core.waiting()
    }
}
