//! Faults of single requests, and the counts.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Endpoints;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use svcplane_tests::cluster::{self, Cluster, Flavour};
use svcplane_tests::proxy::{Action, FaultProxy, Match, Outcome, Refusal, Times};
use tokio::time::timeout;

use super::rig::{Ended, Rig, SOON, endpoints, labelled};

fn code_and_reason(error: &kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason.clone()),
        other => panic!("not an answer of the API: {other:?}"),
    }
}

#[tokio::test]
async fn refusals_look_like_the_apiservers_and_reach_nothing() {
    let rig = Rig::new("refusals").await;
    let table = [
        (Refusal::conflict(), 409, "Conflict"),
        (Refusal::expired(), 410, "Expired"),
        (Refusal::too_many_requests(3), 429, "TooManyRequests"),
        (Refusal::internal_error(), 500, "InternalError"),
        (Refusal::unavailable(), 503, "ServiceUnavailable"),
        (Refusal::new(403, "Forbidden", "no"), 403, "Forbidden"),
    ];
    let mut object = rig.create("web").await;
    for (refusal, code, reason) in table {
        let value = format!("v{code}");
        let rule = rig
            .proxy
            .rule(Match::writes("endpoints"), Action::Refuse(refusal), Times::First(1));
        let wanted = labelled(object.clone(), &value);
        let error = rig
            .through
            .replace("web", &PostParams::default(), &wanted)
            .await
            .unwrap_err();
        assert_eq!(code_and_reason(&error), (code, reason.to_owned()));
        assert_eq!(
            rig.direct.get("web").await.unwrap(),
            object,
            "{code}: the server saw it"
        );
        let records = rig.proxy.requests(&Match::writes("endpoints"));
        let last = records.last().unwrap();
        assert_eq!(
            (last.status, last.outcome, last.reached_server),
            (Some(code), Outcome::Refused, false)
        );
        assert_eq!(rule.hits(), 1);

        object = rig
            .through
            .replace("web", &PostParams::default(), &wanted)
            .await
            .unwrap();
        assert_eq!(rig.stored("web").await, Some(value), "the second try passes");
    }
    assert_eq!(rig.proxy.writes("endpoints", &rig.namespace).len(), 6);
    assert_eq!(rig.proxy.writes("endpoints", "elsewhere").len(), 0);
}

