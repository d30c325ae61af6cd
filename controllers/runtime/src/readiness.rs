//! What must have happened once before this replica is ready.

use std::sync::Arc;

use tokio::sync::watch;

/// A condition that starts false, becomes true once and stays so. Clones share it.
#[derive(Clone, Debug)]
pub struct Readiness {
    name: &'static str,
    state: Arc<watch::Sender<bool>>,
}

impl Readiness {
    /// Not ready yet; `name` is what `/readyz` shows.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            state: Arc::new(watch::Sender::new(false)),
        }
    }

    /// What `/readyz` shows.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// It happened.
    pub fn raise(&self) {
        self.state.send_if_modified(|state| !std::mem::replace(state, true));
    }

    /// Has it happened?
    pub fn is_raised(&self) -> bool {
        *self.state.borrow()
    }

    /// Waits until it has.
    pub async fn raised(&self) {
        // The sender lives as long as `self`, so this cannot end early.
        let _ = self.state.subscribe().wait_for(|state| *state).await;
    }
}
