//! What no server should say, replies that wait for a word, and lists in small pages.

use futures::StreamExt;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use svcplane_tests::proxy::{Action, Match, Outcome, Record, Refusal, Times};
use tokio::time::timeout;

use super::rig::{Rig, SOON, endpoints};

#[tokio::test]
async fn a_garbled_reply_hides_what_the_server_did() {
    let rig = Rig::new("garble").await;
    rig.proxy.rule(Match::any(), Action::GarbleReply, Times::First(1));
    let error = rig
        .through
        .create(&PostParams::default(), &endpoints("web"))
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::SerdeError(_)), "{error:?}");
    rig.direct.get("web").await.unwrap();
    let records = rig.proxy.requests(&Match::writes("endpoints"));
    assert_eq!(
        (records[0].outcome, records[0].changed, records[0].status),
        (Outcome::Lost, Some(true), Some(201))
    );

    rig.proxy
        .rule(Match::lists("endpoints"), Action::GarbleReply, Times::First(1));
    let error = rig.through.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(error, kube::Error::SerdeError(_)), "{error:?}");

    rig.proxy
        .rule(Match::watches("endpoints"), Action::GarbleReply, Times::First(1));
    let mut events = rig.through.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let first = timeout(SOON, events.next()).await.unwrap();
    assert!(matches!(first, Some(Err(kube::Error::SerdeError(_)))), "{first:?}");
    assert!(timeout(SOON, events.next()).await.unwrap().is_none(), "it ends");
}

#[tokio::test]
async fn one_event_is_garbled_or_dropped_and_the_next_one_comes() {
    let rig = Rig::new("w-garble").await;
    rig.create("web").await;
    let params = WatchParams::default().disable_bookmarks();
    let mut events = rig.through.watch(&params, "0").await.unwrap().boxed();
    let mut next = async || timeout(SOON, events.next()).await.unwrap();
    next().await;
    let value = |event: Option<kube::Result<WatchEvent<_>>>| match event {
        Some(Ok(WatchEvent::Modified(object))) => {
            let object: k8s_openapi::api::core::v1::Endpoints = object;
            object.metadata.labels.unwrap()["value"].clone()
        }
        other => panic!("{other:?}"),
    };
    let watch = Match::watches("endpoints");
    rig.proxy.rule(watch.clone(), Action::GarbleEvents, Times::First(1));
    rig.label("web", "1").await;
    let garbled = next().await;
    assert!(matches!(garbled, Some(Err(kube::Error::SerdeError(_)))), "{garbled:?}");
    rig.label("web", "2").await;
    assert_eq!(value(next().await), "2");

    let rule = rig.proxy.rule(watch, Action::DropEvents, Times::First(1));
    rig.label("web", "3").await;
    rule.wait_hits(1, SOON).await.unwrap();
    rig.label("web", "4").await;
    assert_eq!(value(next().await), "4");
}

#[tokio::test]
async fn a_held_reply_comes_when_its_rule_goes() {
    let rig = Rig::new("hold-reply").await;
    let rule = rig
        .proxy
        .rule(Match::writes("endpoints"), Action::HoldReply, Times::First(1));
    let through = rig.through.clone();
    let create = tokio::spawn(async move { through.create(&PostParams::default(), &endpoints("web")).await });
    let writes = Match::writes("endpoints");
    let created = |records: &[Record]| records.iter().any(|it| it.status == Some(201));
    let answered = rig.proxy.wait_requests(&writes, SOON, created);
    let records = answered.await.unwrap();
    assert_eq!(records[0].outcome, Outcome::Pending);
    rig.direct.get("web").await.unwrap();
    assert!(!create.is_finished());
    rule.remove();
    timeout(SOON, create).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn lists_come_in_pages_of_the_size_that_the_rule_says() {
    let rig = Rig::new("pages-of").await;
    for name in ["a", "b", "c", "d", "e"] {
        rig.create(name).await;
    }
    rig.proxy
        .rule(Match::lists("endpoints"), Action::Pages(2), Times::Always);
    let mut params = ListParams::default().limit(500);
    let mut sizes = Vec::new();
    loop {
        let page = rig.through.list(&params).await.unwrap();
        sizes.push(page.items.len());
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(sizes, [2, 2, 1]);
    assert_eq!(rig.through.list(&ListParams::default()).await.unwrap().items.len(), 2);
}

/// Answers that are no `Status`: kube makes one of the code and the text.
#[tokio::test]
async fn some_refusals_are_plain_text() {
    let rig = Rig::new("plain").await;
    for (refusal, code, text) in [
        (Refusal::overloaded(), 429, "Too many requests, please try again later."),
        (Refusal::bad_gateway(), 502, "502 Bad Gateway"),
    ] {
        rig.proxy.rule(Match::any(), Action::Refuse(refusal), Times::First(1));
        match rig.through.get("web").await.unwrap_err() {
            kube::Error::Api(status) => {
                assert_eq!(status.code, code);
                assert!(status.message.contains(text), "{status:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
