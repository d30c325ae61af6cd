//! Faults of watches, and of everything one client says.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Endpoints;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use svcplane_tests::cluster;
use svcplane_tests::proxy::{Action, Match, Outcome, Refusal, Times, WatchEnd};
use tokio::time::timeout;

use super::rig::{Ended, RawReader, Rig, SOON};

/// Long enough that an event which is not held back would have come.
const QUIET: Duration = Duration::from_millis(500);

type Event = Result<WatchEvent<Endpoints>, kube::Error>;

async fn watch(api: &Api<Endpoints>) -> impl Stream<Item = Event> + Unpin + use<> {
    api.watch(&WatchParams::default().disable_bookmarks(), "0")
        .await
        .unwrap()
        .boxed()
}

/// The label value of the next event.
async fn next(events: &mut (impl Stream<Item = Event> + Unpin)) -> String {
    match timeout(SOON, events.next())
        .await
        .expect("an event within the deadline")
    {
        Some(Ok(WatchEvent::Added(o) | WatchEvent::Modified(o))) => o
            .metadata
            .labels
            .and_then(|mut l| l.remove("value"))
            .unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

async fn quiet(events: &mut (impl Stream<Item = Event> + Unpin)) {
    if let Ok(event) = timeout(QUIET, events.next()).await {
        panic!("not silent: {event:?}");
    }
}

#[tokio::test]
async fn delayed_events_come_late_and_in_order() {
    const BY: Duration = Duration::from_secs(1);
    let rig = Rig::new("w-delay").await;
    rig.create("web").await;
    let mut events = watch(&rig.through).await;
    let mut prompt = watch(&rig.direct).await;
    next(&mut events).await;
    next(&mut prompt).await;
    rig.proxy
        .rule(Match::watches("endpoints"), Action::DelayEvents(BY), Times::Always);
    let started = Instant::now();
    for value in ["1", "2", "3"] {
        rig.label("web", value).await;
        assert_eq!(next(&mut prompt).await, value);
    }
    let written = started.elapsed();
    for value in ["1", "2", "3"] {
        assert_eq!(next(&mut events).await, value);
        assert!(started.elapsed() >= BY, "{value} came after {:?}", started.elapsed());
    }
    assert!(
        started.elapsed() < written + BY * 2,
        "the delays add up: {:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_silent_watch_stays_open_and_silent() {
    let rig = Rig::new("w-silent").await;
    rig.create("web").await;
    let mut events = watch(&rig.through).await;
    next(&mut events).await;
    let rule = rig
        .proxy
        .rule(Match::watches("endpoints"), Action::Silence, Times::Always);
    rig.label("web", "1").await;
    rule.wait_hits(1, SOON).await.unwrap();
    quiet(&mut events).await;
    rule.remove();
    rig.label("web", "2").await;
    quiet(&mut events).await;
    assert_eq!(rig.proxy.open_watches(&Match::watches("endpoints")), 1);
    let mut second = watch(&rig.through).await;
    assert_eq!(next(&mut second).await, "2", "a new watch speaks");
}

#[tokio::test]
async fn a_partition_holds_everything_of_one_client_until_it_heals() {
    let rig = Rig::new("w-hold").await;
    rig.create("web").await;
    let (left, right) = (rig.agent("left/1"), rig.agent("right/1"));
    let (mut of_left, mut of_right) = (watch(&left).await, watch(&right).await);
    next(&mut of_left).await;
    next(&mut of_right).await;
    let partition = rig.proxy.partition("left/");
    for value in ["1", "2"] {
        rig.label("web", value).await;
        assert_eq!(next(&mut of_right).await, value);
    }
    let mut get = tokio::spawn(async move { left.get("web").await });
    quiet(&mut of_left).await;
    assert!(
        timeout(QUIET, &mut get).await.is_err(),
        "a request crossed the partition"
    );
    partition.remove();
    assert_eq!(next(&mut of_left).await, "1");
    assert_eq!(next(&mut of_left).await, "2");
    timeout(SOON, get).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_client_is_cut_off_alone() {
    let rig = Rig::new("w-cut").await;
    rig.create("web").await;
    let (left, right) = (rig.agent("left/1"), rig.agent("right/1"));
    let (mut of_left, mut of_right) = (watch(&left).await, watch(&right).await);
    next(&mut of_left).await;
    next(&mut of_right).await;
    let cut = rig.proxy.cut_off("left/");
    let broken = timeout(SOON, of_left.next()).await.unwrap();
    assert!(matches!(broken, Some(Err(_))), "{broken:?}");
    assert!(left.get("web").await.is_err());
    rig.label("web", "1").await;
    assert_eq!(next(&mut of_right).await, "1");
    right.get("web").await.unwrap();
    cut.remove();
    left.get("web").await.unwrap();
}

/// How a watch ends, seen from the socket: (end, text that must be the last, whether the body is complete).
#[tokio::test]
async fn watches_end_as_told() {
    let rig = Rig::new("w-ends").await;
    rig.create("web").await;
    let complete = "\r\n0\r\n\r\n";
    let table = [
        (WatchEnd::Close, Ended::Open, true),
        (WatchEnd::Fin, Ended::Fin, false),
        (WatchEnd::Reset, Ended::Reset, false),
        (WatchEnd::MidEvent, Ended::Fin, false),
        (WatchEnd::Error(Refusal::expired()), Ended::Open, true),
    ];
    let watches = Match::watches("endpoints");
    for (end, ended, whole) in table {
        let mut raw = RawReader::get(&rig.proxy, &rig.path("?watch=1&resourceVersion=0")).await;
        let first = raw
            .read_until(SOON, |text| text.contains("\"ADDED\"") && text.ends_with('\n'))
            .await;
        assert_eq!(first.ended, Ended::Found);
        assert_eq!(rig.proxy.open_watches(&watches), 1, "{end:?}");
        assert_eq!(rig.proxy.end_watches(&watches, &end), 1);
        if end == WatchEnd::MidEvent {
            rig.label("web", "half").await;
        }
        let quiet = if whole { QUIET } else { SOON };
        let last = raw.read_until(quiet, |_| false).await;
        assert_eq!(last.ended, ended, "{end:?}: {}", last.text);
        assert_eq!(last.text.ends_with(complete), whole, "{end:?}: {}", last.text);
        let more = &last.text[first.text.len()..];
        match end {
            WatchEnd::MidEvent => {
                assert!(more.contains("\"MODIFIED\"") && !more.contains("}}\n"), "{more}");
            }
            WatchEnd::Error(_) => {
                assert!(
                    more.contains("\"ERROR\"") && more.contains("\"Expired\"") && more.contains("410"),
                    "{more}"
                );
            }
            _ => assert!(!more.contains("\"type\""), "{end:?}: {more}"),
        }
        let closed = rig
            .proxy
            .wait_requests(&watches, SOON, |r| r.iter().all(|r| r.outcome != Outcome::Pending));
        let outcome = if whole { Outcome::Delivered } else { Outcome::Lost };
        assert_eq!(closed.await.unwrap().last().unwrap().outcome, outcome, "{end:?}");
        assert_eq!(rig.proxy.open_watches(&watches), 0);
    }
}

#[tokio::test]
async fn a_rule_ends_new_watches_after_n_events_and_410_comes_as_an_event() {
    let rig = Rig::new("w-after").await;
    rig.create("web").await;
    let how = WatchEnd::Error(Refusal::expired());
    rig.proxy.rule(
        Match::watches("endpoints"),
        Action::EndWatch { after: 2, how },
        Times::First(1),
    );
    let mut events = watch(&rig.through).await;
    next(&mut events).await;
    rig.label("web", "1").await;
    assert_eq!(next(&mut events).await, "1");
    match timeout(SOON, events.next()).await.unwrap() {
        Some(Ok(WatchEvent::Error(status))) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("{other:?}"),
    }
    assert!(
        timeout(SOON, events.next()).await.unwrap().is_none(),
        "then the stream ends"
    );
    let mut second = watch(&rig.through).await;
    assert_eq!(next(&mut second).await, "1");
    rig.label("web", "2").await;
    assert_eq!(next(&mut second).await, "2");
    rig.label("web", "3").await;
    assert_eq!(next(&mut second).await, "3", "the second watch goes on");
}

#[tokio::test]
async fn refused_lost_and_hung_watches_never_start() {
    let rig = Rig::new("w-start").await;
    rig.create("web").await;
    let watches = || Match::watches("endpoints");
    rig.proxy
        .rule(watches(), Action::Refuse(Refusal::expired()), Times::First(1));
    rig.proxy.rule(watches(), Action::LoseReply, Times::First(1));
    rig.proxy.rule(watches(), Action::Hang, Times::First(1));
    let path = rig.path("?watch=1&resourceVersion=0");
    let refused = rig.raw_get(&path, QUIET).await;
    assert!(refused.text.starts_with("HTTP/1.1 410 "), "{}", refused.text);
    let lost = rig.raw_get(&path, SOON).await;
    assert_eq!((lost.ended, lost.text.as_str()), (Ended::Reset, ""));
    let hung = rig.raw_get(&path, QUIET).await;
    assert_eq!((hung.ended, hung.text.as_str()), (Ended::Open, ""));
    let mut fourth = watch(&rig.through).await;
    next(&mut fourth).await;
}

#[tokio::test]
async fn watches_in_protobuf_are_cut_into_events_too() {
    let rig = Rig::new("w-protobuf").await;
    rig.create("web").await;
    let request = || {
        http::Request::get(rig.path("?watch=1&resourceVersion=0"))
            .header("accept", "application/vnd.kubernetes.protobuf;stream=watch")
            .body(Vec::new())
            .unwrap()
    };
    let client = rig.proxy.client(cluster::shared().admin_token()).unwrap();
    for (after, passed) in [(0, "ERROR"), (1, "ADDED")] {
        let how = WatchEnd::Error(Refusal::expired());
        let rule = rig.proxy.rule(
            Match::watches("endpoints"),
            Action::EndWatch { after, how },
            Times::First(1),
        );
        let response = client.send(request().map(kube::client::Body::from)).await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "application/vnd.kubernetes.protobuf;stream=watch"
        );
        let body = timeout(SOON, response.into_body().collect_bytes())
            .await
            .unwrap()
            .unwrap();
        let length = u32::from_be_bytes(*body.first_chunk().unwrap()) as usize;
        let first = String::from_utf8_lossy(&body[4..4 + length]).into_owned();
        assert!(first.contains(passed), "{first:?}");
        let last = String::from_utf8_lossy(&body).into_owned();
        assert!(last.contains("ERROR") && last.contains("Expired"), "{last:?}");
        assert_eq!(rule.hits(), 1);
    }
}
