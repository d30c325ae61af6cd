//! One process and one clock that see Pods, Endpoints and EndpointSlices: when was a Pod's change to be seen, when did they say so?

mod book;
mod decode;
mod shown;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::future::try_join_all;
use parking_lot::Mutex;

use self::book::Book;
pub use self::book::{Answer, Kind, Seen};
use self::decode::Event;
use self::shown::Said;
use super::watching::watch;
use crate::cluster::Cluster;
use crate::usage::thread_cpu_time;

/// Namespace and name.
type Key = (String, String);

/// Watches on a thread of its own for as long as the cluster runs.
#[derive(Clone)]
pub struct Observer {
    state: Arc<Mutex<State>>,
    cpu: Arc<AtomicU64>,
}

struct State {
    pods: HashMap<Key, Said>,
    /// Services that select the Pods of an application, if not only the one of its name.
    fans: HashMap<Key, Vec<String>>,
    books: Vec<Book>,
    last_pod: Option<Instant>,
    failed: Option<String>,
}

impl Observer {
    /// Begins to watch these kinds in this cluster, and Pods.
    pub fn start(cluster: &Cluster, kinds: &[Kind]) -> Self {
        let state = State {
            pods: HashMap::new(),
            fans: HashMap::new(),
            books: kinds.iter().map(|kind| Book::new(*kind)).collect(),
            last_pod: None,
            failed: None,
        };
        let observer = Self {
            state: Arc::new(Mutex::new(state)),
            cpu: Arc::default(),
        };
        let kinds = kinds.to_vec();
        // Not the cluster itself, which would then run on beside the next workload's.
        let (on_thread, config) = (observer.clone(), cluster.client_config("admin"));
        thread::spawn(move || {
            let failed = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(on_thread.watch(&config, &kinds)).err(),
                Err(error) => Some(error.into()),
            };
            on_thread.state.lock().failed = failed.map(|error| format!("{error:#}"));
        });
        observer
    }

    async fn watch(&self, config: &kube::Config, kinds: &[Kind]) -> Result<()> {
        let pods = watch(config.clone(), "api/v1/pods", |line| self.line(line, State::pod));
        let books = kinds.iter().map(|kind| {
            let take = |line: &[u8]| self.line(line, |state, event, at| state.object(*kind, event, line, at));
            watch(config.clone(), kind.path(), take)
        });
        tokio::try_join!(pods, try_join_all(books))?;
        Ok(())
    }

    fn line(&self, line: &[u8], take: impl FnOnce(&mut State, &Event<'_>, Instant)) {
        let at = Instant::now();
        if let Ok(event) = serde_json::from_slice(line) {
            take(&mut self.state.lock(), &event, at);
        }
        if let Ok(cpu) = thread_cpu_time() {
            self.cpu
                .store(cpu.as_micros().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Processor time of its thread so far.
    pub fn cpu(&self) -> Duration {
        Duration::from_micros(self.cpu.load(Ordering::Relaxed))
    }

    /// These Services too select the Pods of this application. To be told before there are such Pods.
    pub fn fan(&self, namespace: &str, app: &str, services: impl Iterator<Item = String>) {
        let key = (namespace.to_owned(), app.to_owned());
        self.state.lock().fans.insert(key, services.collect());
    }

    /// Counts and times anew from now on.
    pub fn reset(&self) {
        let mut state = self.state.lock();
        state.last_pod = None;
        state.books.iter_mut().for_each(Book::reset);
    }

    /// What was seen of this kind since.
    pub fn seen(&self, kind: Kind) -> Seen {
        let state = self.state.lock();
        let book = state.books.iter().find(|book| book.kind() == kind);
        book.map(Book::seen).unwrap_or_default()
    }

    /// The last change of a Pod since.
    pub fn last_pod(&self) -> Option<Instant> {
        self.state.lock().last_pod
    }

    /// Waits until exactly this many Services have objects, and these say what the Pods ask for. 0: until there are none.
    ///
    /// # Errors
    /// They do not in time, or the watch broke.
    pub async fn right(&self, services: usize, limit: Duration) -> Result<()> {
        let what = format!("{services} Services whose objects say what they should");
        self.until(&what, limit, |state| {
            let mut books = state.books.iter();
            books.all(|book| match services {
                0 => book.count() == 0,
                _ => book.is_right(services),
            })
        })
        .await
    }

    /// Pods known.
    pub fn pods(&self) -> usize {
        self.state.lock().pods.len()
    }

    /// Waits until all Pods of this many are known.
    ///
    /// # Errors
    /// As [`Observer::right`].
    pub async fn knows_pods(&self, count: usize, limit: Duration) -> Result<()> {
        self.until(&format!("{count} Pods"), limit, |state| state.pods.len() == count)
            .await
    }

    /// Waits until no event of an object has come for this long.
    ///
    /// # Errors
    /// As [`Observer::right`].
    pub async fn quiet(&self, quiet: Duration, limit: Duration) -> Result<()> {
        let since = Instant::now();
        self.until("no event", limit, |state| {
            let last = state.books.iter().filter_map(Book::last).max();
            last.map_or(since, |last| last.max(since)).elapsed() >= quiet
        })
        .await
    }

    async fn until(&self, what: &str, limit: Duration, done: impl Fn(&State) -> bool) -> Result<()> {
        let end = Instant::now() + limit;
        loop {
            {
                let state = self.state.lock();
                if let Some(failed) = &state.failed {
                    bail!("the observer failed: {failed}");
                }
                if done(&state) {
                    return Ok(());
                }
                if Instant::now() >= end {
                    let pods = state.pods.len();
                    let books = state.books.iter();
                    let books: Vec<String> = books
                        .map(|book| format!("{:?} of {}, wrong of {}", book.kind(), book.count(), book.wrong()))
                        .collect();
                    bail!("not within {limit:?}: {what} ({pods} Pods, {books:?})");
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl State {
    fn pod(&mut self, event: &Event<'_>, at: Instant) {
        let meta = &event.object.metadata;
        let key = (meta.namespace.to_owned(), meta.name.to_owned());
        let said = match event.kind {
            "DELETED" => Said::Nothing,
            _ => event.object.pod(),
        };
        let before = if event.kind == "DELETED" {
            self.pods.remove(&key)
        } else {
            self.pods.insert(key, said)
        };
        let app = meta.labels.as_ref().and_then(|labels| labels.app);
        let (Some(app), true) = (app, before.unwrap_or_default() != said) else {
            return;
        };
        self.last_pod = Some(at);
        let fan = self.fans.get(&(meta.namespace.to_owned(), app.to_owned()));
        let fan = fan.into_iter().flatten().map(String::as_str);
        for service in std::iter::once(app).chain(fan) {
            for book in &mut self.books {
                book.pod(meta.namespace, service, meta.name, said, at);
            }
        }
    }

    fn object(&mut self, kind: Kind, event: &Event<'_>, line: &[u8], at: Instant) {
        for book in self.books.iter_mut().filter(|book| book.kind() == kind) {
            book.object(event, line, at);
        }
    }
}