#[tokio::test]
async fn a_conflict_is_worded_as_the_real_one() {
    let rig = Rig::new("conflict").await;
    let stale = rig.create("web").await;
    rig.label("web", "newer").await;
    let real = rig
        .direct
        .replace("web", &PostParams::default(), &stale)
        .await
        .unwrap_err();
    rig.proxy.rule(
        Match::writes("endpoints"),
        Action::Refuse(Refusal::conflict()),
        Times::Always,
    );
    let ours = rig
        .through
        .replace("web", &PostParams::default(), &stale)
        .await
        .unwrap_err();
    match (real, ours) {
        (kube::Error::Api(real), kube::Error::Api(ours)) => assert_eq!(real, ours),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn retry_after_is_a_header_too() {
    let rig = Rig::new("retry-after").await;
    rig.proxy.rule(
        Match::any(),
        Action::Refuse(Refusal::too_many_requests(7)),
        Times::Always,
    );
    let raw = rig.raw_get(&rig.path(""), Duration::from_millis(300)).await;
    assert!(raw.text.starts_with("HTTP/1.1 429 "), "{}", raw.text);
    assert!(raw.text.contains("\r\nretry-after: 7\r\n"), "{}", raw.text);
    assert_eq!(raw.ended, Ended::Open, "the connection is kept");
}

#[tokio::test]
async fn reset_before_the_server_and_reply_lost_after_it() {
    let rig = Rig::new("resets").await;
    let creates = Match::writes("endpoints").method(http::Method::POST);
    rig.proxy
        .rule(creates.clone().name("before"), Action::ResetBefore, Times::First(1));
    rig.proxy
        .rule(creates.clone().name("after"), Action::LoseReply, Times::First(1));
    for (name, stored) in [("before", false), ("after", true)] {
        let error = rig
            .through
            .create(&PostParams::default(), &endpoints(name))
            .await
            .unwrap_err();
        assert!(!matches!(error, kube::Error::Api(_)), "{name}: {error:?}");
        assert_eq!(rig.direct.get_opt(name).await.unwrap().is_some(), stored, "{name}");
    }
    let records = rig.proxy.requests(&creates);
    let seen: Vec<_> = records
        .iter()
        .map(|r| (r.reached_server, r.status, r.outcome, r.changed))
        .collect();
    let want = [
        (false, None, Outcome::Reset, None),
        (true, Some(201), Outcome::Lost, Some(true)),
    ];
    assert_eq!(seen, want, "no retry, neither by the proxy nor by the client");

    rig.proxy.rule(Match::any(), Action::ResetBefore, Times::First(1));
    assert_eq!(rig.raw_get(&rig.path(""), SOON).await.ended, Ended::Reset);
    rig.proxy.rule(Match::any(), Action::LoseReply, Times::First(1));
    let raw = rig.raw_get(&rig.path(""), SOON).await;
    assert_eq!((raw.ended, raw.text.as_str()), (Ended::Reset, ""));
}

#[tokio::test]
async fn a_cut_reply_promises_more_than_it_brings() {
    let rig = Rig::new("cut").await;
    rig.create("web").await;
    let rule = rig
        .proxy
        .rule(Match::any().resource("endpoints"), Action::CutReply, Times::Always);
    for path in [rig.path("/web"), rig.path("")] {
        let raw = rig.raw_get(&path, SOON).await;
        let (head, body) = raw.text.split_once("\r\n\r\n").unwrap();
        let promised = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"));
        assert_eq!(body.len(), promised.parse::<usize>().unwrap() / 2, "{path}");
        assert_eq!(raw.ended, Ended::Fin);
    }
    let error = rig
        .through
        .create(&PostParams::default(), &endpoints("new"))
        .await
        .unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    assert!(rig.direct.get_opt("new").await.unwrap().is_some(), "the server acted");
    assert_eq!(rule.hits(), 3);
    assert_eq!(rig.proxy.requests(&Match::any()).last().unwrap().outcome, Outcome::Lost);
}

#[tokio::test]
async fn a_delayed_request_acts_late_and_a_delayed_reply_acts_early() {
    const BY: Duration = Duration::from_millis(600);
    let rig = Rig::new("delay").await;
    for (name, action, early) in [
        ("late", Action::Delay(BY), false),
        ("early", Action::DelayReply(BY), true),
    ] {
        let rule = rig
            .proxy
            .rule(Match::writes("endpoints").name(name), action, Times::First(1));
        let through = rig.through.clone();
        let started = Instant::now();
        let write = tokio::spawn(async move { through.create(&PostParams::default(), &endpoints(name)).await });
        rule.wait_hits(1, SOON).await.unwrap();
        let seen = Match::writes("endpoints").name(name);
        let acted = rig
            .proxy
            .wait_requests(&seen, BY / 2, |r| r.iter().any(|r| r.status.is_some()));
        assert_eq!(
            acted.await.is_ok(),
            early,
            "{name}: the server's answer within half the delay"
        );
        assert_eq!(rig.direct.get_opt(name).await.unwrap().is_some(), early);
        write.await.unwrap().unwrap();
        assert!(started.elapsed() >= BY, "{name}: {:?}", started.elapsed());
        assert!(rig.direct.get_opt(name).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn hang_never_answers_and_hold_waits_for_its_rule_to_go() {
    let rig = Rig::new("hang").await;
    let post = PostParams::default();
    let hang = rig
        .proxy
        .rule(Match::writes("endpoints").name("hung"), Action::Hang, Times::Always);
    let object = endpoints("hung");
    let hung = timeout(Duration::from_millis(300), rig.through.create(&post, &object)).await;
    assert!(hung.is_err(), "{hung:?}");
    let of_hung = Match::writes("endpoints").name("hung");
    let gone = rig
        .proxy
        .wait_requests(&of_hung, SOON, |r| r[0].outcome == Outcome::ClientGone);
    assert!(!gone.await.unwrap()[0].reached_server);
    hang.remove();
    assert!(rig.direct.get_opt("hung").await.unwrap().is_none());

    let hold = rig
        .proxy
        .rule(Match::writes("endpoints").name("held"), Action::Hold, Times::Always);
    let through = rig.through.clone();
    let mut write = tokio::spawn(async move { through.create(&PostParams::default(), &endpoints("held")).await });
    assert!(
        timeout(Duration::from_millis(300), &mut write).await.is_err(),
        "answered while held"
    );
    assert!(rig.direct.get_opt("held").await.unwrap().is_none());
    hold.remove();
    timeout(SOON, write).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn an_expired_continue_token_stops_the_second_page_only() {
    let rig = Rig::new("pages").await;
    for name in ["a", "b", "c"] {
        rig.create(name).await;
    }
    let refusal = Action::Refuse(Refusal::expired_continue());
    let rule = rig
        .proxy
        .rule(Match::continued_lists("endpoints"), refusal, Times::First(1));
    let pages = ListParams::default().limit(2);
    let first = rig.through.list(&pages).await.unwrap();
    let next = pages
        .clone()
        .continue_token(first.metadata.continue_.as_deref().unwrap());
    let error = rig.through.list(&next).await.unwrap_err();
    assert_eq!(code_and_reason(&error), (410, "Expired".to_owned()));
    assert_eq!(
        rig.through.list(&next).await.unwrap().items.len(),
        1,
        "the token was good"
    );
    assert_eq!((first.items.len(), rule.hits()), (2, 1));
}

#[tokio::test]
async fn rules_count_skip_ask_and_the_oldest_acts() {
    let rig = Rig::new("rules").await;
    let gets = || Match::any().resource("endpoints").method(http::Method::GET);
    let refuse = |code| Action::Refuse(Refusal::new(code, "BadRequest", "by the test"));
    let skipping = rig
        .proxy
        .rule(gets().name("x"), refuse(400), Times::After { skip: 2, n: 1 });
    let asking = rig
        .proxy
        .rule(gets().when(|r| r.name.starts_with('y')), refuse(418), Times::Always);
    let mut codes = Vec::new();
    for name in ["x", "x", "x", "x", "y1", "z"] {
        codes.push(code_and_reason(&rig.through.get(name).await.unwrap_err()).0);
    }
    assert_eq!(codes, [404, 404, 400, 404, 418, 404]);
    assert_eq!((skipping.hits(), asking.hits()), (1, 1));
    let younger = rig.proxy.rule(gets(), refuse(422), Times::Always);
    assert_eq!(code_and_reason(&rig.through.get("y2").await.unwrap_err()).0, 418);
    assert_eq!(code_and_reason(&rig.through.get("z").await.unwrap_err()).0, 422);
    asking.remove();
    assert_eq!(code_and_reason(&rig.through.get("y2").await.unwrap_err()).0, 422);
    rig.proxy.clear_rules();
    assert_eq!(code_and_reason(&rig.through.get("y2").await.unwrap_err()).0, 404);
    assert!(
        younger.wait_hits(1, Duration::ZERO).await.is_err(),
        "a rule that is gone has no hits"
    );
}

#[tokio::test]
async fn writes_are_counted_with_what_they_changed() {
    let rig = Rig::new("counts").await;
    let post = PostParams::default();
    rig.proxy.keep_bodies(true);
    let created = rig.through.create(&post, &endpoints("web")).await.unwrap();
    rig.through.replace("web", &post, &created).await.unwrap();
    let changed = rig
        .through
        .replace("web", &post, &labelled(created.clone(), "1"))
        .await
        .unwrap();
    rig.through.replace("web", &post, &created).await.unwrap_err();
    let patch = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"value": value}}}));
    rig.through
        .patch("web", &PatchParams::default(), &patch("1"))
        .await
        .unwrap();
    rig.through
        .patch("web", &PatchParams::default(), &patch("2"))
        .await
        .unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    rig.through.create(&dry, &endpoints("dry")).await.unwrap();
    rig.through.get("web").await.unwrap();
    rig.through.delete("web", &DeleteParams::default()).await.unwrap();

    let records = rig.proxy.writes("endpoints", &rig.namespace);
    let seen: Vec<_> = records
        .iter()
        .map(|r| (r.request.method.as_str(), r.status.unwrap(), r.changed))
        .collect();
    let want = [
        ("POST", 201, Some(true)),
        ("PUT", 200, Some(false)),
        ("PUT", 200, Some(true)),
        ("PUT", 409, Some(false)),
        ("PATCH", 200, Some(false)),
        ("PATCH", 200, Some(true)),
        ("DELETE", 200, Some(true)),
    ];
    assert_eq!(seen, want);
    assert!(
        records
            .iter()
            .all(|r| r.request.name == "web" && r.outcome == Outcome::Delivered && r.bytes > 0)
    );
    let of_web = Match::writes("endpoints").name("web");
    assert_eq!(rig.proxy.writes_that_changed(&of_web).len(), 4);
    let sent: serde_json::Value = serde_json::from_slice(records[2].body.as_ref().unwrap()).unwrap();
    assert_eq!(sent["metadata"]["labels"]["value"], "1");
    assert_eq!(
        sent["metadata"]["resourceVersion"],
        created.metadata.resource_version.unwrap()
    );
    let versions: Vec<_> = records.iter().map(|r| r.version).collect();
    let made: u64 = changed.metadata.resource_version.unwrap().parse().unwrap();
    assert!(versions[0] < versions[2] && versions[2] < versions[5], "{versions:?}");
    assert_eq!((versions[2], versions[3], versions[6]), (Some(made), None, None));
    assert!(records.iter().all(|r| r.answered >= Some(r.at)));
    rig.proxy.clear_records();
    assert!(rig.proxy.requests(&Match::any()).is_empty());
}

#[tokio::test]
async fn an_apiserver_that_is_away_refuses_and_comes_back_on_the_same_port() {
    let rig = Rig::new("away").await;
    rig.create("web").await;
    rig.through.get("web").await.unwrap();
    rig.proxy.refuse_connections().await.unwrap();
    let address = rig.proxy.url().trim_start_matches("http://").to_owned();
    let refused = tokio::net::TcpStream::connect(&address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(rig.through.get("web").await.is_err(), "a kept connection was reset");
    rig.proxy.accept_connections().await.unwrap();
    rig.through.get("web").await.unwrap();
}

#[tokio::test]
async fn kubectl_and_kube_rs_work_through_the_kubeconfig() {
    let rig = Rig::new("kubectl").await;
    rig.create("web").await;
    let kubeconfig = rig.proxy.kubeconfig(cluster::shared().admin_token()).unwrap();
    let read = Kubeconfig::read_from(&kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    Api::<Endpoints>::namespaced(client, &rig.namespace)
        .get("web")
        .await
        .unwrap();

    let kubectl = &cluster::shared().tools().kubectl;
    let output = tokio::process::Command::new(kubectl)
        .args([
            "--namespace",
            &rig.namespace,
            "get",
            "endpoints",
            "web",
            "-o",
            "name",
            "--kubeconfig",
        ])
        .arg(kubeconfig)
        .output()
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "endpoints/web\n", "{output:?}");
    let seen = rig
        .proxy
        .requests(&Match::any().resource("endpoints").user_agent("kubectl"));
    assert_eq!(seen.len(), 1);
}

#[tokio::test]
async fn an_apiserver_that_is_really_gone_is_a_reset_and_no_write() {
    let cluster = Cluster::start(Flavour::Ipv4Only).await.unwrap();
    let proxy = FaultProxy::start(&cluster).unwrap();
    let through: Api<Endpoints> = Api::namespaced(proxy.client(cluster.admin_token()).unwrap(), "default");
    through.create(&PostParams::default(), &endpoints("a")).await.unwrap();
    cluster.stop_apiserver().await.unwrap();
    let error = through
        .create(&PostParams::default(), &endpoints("b"))
        .await
        .unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    let last = proxy.requests(&Match::any()).pop().unwrap();
    assert_eq!((last.outcome, last.reached_server), (Outcome::ServerGone, false));
    assert_eq!(proxy.writes("endpoints", "default").len(), 1);
    cluster.start_apiserver().await.unwrap();
    through.create(&PostParams::default(), &endpoints("b")).await.unwrap();
    assert_eq!(proxy.writes("endpoints", "default").len(), 2);
}
