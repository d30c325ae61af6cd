//! The loop: Pods in, one step at a time per Pod, several Pods at once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::addresses::{Addresses, Pin};
use super::status;
use super::step::{self, Ending, Known, Step};
use super::{Key, Node, Readiness};

/// Writes in flight at once.
const IN_FLIGHT: usize = 16;
/// Before a failed watch or write is tried again.
const PAUSE: Duration = Duration::from_millis(200);
const WRITE_DEADLINE: Duration = Duration::from_secs(10);

type PodEvents = SelectAll<BoxStream<'static, (usize, Result<Event<Pod>, watcher::Error>)>>;

struct Tracked {
    pod: Pod,
    terminating_since: Option<Instant>,
    /// The step last done on this resourceVersion: its echo has not come yet.
    done: Option<(Option<String>, Step)>,
    /// Which of the watches brings it.
    watch: usize,
    /// Named by the list that is coming in.
    listed: bool,
}

pub(super) struct Loop {
    pub client: Client,
    /// Empty: all.
    pub namespaces: Vec<String>,
    pub nodes: Vec<Node>,
    pub avoid_cordoned: bool,
    pub ending: Ending,
    pub pins: Vec<Pin>,
    pub addresses: Addresses,
    pub failing: Readiness,
    /// Pods whose readiness a test has just changed.
    pub nudges: mpsc::Receiver<Key>,
}

struct State {
    config: Loop,
    pods: HashMap<Key, Tracked>,
    queue: VecDeque<Key>,
    queued: HashSet<Key>,
    busy: HashSet<Key>,
    bound: usize,
}

/// Runs until it is dropped.
pub(super) async fn run(config: Loop) {
    let apis = if config.namespaces.is_empty() {
        vec![Api::<Pod>::all(config.client.clone())]
    } else {
        config
            .namespaces
            .iter()
            .map(|n| Api::namespaced(config.client.clone(), n))
            .collect()
    };
    let mut events: PodEvents = SelectAll::new();
    for (index, api) in apis.into_iter().enumerate() {
        events.push(
            watcher::watcher(api, watcher::Config::default())
                .map(move |e| (index, e))
                .boxed(),
        );
    }
    let mut state = State {
        config,
        pods: HashMap::new(),
        queue: VecDeque::new(),
        queued: HashSet::new(),
        busy: HashSet::new(),
        bound: 0,
    };
    let mut writes = FuturesUnordered::new();
    loop {
        while writes.len() < IN_FLIGHT
            && let Some(write) = state.next_write()
        {
            writes.push(write);
        }
        let wake = state.next_end();
        tokio::select! {
            Some((watch, event)) = events.next() => match event {
                Ok(event) => state.take(watch, event),
                // Such as an apiserver that restarts; the watcher goes on from where it was.
                Err(_) => sleep(PAUSE).await,
            },
            Some(key) = state.config.nudges.recv() => state.enqueue(key),
            Some(done) = writes.next(), if !writes.is_empty() => state.finish(done),
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => state.enqueue_ended(),
            else => return,
        }
    }
}

/// A write that is over: the Pod, and whether it must be tried again.
type Done = (Key, bool);

