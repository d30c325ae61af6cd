use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

const MS: Duration = Duration::from_millis(1);

fn queue() -> QueueCore<u8> {
    QueueCore::new(
        Backoff {
            base: 5 * MS,
            cap: Duration::from_secs(30),
        },
        2,
    )
}

#[test]
fn requests_for_a_waiting_key_are_one_piece_of_work_and_the_earliest_time_wins() {
    let (mut queue, start) = (queue(), Instant::now());
    assert!(queue.add(&1, Lane::Single, start + 500 * MS));
    assert!(!queue.add(&1, Lane::Single, start + 900 * MS));
    assert!(!queue.add(&1, Lane::Single, start + 100 * MS));
    assert_eq!(queue.next_due(), Some(start + 100 * MS));
    assert_eq!((queue.due(start + 99 * MS), queue.due(start + 100 * MS)), (0, 1));
    assert_eq!(queue.take(start + 99 * MS), None);
    assert_eq!(queue.take(start + 130 * MS), Some((1, 30 * MS)));
    assert_eq!(queue.take(start + 5000 * MS), None);
}

#[test]
fn keys_come_out_in_order_of_age() {
    let (mut queue, start) = (queue(), Instant::now());
    for key in [3, 1, 2] {
        queue.add(&key, Lane::Single, start);
    }
    queue.add(&1, Lane::Single, start + MS);
    let order: Vec<u8> = std::iter::from_fn(|| queue.take(start + MS).map(|(key, _)| key)).collect();
    assert_eq!(order, [3, 1, 2]);
}

#[test]
fn a_key_in_work_is_not_handed_out_again_and_comes_back_once_when_asked_for_meanwhile() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.add(&1, Lane::Single, start);
    assert!(queue.take(start).is_some());
    assert!(queue.add(&1, Lane::Single, start + MS));
    assert!(!queue.add(&1, Lane::Single, start + 2 * MS));
    assert_eq!(queue.take(start + 10 * MS), None);
    assert!(!queue.finish(&1, Outcome::Done, start + 10 * MS, 0.0));
    assert_eq!(queue.take(start + 10 * MS), Some((1, 9 * MS)));
    queue.finish(&1, Outcome::Done, start + 11 * MS, 0.0);
    assert_eq!(queue.next_due(), None);
    assert!(!queue.is_busy());
}

#[test]
fn failures_grow_apart_up_to_the_cap_and_the_key_is_never_given_up() {
    let (mut queue, mut now) = (queue(), Instant::now());
    queue.add(&1, Lane::Single, now);
    let mut last = Duration::ZERO;
    for attempt in 1..=200 {
        now = queue.next_due().expect("the key is still there");
        assert!(queue.take(now).is_some());
        assert!(queue.finish(
            &1,
            Outcome::Retry {
                at_least: Duration::ZERO
            },
            now,
            1.0
        ));
        let delay = queue.next_due().expect("comes back") - now;
        assert!(delay >= last, "attempt {attempt}: {delay:?} after {last:?}");
        last = delay;
    }
    assert_eq!(last, Duration::from_secs(30));
}

#[test]
fn success_starts_the_failure_count_anew() {
    let (mut queue, now) = (queue(), Instant::now());
    let fail = Outcome::Retry {
        at_least: Duration::ZERO,
    };
    queue.add(&1, Lane::Single, now);
    for _ in 0..8 {
        let due = queue.next_due().unwrap();
        queue.take(due);
        queue.finish(&1, fail, due, 1.0);
    }
    let due = queue.next_due().unwrap();
    queue.take(due);
    queue.finish(&1, Outcome::Done, due, 1.0);
    queue.add(&1, Lane::Single, due);
    queue.take(due);
    queue.finish(&1, fail, due, 1.0);
    assert_eq!(queue.next_due(), Some(due + 5 * MS));
}

#[test]
fn a_servers_retry_after_holds_against_new_events_and_an_event_cuts_a_plain_back_off_short() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add(&1, Lane::Single, now);
    queue.take(now);
    queue.finish(&1, Outcome::Retry { at_least: 700 * MS }, now, 0.0);
    queue.add(&1, Lane::Single, now + MS);
    assert_eq!(queue.next_due(), Some(now + 700 * MS));

    let mut queue = self::queue();
    queue.add(&1, Lane::Single, now);
    for _ in 0..10 {
        let due = queue.next_due().unwrap();
        queue.take(due);
        queue.finish(
            &1,
            Outcome::Retry {
                at_least: Duration::ZERO,
            },
            due,
            1.0,
        );
    }
    let far = queue.next_due().unwrap();
    let sooner = far.checked_sub(100 * MS).unwrap();
    queue.add(&1, Lane::Single, sooner);
    assert_eq!(queue.next_due(), Some(sooner));
}

