//! At most 1,000 addresses in one Endpoints object, and a mark on those that are cut.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Endpoints;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::proxy::Match;
use svcplane_tests::svcplane::shared_behind_proxy;

const DEADLINE: Duration = Duration::from_secs(60);
const PODS: usize = 1015;
const NOT_READY: usize = 10;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Ready and not ready addresses of each subset.
type Sizes = Vec<(usize, usize)>;

fn sizes(endpoints: &Endpoints) -> Sizes {
    let subsets = endpoints.subsets.iter().flatten();
    let count = |list: &Option<Vec<_>>| list.as_ref().map_or(0, Vec::len);
    subsets
        .map(|subset| (count(&subset.addresses), count(&subset.not_ready_addresses)))
        .collect()
}

async fn becomes(namespace: &TestNamespace, name: &str, expected: &[(usize, usize)], cut: bool) -> Endpoints {
    eventually_one(name, DEADLINE, &namespace.endpoints(), name, |found| {
        let Some(found) = found else {
            return Err("there are none".into());
        };
        let mark = found.annotations().get(OVER_CAPACITY).map(String::as_str);
        let right = sizes(found) == expected && mark == cut.then_some("truncated");
        right
            .then(|| found.clone())
            .ok_or_else(|| format!("{:?}, {mark:?}", sizes(found)))
    })
    .await
    .unwrap_or_else(|error| panic!("{}", error.to_string().chars().take(600).collect::<String>()))
}

fn name(number: usize) -> String {
    format!("p{number:04}")
}

/// The last in the canonical order have the highest numbers.
fn ip(number: usize) -> String {
    format!(
        "10.{}.{}.{}",
        100 + number / 10_000,
        100 + number / 100,
        100 + number % 100
    )
}

async fn set_ready(namespace: &TestNamespace, numbers: impl Iterator<Item = usize>, ready: bool) {
    let changes = numbers.map(async |number| namespace.set_pod_ready(&name(number), ready).await);
    stream::iter(changes)
        .buffer_unordered(24)
        .try_for_each(async |_| Ok(()))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_too_much_is_cut_and_marked_until_it_fits() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    let (proxy, _) = shared_behind_proxy();
    let pods = (0..PODS).map(|number| {
        let one = pod(&name(number))
            .label("app", "web")
            .ip(&ip(number))
            .ready(number >= NOT_READY);
        // Every second Pod has another number under the name.
        one.port("http", if number % 2 == 0 { 8080 } else { 8081 })
    });
    create_pods(pods, &namespace).await.unwrap();
    service("one")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    service("two")
        .selector("app", "web")
        .port("", 80, "http")
        .create(&namespace)
        .await
        .unwrap();

    // 1,005 ready ones: the first 1,000 of them, and none that is not ready.
    let one = becomes(&namespace, "one", &[(1000, 0)], true).await;
    let listed: Vec<&str> = one.subsets.as_ref().unwrap()[0]
        .addresses
        .as_ref()
        .unwrap()
        .iter()
        .map(|it| it.ip.as_str())
        .collect();
    let expected: Vec<String> = (NOT_READY..NOT_READY + 1000).map(ip).collect();
    assert_eq!(listed, expected);
    // 503 and 502 of 1,005: shares of 500.5 and 499.5, rounded up while there is room.
    becomes(&namespace, "two", &[(501, 0), (499, 0)], true).await;

    // One that is not listed goes: what is listed stays the same, and nothing is written.
    let of_one = Match::writes("endpoints").namespace(namespace.name()).name("one");
    let before = proxy.requests(&of_one).len();
    set_ready(&namespace, std::iter::once(PODS - 1), false).await;
    namespace
        .patch_pod_status(&name(0), json!({ "phase": "Failed" }))
        .await
        .unwrap();
    namespace.delete_pod(&name(1), Duration::ZERO).await.unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(proxy.requests(&of_one).len(), before);

    // 995 ready and 18 not: all ready ones, and of the others as many as there is room for.
    set_ready(&namespace, PODS - 10..PODS - 1, false).await;
    becomes(&namespace, "one", &[(995, 5)], true).await;

    // 1,000 in all: whole again, and the mark goes.
    let out = Patch::Merge(json!({ "metadata": { "labels": { "app": "gone" } } }));
    for number in PODS - 13..PODS {
        namespace
            .pods()
            .patch(&name(number), &PatchParams::default(), &out)
            .await
            .unwrap();
    }
    becomes(&namespace, "one", &[(992, 8)], false).await;
    // And one more.
    let back = Patch::Merge(json!({ "metadata": { "labels": { "app": "web" } } }));
    namespace
        .pods()
        .patch(&name(PODS - 13), &PatchParams::default(), &back)
        .await
        .unwrap();
    becomes(&namespace, "one", &[(993, 7)], true).await;
}