impl State {
    fn enqueue(&mut self, key: Key) {
        if self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    fn take(&mut self, watch: usize, event: Event<Pod>) {
        match event {
            Event::Init => {
                for tracked in self.pods.values_mut().filter(|t| t.watch == watch) {
                    tracked.listed = false;
                }
            }
            Event::InitApply(pod) | Event::Apply(pod) => self.apply(watch, pod),
            Event::Delete(pod) => self.forget(&key_of(&pod)),
            Event::InitDone => {
                let gone = self.pods.iter().filter(|(_, t)| t.watch == watch && !t.listed);
                let gone: Vec<Key> = gone.map(|(k, _)| k.clone()).collect();
                for key in gone {
                    self.forget(&key);
                }
            }
        }
    }

    fn apply(&mut self, watch: usize, pod: Pod) {
        let key = key_of(&pod);
        if self
            .pods
            .get(&key)
            .is_some_and(|t| t.pod.metadata.uid != pod.metadata.uid)
        {
            self.forget(&key);
        }
        let ours = pod
            .spec
            .as_ref()
            .and_then(|s| s.node_name.as_deref())
            .is_some_and(|n| self.is_ours(n));
        if ours && let Some(status) = &pod.status {
            let ips = status.pod_ips.iter().flatten().filter_map(|ip| ip.ip.parse().ok());
            let ips: Vec<IpAddr> = ips.collect();
            if !ips.is_empty() {
                self.config.addresses.adopt(&key, ips);
            }
        }
        let known = self.pods.remove(&key);
        let since = known.as_ref().and_then(|t| t.terminating_since);
        let since = pod
            .metadata
            .deletion_timestamp
            .as_ref()
            .map(|_| since.unwrap_or_else(Instant::now));
        let tracked = Tracked {
            pod,
            terminating_since: since,
            done: known.and_then(|t| t.done),
            watch,
            listed: true,
        };
        self.pods.insert(key.clone(), tracked);
        self.enqueue(key);
    }

    fn forget(&mut self, key: &Key) {
        self.pods.remove(key);
        self.config.addresses.release(key, &self.config.pins);
        self.config.failing.forget(key);
    }

    fn is_ours(&self, node: &str) -> bool {
        self.config.nodes.iter().any(|n| n.name == node)
    }

    /// When the next terminating Pod's containers are gone.
    fn next_end(&self) -> Option<Instant> {
        self.ends().map(|(_, at)| at).min()
    }

    fn enqueue_ended(&mut self) {
        let now = Instant::now();
        let ended: Vec<Key> = self
            .ends()
            .filter(|(_, at)| *at <= now)
            .map(|(k, _)| k.clone())
            .collect();
        for key in ended {
            self.enqueue(key);
        }
    }

    /// Terminating Pods of ours that are not being removed yet.
    fn ends(&self) -> impl Iterator<Item = (&Key, Instant)> {
        let removing = |t: &Tracked| t.done.as_ref().is_some_and(|(_, step)| *step == Step::Remove);
        self.pods
            .iter()
            .filter(move |(k, t)| !removing(t) && !self.busy.contains(*k) && !self.queued.contains(*k))
            .filter_map(|(key, t)| {
                let node = t.pod.spec.as_ref()?.node_name.as_deref()?;
                let since = t.terminating_since.filter(|_| self.is_ours(node))?;
                Some((key, step::end_of(&t.pod, since, self.config.ending)))
            })
    }

    fn next_write(&mut self) -> Option<impl Future<Output = Done> + use<>> {
        for _ in 0..self.queue.len() {
            let key = self.queue.pop_front()?;
            if self.busy.contains(&key) {
                self.queue.push_back(key);
                continue;
            }
            self.queued.remove(&key);
            if let Some(write) = self.write(&key) {
                self.busy.insert(key);
                return Some(write);
            }
        }
        None
    }

    fn write(&mut self, key: &Key) -> Option<impl Future<Output = Done> + use<>> {
        let tracked = self.pods.get(key)?;
        let known = Known {
            terminating_since: tracked.terminating_since,
            failing: self.config.failing.fails(key),
        };
        let step = step::next(&tracked.pod, known, self.config.ending, Instant::now(), |n| {
            self.is_ours(n)
        });
        let mark = Some((tracked.pod.resource_version(), step.clone()));
        if step == Step::Nothing || tracked.done == mark {
            return None;
        }
        let request = self.request(key, &step)?;
        if let Some(tracked) = self.pods.get_mut(key) {
            tracked.done = mark;
        }
        let api = Api::<Pod>::namespaced(self.config.client.clone(), &key.0);
        let key = key.clone();
        Some(async move {
            let sent = timeout(WRITE_DEADLINE, request.send(&api, &key.1)).await;
            let again = match sent {
                Ok(Ok(done)) => {
                    if !done {
                        sleep(PAUSE).await;
                    }
                    !done
                }
                // Deleted or changed meanwhile: the watch tells.
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => false,
                _ => {
                    sleep(PAUSE).await;
                    true
                }
            };
            (key, again)
        })
    }

    fn request(&mut self, key: &Key, step: &Step) -> Option<Request> {
        let tracked = self.pods.get(key)?;
        let pod = &tracked.pod;
        Some(match step {
            Step::Nothing => return None,
            Step::Bind => {
                let mut names: Vec<String> = self.config.nodes.iter().map(|node| node.name.clone()).collect();
                let first = self.bound % names.len();
                names.rotate_left(first);
                self.bound += 1;
                if !self.config.avoid_cordoned {
                    names.truncate(1);
                }
                Request::Bind(names)
            }
            Step::Run => {
                let spec = pod.spec.as_ref()?;
                let node = self
                    .config
                    .nodes
                    .iter()
                    .find(|n| Some(&n.name) == spec.node_name.as_ref())?;
                let addresses = if spec.host_network == Some(true) {
                    vec![node.address]
                } else {
                    // Used up: the Pod stays Pending, as on a real Node.
                    self.config.addresses.of(key).ok()?
                };
                let failing = self.config.failing.fails(key);
                Request::Status(status::running(pod, node.address, &addresses, !failing))
            }
            Step::Ready(ready) => Request::Status(status::readiness(pod, *ready)),
            Step::Remove => Request::Remove(pod.metadata.uid.clone()),
        })
    }

    fn finish(&mut self, (key, again): Done) {
        self.busy.remove(&key);
        if again && let Some(tracked) = self.pods.get_mut(&key) {
            tracked.done = None;
            self.enqueue(key);
        }
    }
}

enum Request {
    /// To the first of these that is not cordoned; if there is only one, to that one.
    Bind(Vec<String>),
    Status(Value),
    Remove(Option<String>),
}

impl Request {
    /// Returns whether that was possible now.
    async fn send(self, api: &Api<Pod>, name: &str) -> kube::Result<bool> {
        let sent = match self {
            Self::Bind(mut nodes) => {
                if nodes.len() > 1 {
                    let all: Api<k8s_openapi::api::core::v1::Node> = Api::all(api.clone().into_client());
                    let stored = all.list(&ListParams::default()).await?.items;
                    let cordoned = |name: &String| {
                        let node = stored.iter().find(|it| it.name_any() == *name);
                        node.and_then(|it| it.spec.as_ref()?.unschedulable) == Some(true)
                    };
                    nodes.retain(|name| !cordoned(name));
                }
                let Some(node) = nodes.into_iter().next() else {
                    return Ok(false);
                };
                let binding = Binding {
                    metadata: ObjectMeta {
                        name: Some(name.to_owned()),
                        ..ObjectMeta::default()
                    },
                    target: ObjectReference {
                        kind: Some("Node".to_owned()),
                        name: Some(node),
                        ..ObjectReference::default()
                    },
                };
                let params = PostParams::default();
                api.create_subresource::<_, Value>("binding", name, &params, &binding)
                    .await
                    .map(drop)
            }
            Self::Status(patch) => {
                let params = PatchParams::default();
                api.patch_status(name, &params, &Patch::Strategic(patch))
                    .await
                    .map(drop)
            }
            Self::Remove(uid) => {
                let params = DeleteParams::default().grace_period(0).preconditions(Preconditions {
                    uid,
                    resource_version: None,
                });
                api.delete(name, &params).await.map(drop)
            }
        };
        sent.map(|()| true)
    }
}

fn key_of(pod: &Pod) -> Key {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}
