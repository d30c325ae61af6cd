//! Every task of the process has an owner: this one. A task that ends before it was told to, by returning, failing or
//! panicking, is an error that names it; the caller ends the process with it, because a process of which a part is
//! missing looks healthy and does not work.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::time::Duration;

use thiserror::Error;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Why the process cannot go on, or did not stop as it should.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TaskFailure {
    /// A task returned although nobody had told it to stop.
    #[error("task {task} ended early")]
    Ended {
        /// The task's name.
        task: String,
    },
    /// A task returned an error.
    #[error("task {task} failed: {reason}")]
    Failed {
        /// The task's name.
        task: String,
        /// Its error.
        reason: String,
    },
    /// A task panicked.
    #[error("task {task} panicked: {reason}")]
    Panicked {
        /// The task's name.
        task: String,
        /// What the panic said.
        reason: String,
    },
    /// Tasks were told to stop and did not in time; they were ended by force.
    #[error("still running {limit:?} after they were told to stop: {tasks}")]
    Overdue {
        /// Their names, separated by commas.
        tasks: String,
        /// The time they had.
        limit: Duration,
    },
}

/// What a task may return: nothing, or a result whose error can be shown.
pub trait Outcome: Send + 'static {
    /// The error, as a text.
    fn failure(self) -> Option<String>;
}

impl Outcome for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: Display + Send + 'static> Outcome for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error:#}"))
    }
}

struct Task {
    name: String,
    stop: CancellationToken,
    abort: AbortHandle,
}

/// The owner of tasks. Dropping it ends them all.
#[derive(Default)]
pub struct Supervisor {
    running: JoinSet<Option<String>>,
    tasks: HashMap<Id, Task>,
}

impl Supervisor {
    /// An owner without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task that runs until `stop` is cancelled; ending earlier is a failure. Tasks that stop together share a
    /// token, so that a shutdown can go in order ([`Supervisor::stop`]).
    pub fn spawn<F>(&mut self, name: impl Into<String>, stop: &CancellationToken, future: F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let handle = self.running.spawn(async move { future.await.failure() });
        let task = Task {
            name: name.into(),
            stop: stop.clone(),
            abort: handle.clone(),
        };
        self.tasks.insert(handle.id(), task);
    }