#[test]
fn clear_forgets_what_waits_but_not_who_is_at_work() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add(&1, Lane::Single, now);
    queue.add(&2, Lane::Single, now);
    queue.take(now);
    queue.add(&1, Lane::Single, now);
    queue.clear();
    assert_eq!(queue.waiting(), 0);
    assert!(queue.is_busy());
    queue.add(&1, Lane::Single, now);
    assert_eq!(queue.take(now), None, "its worker has not given it back");
    queue.finish(&1, Outcome::Done, now, 0.0);
    assert!(queue.take(now).is_some());
}

/// One Pod's change in many Services, and others that change meanwhile.
#[test]
fn a_fan_leaves_room_for_others_and_is_not_held_up_by_them() {
    let (mut queue, start) = (queue(), Instant::now());
    for key in 10..20 {
        queue.add(&key, Lane::Fan, start);
    }
    let take = |queue: &mut QueueCore<u8>| queue.take(start + MS).map(|(key, _)| key);
    assert_eq!([take(&mut queue), take(&mut queue)], [Some(10), Some(11)]);
    assert_eq!(take(&mut queue), None, "two at once");
    assert_eq!(queue.next_due(), None);
    // Others come: the first of them at once, although eight are older.
    for key in 0..4 {
        queue.add(&key, Lane::Single, start + MS);
    }
    assert_eq!(take(&mut queue), Some(0));
    queue.finish(&10, Outcome::Done, start, 0.0);
    queue.finish(&11, Outcome::Done, start, 0.0);
    // In turns.
    let turns: Vec<_> = (0..4).map(|_| take(&mut queue)).collect();
    assert_eq!(turns, [12, 1, 13, 2].map(Some));
    // One of the fan that changes by itself waits with it no longer.
    assert!(!queue.add(&19, Lane::Single, start + MS));
    assert_eq!(
        [take(&mut queue), take(&mut queue), take(&mut queue)],
        [Some(19), Some(3), None]
    );
    // Nor does it when it is asked for by both while at work, and one that comes back keeps its lane.
    queue.add(&19, Lane::Fan, start);
    queue.add(&19, Lane::Single, start);
    queue.finish(&19, Outcome::Done, start, 0.0);
    assert_eq!(take(&mut queue), Some(19));
    queue.finish(
        &12,
        Outcome::Retry {
            at_least: Duration::ZERO,
        },
        start,
        0.0,
    );
    assert_eq!([take(&mut queue), take(&mut queue)], [Some(14), None]);
    queue.finish(&13, Outcome::Done, start, 0.0);
    assert_eq!(queue.take(start + 10 * MS), Some((15, 10 * MS)));
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, Lane, u16),
    Take,
    Finish(bool),
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6u8, prop_oneof![Just(Lane::Single), Just(Lane::Fan)], 0..400u16).prop_map(|(key, lane, delay)| Step::Add(key, lane, delay)),
        3 => Just(Step::Take),
        2 => any::<bool>().prop_map(Step::Finish),
        1 => (0..500u16).prop_map(Step::Pass),
    ]
}

proptest! {
    /// No key is ever lost, none runs twice at once: whatever was asked for last and not yet looked at since comes out when all is quiet.
    #[test]
    fn no_key_is_lost_and_none_runs_twice_at_once(steps in proptest::collection::vec(step(), 1..200)) {
        let (mut queue, mut now) = (queue(), Instant::now());
        let mut running: Vec<u8> = Vec::new();
        let mut owed: HashSet<u8> = HashSet::new();
        for step in steps {
            match step {
                Step::Add(key, lane, delay) => {
                    queue.add(&key, lane, now + u32::from(delay) * MS);
                    owed.insert(key);
                }
                Step::Take => {
                    if let Some((key, _)) = queue.take(now) {
                        prop_assert!(!running.contains(&key), "{key} is with two workers");
                        running.push(key);
                        owed.remove(&key);
                    }
                }
                Step::Finish(good) => {
                    if !running.is_empty() {
                        let key = running.remove(0);
                        let outcome = if good { Outcome::Done } else { Outcome::Retry { at_least: Duration::ZERO } };
                        queue.finish(&key, outcome, now, 0.5);
                        if !good {
                            owed.insert(key);
                        }
                    }
                }
                Step::Pass(ms) => now += u32::from(ms) * MS,
            }
            prop_assert!(queue.waiting() <= 6);
            prop_assert!(queue.fan_running <= 2);
        }
        for key in running {
            queue.finish(&key, Outcome::Done, now, 0.5);
        }
        while let Some(due) = queue.next_due() {
            now = now.max(due);
            let (key, _) = queue.take(now).expect("due");
            owed.remove(&key);
            queue.finish(&key, Outcome::Done, now, 0.5);
        }
        prop_assert!(owed.is_empty(), "lost: {owed:?}");
        prop_assert!(queue.entries.is_empty());
    }
}
