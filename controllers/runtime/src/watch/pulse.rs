//! Whether a watch is at work.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// Since when a watch is broken, if it is. Clones share it. A watch that died without a sign is noticed 5 s after
/// [`WATCH_TIMEOUT`](super::WATCH_TIMEOUT).
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<Mutex<Option<Instant>>>);

impl Pulse {
    /// Since when it is broken.
    pub fn broken_since(&self) -> Option<Instant> {
        *self.0.lock()
    }

    pub(super) fn broke(&self, now: Instant) {
        self.0.lock().get_or_insert(now);
    }

    pub(super) fn back(&self) {
        *self.0.lock() = None;
    }
}
