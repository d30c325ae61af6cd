//! The high availability drills at small scale: nobody writes without a term, no process has to be restarted, and each flip
//! shows in the end. Times are only bounded generously; `make drills` measures them.

use std::time::Duration;

use svcplane_tests::cluster;
use svcplane_tests::drill::judge::Verdict;
use svcplane_tests::drill::{Drill, Report, Rig, Times};
use svcplane_tests::proxy::{Match, Record};
use svcplane_tests::svcplane::alone;

/// What a busy machine adds.
const SLACK: Duration = Duration::from_secs(10);

async fn drill(drill: Drill, replicas: usize) {
    let _alone = alone().await;
    let report = Report::of(drill, replicas, cluster::shared(), Times::SHORT)
        .await
        .unwrap();
    println!("{}\n{report}", Report::HEAD);
    assert_eq!(report.without_term, 0, "{report:?}");
    assert_eq!(report.unseen, 0, "{report:?}");
    assert!(report.ended.is_empty(), "{report:?}");
    assert!(report.writes > 0 && report.flips > 0, "{report:?}");
    if let Some(limit) = report.limit {
        assert!(report.gap < limit + SLACK, "{report:?}");
    }
}

macro_rules! drills {
    ($($name:ident: $drill:ident with $replicas:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            drill(Drill::$drill, $replicas).await;
        }
    )*};
}

drills! {
    nothing_happens: Calm with 2;
    the_leader_is_killed: Kill with 3;
    the_leader_is_terminated: Terminate with 3;
    the_leader_is_stopped_and_continued: Stop with 3;
    the_leader_is_cut_off_silently: Partition with 3;
    the_leader_is_cut_off_by_resets: Reset with 2;
    the_leader_cannot_renew_and_can_write: Unrenewed with 3;
    the_leaders_clock_is_ahead: LeaderAhead with 3;
    the_leaders_clock_is_behind: LeaderBehind with 2;
    the_lease_is_deleted: Delete with 3;
    the_holder_is_emptied: Empty with 3;
    the_holder_is_a_stranger: Stranger with 3;
    the_renew_time_is_far_in_the_future: RenewedLater with 2;
    the_renew_time_cannot_be_read: RenewedUnreadable with 2;
    the_duration_is_68_years: LongDuration with 2;
    the_leader_is_killed_and_the_renew_time_cannot_be_read: KillRenewedUnreadable with 2;
    the_leader_is_killed_and_the_duration_is_68_years: KillLongDuration with 2;
    the_apiserver_is_restarted: Apiserver with 3;
}

/// The drills can fail: whoever takes no part in the election is found out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_without_a_term_are_counted() {
    let _alone = alone().await;
    let mut rig = Rig::start(cluster::shared(), Times::SHORT, &[0, 0]).await.unwrap();
    rig.add(0, |builder| builder.arg("--leader-elect=false")).await.unwrap();
    let rogue = rig.members[2].replica.proxy();
    let writes = Match::writes("endpoints");
    let changed = |writes: &[Record]| writes.iter().any(|write| write.changed == Some(true));
    rogue.wait_requests(&writes, SLACK * 3, changed).await.unwrap();
    rig.finish().await.unwrap();
    let count = |wanted| rig.verdicts().into_iter().filter(|verdict| *verdict == wanted).count();
    assert_eq!(count(Verdict::Without), rig.writes(2).len());
    assert!(count(Verdict::Without) > 0);
    assert!(count(Verdict::Held) > 0);
}