    /// Waits for a task to fail; for ever, if none does. May be dropped and called again without losing anything.
    pub async fn failed(&mut self) -> TaskFailure {
        loop {
            match self.next().await {
                Some(Some(failure)) => return failure,
                Some(None) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Cancels `stop` and waits until no task is left whose token is cancelled, at most for `limit`; then those left are
    /// ended by force.
    ///
    /// # Errors
    /// The first task that failed meanwhile, whatever its token, or those that did not stop in time.
    pub async fn stop(&mut self, stop: &CancellationToken, limit: Duration) -> Result<(), TaskFailure> {
        stop.cancel();
        let mut first = None;
        let all_ended = tokio::time::timeout(limit, async {
            while self.tasks.values().any(|task| task.stop.is_cancelled()) {
                let failure = self.next().await.flatten();
                first = first.take().or(failure);
            }
        });
        if all_ended.await.is_err() {
            let mut overdue = BTreeSet::new();
            for task in self.tasks.values().filter(|task| task.stop.is_cancelled()) {
                task.abort.abort();
                overdue.insert(task.name.as_str());
            }
            let tasks = overdue.into_iter().collect::<Vec<_>>().join(", ");
            first = first.or(Some(TaskFailure::Overdue { tasks, limit }));
        }
        first.map_or(Ok(()), Err)
    }

    /// The next task to end: how it failed, if it did; `None` when there is no task.
    async fn next(&mut self) -> Option<Option<TaskFailure>> {
        let ended = self.running.join_next_with_id().await?;
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(Task { name: task, stop, .. }) = self.tasks.remove(&id) else {
            return Some(None);
        };
        Some(match ended {
            Ok((_, Some(reason))) => Some(TaskFailure::Failed { task, reason }),
            Ok((_, None)) if stop.is_cancelled() => {
                debug!(task, "task stopped");
                None
            }
            Ok((_, None)) => Some(TaskFailure::Ended { task }),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Some(TaskFailure::Panicked {
                    task,
                    reason: text(panic.as_ref()).to_owned(),
                }),
                Err(_aborted) => None,
            },
        })
    }
}

/// What a panic said, if it said something.
fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    async fn panics(message: impl Any + Send) {
        tokio::task::yield_now().await;
        std::panic::panic_any(message);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_early_is_named_with_its_reason() {
        // B89: a panic in a task must end the process, not only the task.
        type Start = fn(&mut Supervisor, &CancellationToken);
        let cases: [(Start, &str); 5] = [
            (
                |owner, stop| owner.spawn("elector", stop, async {}),
                "task elector ended early",
            ),
            (
                |owner, stop| owner.spawn("admin", stop, async { Err::<(), _>("no socket") }),
                "task admin failed: no socket",
            ),
            (
                |owner, stop| owner.spawn("queue", stop, panics("index 7 is gone".to_owned())),
                "task queue panicked: index 7 is gone",
            ),
            (
                |owner, stop| owner.spawn("queue", stop, panics("plain")),
                "task queue panicked: plain",
            ),
            (
                |owner, stop| owner.spawn("queue", stop, panics(7_u8)),
                "task queue panicked: no message",
            ),
        ];
        for (start, expected) in cases {
            let (mut owner, stop) = (Supervisor::new(), CancellationToken::new());
            owner.spawn("other", &stop, stop.clone().cancelled_owned());
            start(&mut owner, &stop);
            let failure = tokio::time::timeout(LIMIT, owner.failed()).await.unwrap();
            assert_eq!(failure.to_string(), expected);
            assert_eq!(owner.stop(&stop, LIMIT).await, Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_stop_when_told_are_no_failure_and_stages_stop_in_order() {
        let (mut owner, workers, elector) = (Supervisor::new(), CancellationToken::new(), CancellationToken::new());
        let drain = workers.clone();
        owner.spawn("worker", &workers, async move {
            drain.cancelled().await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        });
        owner.spawn("elector", &elector, elector.clone().cancelled_owned());
        let start = tokio::time::Instant::now();
        assert_eq!(owner.stop(&workers, LIMIT).await, Ok(()));
        assert_eq!(start.elapsed().as_secs(), 2);
        assert!(!elector.is_cancelled());
        assert!(
            tokio::time::timeout(LIMIT, owner.failed()).await.is_err(),
            "nothing has failed"
        );
        assert_eq!(owner.stop(&elector, LIMIT).await, Ok(()));
        assert!(
            tokio::time::timeout(LIMIT, owner.failed()).await.is_err(),
            "nothing is left to fail"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_reports_what_fails_or_hangs() {
        let (mut owner, stop) = (Supervisor::new(), CancellationToken::new());
        let told = stop.clone();
        owner.spawn("queue", &stop, async move {
            told.cancelled().await;
            panics("while stopping").await;
        });
        let failure = owner.stop(&stop, LIMIT).await.unwrap_err();
        assert_eq!(failure.to_string(), "task queue panicked: while stopping");

        let (mut owner, stop) = (Supervisor::new(), CancellationToken::new());
        let other = CancellationToken::new();
        owner.spawn("admin", &other, other.clone().cancelled_owned());
        owner.spawn("watch-pods", &stop, std::future::pending::<()>());
        owner.spawn("queue", &stop, std::future::pending::<()>());
        let start = tokio::time::Instant::now();
        let failure = owner.stop(&stop, LIMIT).await.unwrap_err();
        assert_eq!(start.elapsed(), LIMIT);
        assert_eq!(
            failure.to_string(),
            "still running 5s after they were told to stop: queue, watch-pods"
        );
        assert_eq!(owner.stop(&stop, LIMIT).await, Ok(()), "they were ended by force");
        assert_eq!(owner.stop(&other, LIMIT).await, Ok(()), "others were not");
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_owner_ends_its_tasks() {
        let (mut owner, stop) = (Supervisor::new(), CancellationToken::new());
        let (held, gone) = tokio::sync::oneshot::channel::<()>();
        owner.spawn("queue", &stop, async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(owner);
        assert!(tokio::time::timeout(LIMIT, gone).await.unwrap().is_err());
    }
}
