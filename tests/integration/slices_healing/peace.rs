//! Another writer of the same slices is answered ever more slowly, which holds up nothing else.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::json;
use svcplane_tests::objects::pod;
use tokio::time::{Instant, timeout};

use super::rig::{RIGHT, namespace, patch, served};

#[tokio::test]
async fn two_writers_who_disagree_slow_down() {
    let namespace = namespace().await;
    let slice = served(&namespace, "plover").await.name_any();
    let none = json!({ "endpoints": [] });
    let end = Instant::now() + Duration::from_secs(4);
    let mut healed = 0;
    while Instant::now() < end {
        patch(&namespace, &slice, &none).await;
        let wait = namespace.slices_become("plover", &[RIGHT]);
        let left = end.saturating_duration_since(Instant::now());
        if timeout(left, wait).await.is_ok_and(|found| found.is_ok()) {
            healed += 1;
        }
    }
    // 0, 200, 400, 800, 1600 ms: the next one is later than the end.
    assert!((2..=5).contains(&healed), "{healed} times in 4 s");
    namespace.slices_become("plover", &[RIGHT]).await.unwrap();
}

#[tokio::test]
async fn changes_of_pods_do_not_wait_for_the_peace() {
    let namespace = namespace().await;
    let slice = served(&namespace, "plover").await.name_any();
    let none = json!({ "endpoints": [] });
    // After 0, 0.2, 0.4, 0.8, 1.6 and 3.2 s the next one would come after 6.4 s.
    for _ in 0..6 {
        patch(&namespace, &slice, &none).await;
        namespace.slices_become("plover", &[RIGHT]).await.unwrap();
    }
    patch(&namespace, &slice, &none).await;
    let third = pod("p3").label("app", "web").ip("10.1.0.3");
    third.create(&namespace).await.unwrap();
    let all = ["IPv4 10.1.0.1/rs- 10.1.0.2/rs- 10.1.0.3/rs- -> http:8080/TCP"];
    let wait = namespace.slices_become("plover", &all);
    timeout(Duration::from_secs(5), wait).await.unwrap().unwrap();
}
