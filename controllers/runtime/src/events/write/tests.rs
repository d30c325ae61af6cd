//! The writer under paused time, against a server that remembers what it was sent and answers as told.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::*;
use crate::events::{EventSink, EventType, Regarding, queue};
use crate::metrics::BuildInfo;

/// The answer to the next calls, by method: a status, or none at all.
type Answers = Arc<Mutex<Vec<(Method, Option<u16>)>>>;

struct Rig {
    metrics: Metrics,
    sink: EventSink,
    sent: Arc<Mutex<Vec<(Method, String, Value)>>>,
    answers: Answers,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn rig() -> Rig {
    let metrics = Metrics::new(
        Registry::new(),
        BuildInfo {
            version: "0",
            kubernetes: "1.37",
        },
    )
    .unwrap();
    let (sink, waiting) = queue(&metrics);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let answers = Answers::default();
    let (log, script) = (sent.clone(), answers.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, script) = (log.clone(), script.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
            log.lock()
                .push((parts.method.clone(), parts.uri.path().to_owned(), body.clone()));
            let next = {
                let mut script = script.lock();
                let next = script.iter().position(|(method, _)| *method == parts.method);
                next.map(|next| script.remove(next).1)
            };
            let code = match next {
                Some(None) => std::future::pending().await,
                Some(Some(code)) => code,
                None => 201,
            };
            let answer = if code < 300 {
                body
            } else {
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": "", "message": "no"})
            };
            Ok::<_, std::io::Error>(
                Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()))
                    .unwrap(),
            )
        }
    });
    let client = Client::new(service, "svcplane");
    let stop = CancellationToken::new();
    let writer = EventWriter::new(client, waiting, "svcplane-0_1f", &metrics);
    let task = tokio::spawn(writer.run(stop.clone()));
    Rig {
        metrics,
        sink,
        sent,
        answers,
        stop,
        task,
    }
}

impl Rig {
    /// Waits until everything emitted has been dealt with, and a call without an answer has run into its limit.
    async fn settled(&self) {
        tokio::time::sleep(Duration::from_secs(20)).await;
    }

    fn dropped(&self, reason: &'static str) -> u64 {
        self.metrics.events_dropped(reason).get()
    }

    fn sent(&self) -> Vec<(Method, String, Value)> {
        self.sent.lock().clone()
    }
}

fn event(name: &str, note: &str) -> Event {
    Event {
        regarding: Regarding {
            api_version: "v1",
            kind: "Endpoints",
            namespace: "marsh".to_owned(),
            name: name.to_owned(),
            uid: "u-1".to_owned(),
        },
        event_type: EventType::Warning,
        reason: "FailedToUpdateEndpoint",
        action: "Update",
        note: note.to_owned(),
        controller: "endpoint-controller",
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_created_once_and_then_counted() {
    let rig = rig();
    for _ in 0..3 {
        rig.sink.emit(event("reed", "refused"));
    }
    rig.settled().await;
    let sent = rig.sent();
    let [(create, path, object), (patch, patched, series), (_, _, last)] = sent.as_slice() else {
        panic!("{sent:?}")
    };
    assert_eq!(
        (create, path.as_str()),
        (&Method::POST, "/apis/events.k8s.io/v1/namespaces/marsh/events")
    );
    assert_eq!(object["type"], "Warning");
    assert_eq!(object["reason"], "FailedToUpdateEndpoint");
    assert_eq!(object["action"], "Update");
    assert_eq!(object["note"], "refused");
    assert_eq!(object["reportingController"], "endpoint-controller");
    assert_eq!(object["reportingInstance"], "svcplane-0_1f");
    let regarding =
        json!({"apiVersion": "v1", "kind": "Endpoints", "namespace": "marsh", "name": "reed", "uid": "u-1"});
    assert_eq!(object["regarding"], regarding);
    assert_eq!(
        object["eventTime"].as_str().unwrap().len(),
        "2026-01-01T00:00:00.000000Z".len()
    );
    let name = object["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("reed."), "{name}");
    assert_eq!(
        (patch, patched.as_str()),
        (&Method::PATCH, format!("{path}/{name}").as_str())
    );
    assert_eq!(
        (&series["series"]["count"], &last["series"]["count"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(series.as_object().unwrap().len(), 1, "everything else is immutable");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_created_again() {
    let rig = rig();
    rig.sink.emit(event("reed", "refused"));
    rig.answers.lock().push((Method::PATCH, Some(404)));
    rig.sink.emit(event("reed", "refused"));
    rig.settled().await;
    let methods: Vec<_> = rig.sent().into_iter().map(|(method, ..)| method).collect();
    assert_eq!(methods, [Method::POST, Method::PATCH, Method::POST]);
    assert_eq!((rig.dropped("refused"), rig.dropped("failed")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_fails_or_hangs_is_dropped_and_counted() {
    let rig = rig();
    // A namespace that is being deleted or gone; an error; silence. Afterwards all is well.
    for answer in [Some(403), Some(404), Some(500), None] {
        rig.answers.lock().push((Method::POST, answer));
    }
    for name in ["a", "b", "c", "d", "e"] {
        rig.sink.emit(event(name, "refused"));
    }
    rig.settled().await;
    assert_eq!((rig.dropped("refused"), rig.dropped("failed")), (2, 2));
    assert_eq!(rig.sent().len(), 5, "none was tried twice");
    rig.sink.emit(event("e", "refused"));
    rig.settled().await;
    assert_eq!(rig.sent().last().unwrap().0, Method::PATCH, "the last one was written");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_never_waits() {
    let rig = rig();
    rig.answers.lock().push((Method::POST, None));
    for number in 0..2000 {
        rig.sink.emit(event(&number.to_string(), "refused"));
    }
    assert_eq!(rig.dropped("queue_full"), 1000);
    rig.settled().await;
    assert!(rig.dropped("rate_limited") > 800, "{}", rig.dropped("rate_limited"));
}

#[tokio::test(start_paused = true)]
async fn stopping_writes_what_waits_but_not_for_long() {
    let rig = self::rig();
    rig.sink.emit(event("a", "refused"));
    rig.sink.emit(event("b", "refused"));
    rig.stop.cancel();
    rig.task.await.unwrap();
    assert_eq!(rig.sent.lock().len(), 2);

    let rig = self::rig();
    rig.answers.lock().push((Method::POST, None));
    rig.sink.emit(event("a", "refused"));
    rig.stop.cancel();
    let start = Instant::now();
    rig.task.await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn names_and_notes_fit_the_apiservers_limits() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_204_817_309);
    let long = Event {
        note: "\u{e9}".repeat(1000),
        ..event(&format!("{}.{}", "a".repeat(235), "b".repeat(17)), "")
    };
    let object = super::object(&long, "i", time);
    let name = object.metadata.name.unwrap();
    assert!(name.len() <= 253, "{name}");
    assert!(name.ends_with("a.17979cfe425f439d"), "{name}");
    let note = object.note.unwrap();
    assert_eq!((note.len(), note.chars().count()), (1024, 512));
    let cluster = Event {
        regarding: Regarding {
            namespace: String::new(),
            ..long.regarding
        },
        ..long
    };
    assert_eq!(
        super::object(&cluster, "i", time).metadata.namespace.as_deref(),
        Some("default")
    );
}
