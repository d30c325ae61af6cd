//! One open watch: takes the server's events, asks the rules about each, and hands them on in order.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::Stream;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::{Fate, SETTLE};
use super::request::ApiRequest;
use super::rule::{Action, Rules, WatchEnd};
use super::upstream::ServerBody;
use super::wire::{Encoding, EventCutter, error_event, garbage};

/// Events held back or delayed per watch; beyond that the server is not read.
const MAX_QUEUED: usize = 100_000;

/// Reply body broken off on purpose, or because the server broke it off.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

enum Item {
    Event(Bytes),
    /// The server ended the stream: completely, or not.
    End {
        complete: bool,
    },
}

struct Queued {
    item: Item,
    due: Instant,
    held_by: Option<u64>,
}

pub(super) struct WatchStream {
    pub request: ApiRequest,
    pub encoding: Encoding,
    pub rules: Arc<Rules>,
    pub fate: Arc<Fate>,
    /// Ends asked for from outside (`FaultProxy::end_watches`).
    pub orders: mpsc::Receiver<WatchEnd>,
    /// An end that a rule set when the watch began, and the events that pass before it.
    pub planned: Option<(u64, WatchEnd)>,
    server: ServerBody,
    cutter: EventCutter,
    queue: VecDeque<Queued>,
    server_done: bool,
    silent: bool,
    passed: u64,
}

enum Step {
    Wait,
    Emit(Bytes),
    /// The reply ends here, completely.
    Close,
    /// The connection is closed here.
    Break,
}

impl WatchStream {
    pub(super) fn new(
        request: ApiRequest,
        encoding: Encoding,
        rules: Arc<Rules>,
        fate: Arc<Fate>,
        orders: mpsc::Receiver<WatchEnd>,
        planned: Option<(u64, WatchEnd)>,
        server: ServerBody,
    ) -> Self {
        Self {
            request,
            encoding,
            rules,
            fate,
            orders,
            planned,
            server,
            cutter: EventCutter::new(encoding),
            queue: VecDeque::new(),
            server_done: false,
            silent: false,
            passed: 0,
        }
    }

    /// The client's body.
    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Frame<Bytes>, BodyError>> + Send {
        futures::stream::unfold(Some((self, VecDeque::new())), |state| async move {
            let (mut watch, mut left) = state?;
            if let Some(step) = left.pop_front() {
                return watch.finish(step, left).await;
            }
            let mut steps = watch.next().await;
            let first = steps.pop_front()?;
            left.append(&mut steps);
            watch.finish(first, left).await
        })
    }

    async fn finish(
        self,
        step: Step,
        left: VecDeque<Step>,
    ) -> Option<(Result<Frame<Bytes>, BodyError>, Option<(Self, VecDeque<Step>)>)> {
        match step {
            Step::Emit(bytes) => Some((Ok(Frame::data(bytes)), Some((self, left)))),
            Step::Close | Step::Wait => None,
            Step::Break => {
                // What was emitted before must reach the socket first.
                sleep(SETTLE).await;
                Some((Err("watch broken off".into()), None))
            }
        }
    }

    async fn next(&mut self) -> VecDeque<Step> {
        loop {
            if let Some((after, how)) = self.planned.clone()
                && self.passed >= after
                && how != WatchEnd::MidEvent
            {
                return self.end(&how);
            }
            match self.front() {
                Step::Wait => {}
                Step::Emit(event) => {
                    if let Some((after, WatchEnd::MidEvent)) = &self.planned
                        && self.passed >= *after
                    {
                        let half = event.slice(..event.len() / 2);
                        return [Step::Emit(half), Step::Break].into();
                    }
                    self.passed += 1;
                    return [Step::Emit(event)].into();
                }
                end => return [end].into(),
            }
            let due = self.queue.front().filter(|q| q.held_by.is_none()).map(|q| q.due);
            let held_by = self.queue.front().and_then(|q| q.held_by);
            tokio::select! {
                frame = self.server.incoming.frame(), if !self.server_done && self.queue.len() < MAX_QUEUED => {
                    self.take(frame);
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                () = self.rules.removed(held_by.unwrap_or_default()), if held_by.is_some() => {
                    if let Some(front) = self.queue.front_mut() {
                        front.held_by = None;
                    }
                }
                Some(how) = self.orders.recv() => {
                    if how == WatchEnd::MidEvent {
                        self.planned = Some((self.passed, how));
                    } else {
                        return self.end(&how);
                    }
                }
                // Silent with a server that has ended: nothing can happen until the client leaves.
                else => std::future::pending().await,
            }
        }
    }

    /// What the head of the queue allows now.
    fn front(&mut self) -> Step {
        let ready = |q: &Queued| q.held_by.is_none() && q.due <= Instant::now();
        if !self.queue.front().is_some_and(ready) {
            return Step::Wait;
        }
        match self.queue.pop_front().map(|q| q.item) {
            Some(Item::Event(event)) => Step::Emit(event),
            Some(Item::End { complete: true }) => Step::Close,
            Some(Item::End { complete: false }) => Step::Break,
            None => Step::Wait,
        }
    }

    fn take(&mut self, frame: Option<Result<Frame<Bytes>, hyper::Error>>) {
        let items: Vec<Item> = match frame {
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                self.cutter.push(&data).into_iter().map(Item::Event).collect()
            }
            ended => {
                self.server_done = true;
                let rest = self.cutter.take_rest();
                let rest = (!rest.is_empty()).then_some(Item::Event(rest));
                let complete = ended.is_none();
                rest.into_iter().chain([Item::End { complete }]).collect()
            }
        };
        for item in items {
            self.queue_item(item);
        }
    }

    fn queue_item(&mut self, mut item: Item) {
        if self.silent {
            return;
        }
        let (mut due, mut held_by) = (Instant::now(), None);
        match self.rules.for_event(&self.request) {
            Some((_, Action::Silence)) => {
                self.silent = true;
                return;
            }
            Some((_, Action::DelayEvents(by))) => due += by,
            Some((_, Action::DropEvents)) => return,
            Some((_, Action::GarbleEvents)) => item = Item::Event(garbage(self.encoding)),
            Some((id, _)) => held_by = Some(id),
            None => {}
        }
        self.queue.push_back(Queued { item, due, held_by });
    }

    fn end(&self, how: &WatchEnd) -> VecDeque<Step> {
        match how {
            WatchEnd::Close => [Step::Close].into(),
            WatchEnd::Fin | WatchEnd::MidEvent => [Step::Break].into(),
            WatchEnd::Reset => {
                self.fate.reset_on_close();
                [Step::Break].into()
            }
            WatchEnd::Error(refusal) => {
                let event = error_event(self.encoding, refusal, &self.request);
                [Step::Emit(event), Step::Close].into()
            }
        }
    }
}
