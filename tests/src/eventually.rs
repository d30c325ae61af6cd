//! Waiting for the cluster, driven by watches.
//!
//! Each function takes an `Api` and a field selector (`""`: everything, `"metadata.name=web"`: one object) and hands the
//! matching objects, sorted by namespace and name, to a check whenever one of them changes. Errors say what was waited
//! for, why the check was not content and what it saw last.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use futures::stream::{BoxStream, StreamExt as _};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// The pause before a broken watch is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// How much of the objects goes into an error.
const SHOWN: usize = 6000;

/// What can be waited for.
pub trait Object: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static {}
impl<K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static> Object for K {}

/// Waits until the check accepts the objects, and returns what it makes of them.
///
/// # Errors
/// The check has not accepted anything before the deadline; with its last reason and the objects it saw last.
pub async fn eventually<K: Object, T>(
    what: &str,
    deadline: Duration,
    api: &Api<K>,
    fields: &str,
    check: impl Fn(&[K]) -> Result<T, String>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    let mut view = View::new(api, fields);
    let mut reason = "nothing was listed yet".to_string();
    while timeout_at(end, view.next()).await.is_ok() {
        match check(&view.objects()) {
            Ok(done) => return Ok(done),
            Err(why) => reason = why,
        }
    }
    Err(view.failure(&format!("{what}: not within {deadline:?}: {reason}")))
}

/// As [`eventually`], for the one object of this name, which may be absent.
///
/// # Errors
/// As [`eventually`].
pub async fn eventually_one<K: Object, T>(
    what: &str,
    deadline: Duration,
    api: &Api<K>,
    name: &str,
    check: impl Fn(Option<&K>) -> Result<T, String>,
) -> Result<T> {
    eventually(what, deadline, api, &format!("metadata.name={name}"), |objects| {
        check(objects.first())
    })
    .await
}

/// Waits until the object of this name is gone.
///
/// # Errors
/// It is still there at the deadline.
pub async fn eventually_gone<K: Object>(what: &str, deadline: Duration, api: &Api<K>, name: &str) -> Result<()> {
    eventually_one(what, deadline, api, name, |object| match object {
        None => Ok(()),
        Some(_) => Err(format!("{name} is still there")),
    })
    .await
}

/// Watches for the whole duration and requires that the check accepts the objects from the first list on.
///
/// # Errors
/// The check refused them at some moment.
pub async fn stays<K: Object>(
    what: &str,
    duration: Duration,
    api: &Api<K>,
    fields: &str,
    check: impl Fn(&[K]) -> Result<(), String>,
) -> Result<()> {
    let mut view = View::listed(what, api, fields).await?;
    let end = Instant::now() + duration;
    loop {
        if let Err(why) = check(&view.objects()) {
            return Err(view.failure(&format!("{what}: did not stay: {why}")));
        }
        if timeout_at(end, view.next()).await.is_err() {
            return Ok(());
        }
    }
}

/// Requires that no write changes any of the objects, creates one or deletes one for the whole duration.
///
/// # Errors
/// Something changed.
pub async fn never_changes<K: Object>(what: &str, duration: Duration, api: &Api<K>, fields: &str) -> Result<()> {
    let mut view = View::listed(what, api, fields).await?;
    let before = view.versions();
    let end = Instant::now() + duration;
    while timeout_at(end, view.next()).await.is_ok() {
        let now = view.versions();
        if now != before {
            return Err(view.failure(&format!("{what}: changed from {before:?} to {now:?}")));
        }
    }
    Ok(())
}

/// Waits until none of the objects has changed for `quiet`, and returns them.
///
/// # Errors
/// They still change at the deadline.
pub async fn settled<K: Object>(
    what: &str,
    quiet: Duration,
    deadline: Duration,
    api: &Api<K>,
    fields: &str,
) -> Result<Vec<K>> {
    let end = Instant::now() + deadline;
    let mut view = View::listed(what, api, fields).await?;
    loop {
        let silence = Instant::now() + quiet;
        if silence > end {
            return Err(view.failure(&format!("{what}: still changing after {deadline:?}")));
        }
        if timeout_at(silence, view.next()).await.is_err() {
            return Ok(view.objects());
        }
    }
}

/// The objects as the watch tells them.
struct View<K> {
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    objects: BTreeMap<(String, String), K>,
    /// Objects of a list that has not ended yet.
    listing: BTreeMap<(String, String), K>,
    last_error: Option<String>,
}

impl<K: Object> View<K> {
    fn new(api: &Api<K>, fields: &str) -> Self {
        let config = watcher::Config::default().fields(fields);
        let (objects, listing) = (BTreeMap::new(), BTreeMap::new());
        Self {
            events: watcher(api.clone(), config).boxed(),
            objects,
            listing,
            last_error: None,
        }
    }

    /// With the first list done, so that absence means absence.
    async fn listed(what: &str, api: &Api<K>, fields: &str) -> Result<Self> {
        const LIST: Duration = Duration::from_secs(30);
        let mut view = Self::new(api, fields);
        match timeout_at(Instant::now() + LIST, view.next()).await {
            Ok(()) => Ok(view),
            Err(_) => bail!(
                "{what}: no list within {LIST:?}: {}",
                view.last_error.unwrap_or_default()
            ),
        }
    }

    /// Returns after the next change, or the end of a list. Nothing is lost when it is dropped half-way.
    async fn next(&mut self) {
        loop {
            match self.events.next().await {
                Some(Ok(Event::Apply(object))) => {
                    self.objects.insert(key(&object), object);
                    return;
                }
                Some(Ok(Event::Delete(object))) => {
                    self.objects.remove(&key(&object));
                    return;
                }
                Some(Ok(Event::Init)) => self.listing.clear(),
                Some(Ok(Event::InitApply(object))) => {
                    self.listing.insert(key(&object), object);
                }
                Some(Ok(Event::InitDone)) => {
                    self.objects = std::mem::take(&mut self.listing);
                    return;
                }
                Some(Err(error)) => {
                    self.last_error = Some(error.to_string());
                    tokio::time::sleep(RETRY).await;
                }
                // The watcher never ends.
                None => std::future::pending().await,
            }
        }
    }

    fn objects(&self) -> Vec<K> {
        self.objects.values().cloned().collect()
    }

    fn versions(&self) -> BTreeMap<String, String> {
        let version = |object: &K| object.resource_version().unwrap_or_default();
        self.objects
            .iter()
            .map(|((namespace, name), object)| (format!("{namespace}/{name}"), version(object)))
            .collect()
    }

    fn failure(&self, summary: &str) -> anyhow::Error {
        let mut text = summary.to_string();
        if let Some(error) = &self.last_error {
            let _ = write!(text, "\nlast error of the watch: {error}");
        }
        let _ = write!(text, "\nlast seen, {} objects:", self.objects.len());
        for object in self.objects.values() {
            let mut object = object.clone();
            object.meta_mut().managed_fields = None;
            let _ = write!(
                text,
                "\n{}",
                serde_json::to_string(&object).unwrap_or_else(|error| error.to_string())
            );
        }
        if text.len() > SHOWN {
            text.truncate(text.floor_char_boundary(SHOWN));
            text.push_str("... (cut)");
        }
        anyhow!(text)
    }
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}
