//! One row of client-go's behaviour per test, and the cases of spec/field-bugs.md that need no server.

use std::time::{Duration, Instant};

use super::{Elector, Refusal, Step};
use crate::leader::record::{Micros, Record, Stamp, Tenure, Timing};

const ME: &str = "svcplane-0_a";
const OTHER: &str = "svcplane-1_b";

/// A clock for one test: both hands start at a fixed point and move together unless told otherwise.
struct Clock {
    now: Stamp,
}

impl Clock {
    fn new() -> Self {
        Self {
            now: Stamp {
                monotonic: Instant::now(),
                wall: Micros(1_700_000_000_204_817),
            },
        }
    }

    fn pass(&mut self, seconds: f64) -> Stamp {
        let time = Duration::from_secs_f64(seconds);
        self.now.monotonic += time;
        self.now.wall.0 += i64::try_from(time.as_micros()).unwrap();
        self.now
    }
}

fn timing() -> Timing {
    Timing {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

fn elector() -> Elector {
    Elector::new(ME.to_owned(), timing())
}

fn held_by(holder: &str, seconds: i32, transitions: i32) -> Record {
    let time = Some(Micros(1_600_000_000_000_000));
    Record {
        holder: holder.to_owned(),
        duration_seconds: Some(seconds),
        acquired: time,
        renewed: time,
        transitions,
        unreadable: String::new(),
    }
}

/// A renew time that nobody can read.
fn unreadable(renewed: &str) -> Record {
    Record {
        renewed: None,
        unreadable: renewed.to_owned(),
        ..held_by(OTHER, 15, 3)
    }
}

/// Lets the elector look at the Lease until it writes, at most for `limit` seconds. Returns what it writes and after how
/// many seconds.
fn watch(elector: &mut Elector, clock: &mut Clock, lease: Option<&Record>, limit: f64) -> Option<(Step, f64)> {
    let start = clock.now.monotonic;
    loop {
        let elapsed = (clock.now.monotonic - start).as_secs_f64();
        if elapsed > limit {
            return None;
        }
        match elector.step(clock.now, 0.5) {
            Step::Sleep(until) => {
                clock.pass((until - clock.now.monotonic).as_secs_f64().max(0.000_001));
            }
            Step::Read => elector.read(clock.now, lease.cloned()),
            write => return Some((write, elapsed)),
        }
    }
}

/// An elector that has just become leader by creating the Lease.
fn leader(clock: &mut Clock) -> (Elector, Record) {
    let mut elector = elector();
    let Some((Step::Create(record), _)) = watch(&mut elector, clock, None, 0.0) else {
        panic!("must create")
    };
    elector.written(clock.now, record.clone());
    (elector, record)
}

/// Sleeps until the elector wants something.
fn wake(elector: &mut Elector, clock: &mut Clock) -> Step {
    loop {
        match elector.step(clock.now, 0.5) {
            Step::Sleep(until) => clock.pass((until - clock.now.monotonic).as_secs_f64()),
            step => return step,
        };
    }
}

#[test]
fn an_absent_lease_is_created_at_once() {
    let mut clock = Clock::new();
    let (elector, record) = leader(&mut clock);
    assert_eq!(
        record,
        Record {
            holder: ME.to_owned(),
            duration_seconds: Some(15),
            acquired: Some(clock.now.wall),
            renewed: Some(clock.now.wall),
            transitions: 0,
            unreadable: String::new(),
        }
    );
    assert_eq!(
        elector.tenure(clock.now).unwrap().remaining(clock.now),
        Some(Duration::from_secs(10))
    );
}

#[test]
fn how_long_a_record_is_believed_at_first_sight() {
    // (record, seconds until it is taken over: the duration in the record and nothing else)
    let cases = [
        (held_by(OTHER, 15, 3), 15.0),
        (held_by(OTHER, 30, 3), 30.0), // B83: not our own 15 s
        (held_by(OTHER, 4, 3), 4.0),
        (held_by("", 1, 3), 0.0),   // released
        (held_by("", 15, 3), 15.0), // cleared by hand
        (
            Record {
                duration_seconds: None,
                ..held_by("", 0, 0)
            },
            0.0,
        ), // made in advance
        (
            Record {
                duration_seconds: None,
                ..held_by(OTHER, 0, 3)
            },
            15.0,
        ), // duration removed by hand
        (
            Record {
                renewed: None,
                acquired: None,
                ..held_by(OTHER, 15, 0)
            },
            15.0,
        ), // times removed by hand
        (
            Record {
                renewed: Some(Micros(i64::MAX)),
                ..held_by(OTHER, 15, 3)
            },
            15.0,
        ), // a remote clock far ahead
        (unreadable("9999-12-31T23:59:59.000000Z"), 15.0),
        (held_by(OTHER, 150, 3), 150.0),
        (held_by(OTHER, 151, 3), 150.0), // ten times our own duration and no more
        (held_by(OTHER, i32::MAX, 3), 150.0),
        (held_by("svcplane-0_a0", 15, 0), 15.0), // B87: compared whole
        (held_by("svcplane-0", 15, 0), 15.0),    // B87
        (held_by(ME, 15, 3), 15.0),              // names us, but we never wrote it
    ];
    for (record, seconds) in cases {
        let mut clock = Clock::new();
        let (write, after) = watch(&mut elector(), &mut clock, Some(&record), 200.0).unwrap();
        let Step::Replace(written) = write else {
            panic!("{record:?}: {write:?}")
        };
        assert!(
            (after - seconds).abs() < 0.001,
            "{record:?}: taken over after {after} s"
        );
        assert_eq!(written.holder, ME);
        assert_eq!(written.transitions, record.transitions + i32::from(record.holder != ME));
    }
}

#[test]
fn a_renewed_record_starts_the_waiting_anew() {
    let mut clock = Clock::new();
    let mut candidate = elector();
    let mut record = held_by(OTHER, 15, 0);
    for _ in 0..20 {
        assert_eq!(watch(&mut candidate, &mut clock, Some(&record), 14.0), None);
        record.renewed = record.renewed.map(|renewed| Micros(renewed.0 + 1));
    }
    assert!(watch(&mut candidate, &mut clock, Some(&record), 15.1).is_some());
}

#[test]
fn a_renewal_that_cannot_be_read_is_a_change_all_the_same() {
    let mut clock = Clock::new();
    let mut candidate = elector();
    for day in 10..20 {
        let record = unreadable(&format!("9999-12-31T23:59:{day}.000000Z"));
        assert_eq!(watch(&mut candidate, &mut clock, Some(&record), 14.0), None);
    }
    let last = unreadable("9999-12-31T23:59:19.000000Z");
    let (write, _) = watch(&mut candidate, &mut clock, Some(&last), 15.1).unwrap();
    let Step::Replace(taken) = write else {
        panic!("{write:?}")
    };
    assert_eq!((taken.renewed, taken.unreadable.as_str()), (Some(clock.now.wall), ""));
}

#[test]
fn a_duration_that_is_not_believed_is_told_until_it_is_gone() {
    let mut clock = Clock::new();
    let mut candidate = elector();
    let told = |candidate: &Elector| candidate.disbelieved().map(|(seconds, most)| (seconds, most.as_secs()));
    for (record, want) in [
        (held_by(OTHER, 150, 0), None),
        (held_by(OTHER, i32::MAX, 0), Some((i32::MAX, 150))),
        (held_by("", 151, 0), Some((151, 150))),
        (held_by(OTHER, 15, 1), None),
    ] {
        assert_eq!(watch(&mut candidate, &mut clock, Some(&record), 5.0), None);
        assert_eq!(told(&candidate), want, "{record:?}");
    }
}

#[test]
fn a_leader_mends_a_lease_that_was_edited_and_stays() {
    let edits: [fn(&mut Record); 4] = [
        |record| record.duration_seconds = Some(i32::MAX),
        |record| record.renewed = Some(Micros(253_402_300_799_000_000)),
        |record| (record.renewed, record.unreadable) = (None, "renewTime=9999-12-31T23:59:59.000000Z ".to_owned()),
        |record| (record.acquired, record.unreadable) = (None, "acquireTime=9999-12-31T23:59:59.000000Z ".to_owned()),
    ];
    for edit in edits {
        let mut clock = Clock::new();
        let (mut elector, record) = leader(&mut clock);
        let mut edited = record.clone();
        edit(&mut edited);
        assert!(matches!(wake(&mut elector, &mut clock), Step::Replace(_)));
        elector.not_written(Refusal::Definite);
        assert_eq!(elector.step(clock.now, 0.5), Step::Read);
        elector.read(clock.now, Some(edited.clone()));
        let Step::Replace(mended) = elector.step(clock.now, 0.5) else {
            panic!("{edited:?}")
        };
        assert!(elector.tenure(clock.now).is_some());
        let acquired = edited.acquired.or(Some(clock.now.wall));
        let want = Record {
            acquired,
            renewed: Some(clock.now.wall),
            ..record
        };
        assert_eq!(mended, want, "{edited:?}");
    }
}

#[test]
fn deleting_clearing_or_shortening_the_lease_by_hand_does_not_shorten_the_waiting() {
    let record = held_by(OTHER, 15, 7);
    let edits = [
        None,
        Some(Record {
            holder: String::new(),
            ..record.clone()
        }),
        Some(Record {
            duration_seconds: Some(1),
            ..record.clone()
        }),
        Some(Record {
            duration_seconds: None,
            ..record.clone()
        }),
        Some(Record {
            holder: ME.to_owned(),
            ..record.clone()
        }),
        Some(Record {
            holder: "nobody".to_owned(),
            ..record.clone()
        }),
        Some(Record::default()),
    ];
    for edited in edits {
        let mut clock = Clock::new();
        let mut candidate = elector();
        assert_eq!(watch(&mut candidate, &mut clock, Some(&record), 12.0), None);
        let (_, after) = watch(&mut candidate, &mut clock, edited.as_ref(), 100.0).unwrap();
        // The edit is seen at the next look, at most 4.4 s later, and believed 15 s from there.
        assert!((15.0..19.5).contains(&after), "{edited:?}: taken over after {after} s");
    }
}

#[test]
fn a_release_is_taken_at_the_next_look() {
    let mut clock = Clock::new();
    let mut candidate = elector();
    assert_eq!(
        watch(&mut candidate, &mut clock, Some(&held_by(OTHER, 15, 4)), 6.0),
        None
    );
    candidate.look_now();
    let (write, after) = watch(&mut candidate, &mut clock, Some(&held_by("", 1, 4)), 5.0).unwrap();
    assert!(after < 0.001, "{after}");
    let Step::Replace(record) = write else {
        panic!("{write:?}")
    };
    assert_eq!((record.transitions, record.acquired), (5, Some(clock.now.wall)));
}

#[test]
fn a_candidate_looks_every_two_to_four_point_four_seconds() {
    for (jitter, seconds) in [(0.0, 2.0), (0.5, 3.2), (0.999_999_999, 4.4)] {
        let clock = Clock::new();
        let mut candidate = elector();
        assert_eq!(candidate.step(clock.now, jitter), Step::Read);
        candidate.read(clock.now, Some(held_by(OTHER, 15, 0)));
        let Step::Sleep(until) = candidate.step(clock.now, jitter) else {
            panic!("must wait")
        };
        assert!(((until - clock.now.monotonic).as_secs_f64() - seconds).abs() < 0.001);
    }
}

#[test]
fn a_renewal_comes_up_to_a_tenth_early_by_chance() {
    // B93: processes that started together do not stay in step.
    for (jitter, seconds) in [(0.0, 2.0), (0.5, 1.9), (0.999_999_999, 1.8)] {
        let mut clock = Clock::new();
        let (mut leader, _) = leader(&mut clock);
        let Step::Sleep(until) = leader.step(clock.now, jitter) else {
            panic!("must wait")
        };
        assert!(((until - clock.now.monotonic).as_secs_f64() - seconds).abs() < 0.001);
    }
}

#[test]
fn a_renewal_is_one_write_and_keeps_acquire_time_and_transitions() {
    let mut clock = Clock::new();
    let (mut elector, mut record) = leader(&mut clock);
    let acquired = record.acquired;
    for _ in 0..50 {
        let Step::Replace(renewed) = wake(&mut elector, &mut clock) else {
            panic!("must renew")
        };
        assert!(renewed.renewed > record.renewed);
        assert_eq!((renewed.acquired, renewed.transitions), (acquired, 0));
        elector.written(clock.now, renewed.clone());
        record = renewed;
    }
    assert_eq!(elector.slow_renewals(), 0);
}

#[test]
fn every_renewal_changes_the_record_whatever_the_wall_clock_does() {
    let mut clock = Clock::new();
    let (mut elector, mut record) = leader(&mut clock);
    for step in [0, 0, 0, -5, 0, 3, -3_600_000_000, 0, 0, 7_200_000_000] {
        let wall = clock.now.wall.0;
        let next = wake(&mut elector, &mut clock);
        drop(next);
        clock.now.wall.0 = wall + step;
        // The step was taken before the clock was set: ask again for the record at this wall time.
        elector.not_written(Refusal::Definite);
        assert_eq!(elector.step(clock.now, 0.0), Step::Read);
        elector.read(clock.now, Some(record.clone()));
        let Step::Replace(renewed) = elector.step(clock.now, 0.0) else {
            panic!("must renew")
        };
        assert_ne!(renewed.renewed, record.renewed, "wall clock moved by {step} us");
        elector.written(clock.now, renewed.clone());
        record = renewed;
    }
}

/// Lets every call of a leader fail in `how` from now on. Returns after how many seconds it ceased to lead.
fn fail_until_lost(elector: &mut Elector, clock: &mut Clock, how: Refusal) -> (f64, usize) {
    let start = clock.now.monotonic;
    let mut tries = 0;
    while elector.tenure(clock.now).is_some() {
        match elector.step(clock.now, 0.5) {
            Step::Sleep(until) => {
                clock.pass((until - clock.now.monotonic).as_secs_f64());
            }
            Step::Read => elector.read_failed(),
            Step::Create(_) | Step::Replace(_) => {
                tries += 1;
                elector.not_written(how);
            }
        }
    }
    ((clock.now.monotonic - start).as_secs_f64(), tries)
}

#[test]
fn leading_ends_at_the_renew_deadline_and_before_anybody_may_take_over() {
    // B85: refused or unanswered, the leader stops at 10 s; others believe its record for 15 s.
    for how in [Refusal::Unknown, Refusal::Definite] {
        let mut clock = Clock::new();
        let (mut elector, _) = leader(&mut clock);
        let (after, tries) = fail_until_lost(&mut elector, &mut clock, how);
        assert!((after - 10.0).abs() < 0.001, "{after}");
        assert!(
            tries >= 3,
            "B93: at least three tries fit into the renew deadline, not {tries}"
        );
    }
}

#[test]
fn one_or_two_failed_renewals_do_not_cost_the_leadership() {
    for failures in [1, 2] {
        let mut clock = Clock::new();
        let (mut elector, record) = leader(&mut clock);
        for _ in 0..failures {
            assert!(matches!(wake(&mut elector, &mut clock), Step::Replace(_)));
            elector.not_written(Refusal::Unknown);
            assert_eq!(wake(&mut elector, &mut clock), Step::Read);
            elector.read_failed();
        }
        let Step::Replace(renewed) = wake(&mut elector, &mut clock) else {
            panic!("must renew")
        };
        assert!(elector.tenure(clock.now).is_some());
        elector.written(clock.now, renewed.clone());
        assert_eq!(
            (renewed.acquired, renewed.transitions),
            (record.acquired, record.transitions)
        );
        assert_eq!(
            elector.tenure(clock.now).unwrap().remaining(clock.now),
            Some(Duration::from_secs(10))
        );
    }
}

#[test]
fn a_loser_contends_again_for_ever() {
    // B88: three times in a row, and the Lease is still ours: it is resumed without a change of holder.
    let mut clock = Clock::new();
    let (mut elector, mut record) = leader(&mut clock);
    for _ in 0..3 {
        fail_until_lost(&mut elector, &mut clock, Refusal::Definite);
        clock.pass(20.0);
        let (write, _) = watch(&mut elector, &mut clock, Some(&record), 5.0).unwrap();
        let Step::Replace(resumed) = write else {
            panic!("{write:?}")
        };
        assert_eq!(
            (resumed.acquired, resumed.transitions),
            (record.acquired, record.transitions)
        );
        elector.written(clock.now, resumed.clone());
        assert!(elector.tenure(clock.now).is_some());
        record = resumed;
    }
    // Somebody else takes it: we step down, wait, and take it back.
    let taken = held_by(OTHER, 15, record.transitions + 1);
    assert!(matches!(wake(&mut elector, &mut clock), Step::Replace(_)));
    elector.not_written(Refusal::Definite);
    assert_eq!(elector.step(clock.now, 0.5), Step::Read);
    elector.read(clock.now, Some(taken.clone()));
    assert!(matches!(elector.step(clock.now, 0.5), Step::Sleep(_)));
    assert!(elector.tenure(clock.now).is_none());
    let (write, after) = watch(&mut elector, &mut clock, Some(&taken), 20.0).unwrap();
    let Step::Replace(back) = write else {
        panic!("{write:?}")
    };
    assert!((15.0..15.1).contains(&after), "{after}");
    assert_eq!(
        (back.transitions, back.acquired),
        (taken.transitions + 1, Some(clock.now.wall))
    );
}

#[test]
fn a_lost_reply_is_found_out_by_reading_back() {
    let mut clock = Clock::new();
    let (mut elector, _) = leader(&mut clock);
    let Step::Replace(renewed) = wake(&mut elector, &mut clock) else {
        panic!("must renew")
    };
    let sent = clock.now;
    clock.pass(5.0);
    elector.not_written(Refusal::Unknown);
    assert_eq!(elector.step(clock.now, 0.5), Step::Read);
    assert_eq!(elector.slow_renewals(), 1);
    elector.read(clock.now, Some(renewed.clone()));
    // The term counts from when the lost write was sent, not from now.
    assert_eq!(
        elector.tenure(clock.now).unwrap(),
        Tenure {
            renewed: sent,
            lasts: Duration::from_secs(10),
            transitions: 0
        }
    );
    assert!(matches!(elector.step(clock.now, 0.5), Step::Replace(_)));

    // A takeover whose reply is lost makes a leader too.
    let mut clock = Clock::new();
    let mut candidate = self::elector();
    let Some((Step::Replace(taken), _)) = watch(&mut candidate, &mut clock, Some(&held_by("", 1, 1)), 1.0) else {
        panic!("must take")
    };
    candidate.not_written(Refusal::Unknown);
    assert!(candidate.tenure(clock.now).is_none());
    let (step, _) = watch(&mut candidate, &mut clock, Some(&taken), 5.0).unwrap();
    assert!(candidate.tenure(clock.now).is_some());
    let Step::Replace(next) = step else { panic!("{step:?}") };
    assert_eq!((next.acquired, next.transitions), (taken.acquired, taken.transitions));
}

#[test]
fn a_write_that_happened_too_late_gives_no_right_to_go_on() {
    let mut clock = Clock::new();
    let mut candidate = elector();
    let Some((Step::Create(sent), _)) = watch(&mut candidate, &mut clock, None, 0.0) else {
        panic!("must create")
    };
    candidate.not_written(Refusal::Unknown);
    clock.pass(11.0);
    let (_, after) = watch(&mut candidate, &mut clock, Some(&sent), 20.0).unwrap();
    // Seen at the next look, at most 4.4 s later, and believed 15 s from there.
    assert!((15.0..19.5).contains(&after), "{after}");
}

#[test]
fn a_refused_create_means_that_somebody_holds_the_lease() {
    let mut clock = Clock::new();
    let mut candidate = elector();
    assert!(watch(&mut candidate, &mut clock, None, 0.0).is_some());
    candidate.not_written(Refusal::Definite);
    let (_, after) = watch(&mut candidate, &mut clock, None, 20.0).unwrap();
    assert!(
        (15.0..19.5).contains(&after),
        "deleted before it was ever read, yet taken after {after} s"
    );
}

/// In between another process may have made it, and somebody deleted it: its term may last.
#[test]
fn a_lease_that_was_absent_long_ago_is_waited_for_anew() {
    for (away, suspended, waits) in [(11.0, false, false), (16.0, false, true), (16.0, true, true)] {
        let mut clock = Clock::new();
        let mut candidate = elector();
        assert!(watch(&mut candidate, &mut clock, None, 0.0).is_some());
        candidate.not_written(Refusal::Unknown);
        let before = clock.now.monotonic;
        clock.pass(away);
        if suspended {
            clock.now.monotonic = before;
        }
        let (step, after) = watch(&mut candidate, &mut clock, None, 20.0).unwrap();
        assert!(matches!(step, Step::Create(_)), "{step:?}");
        let wanted = if waits { 15.0..19.5 } else { 0.0..4.5 };
        assert!(wanted.contains(&after), "{away} {suspended}: after {after} s");
    }
}

#[test]
fn a_reply_that_comes_after_the_deadline_makes_no_leader() {
    let mut clock = Clock::new();
    let (mut elector, _) = leader(&mut clock);
    let Step::Replace(renewed) = wake(&mut elector, &mut clock) else {
        panic!("must renew")
    };
    clock.pass(12.0);
    elector.written(clock.now, renewed.clone());
    assert!(elector.tenure(clock.now).is_none());
    // It is still ours, unchanged: resumed at the next look.
    assert!(watch(&mut elector, &mut clock, Some(&renewed), 5.0).is_some());
}

#[test]
fn a_leader_takes_a_deleted_or_cleared_lease_back_at_once() {
    for cleared in [false, true] {
        let mut clock = Clock::new();
        let (mut elector, record) = leader(&mut clock);
        assert!(matches!(wake(&mut elector, &mut clock), Step::Replace(_)));
        elector.not_written(Refusal::Definite);
        assert_eq!(elector.step(clock.now, 0.5), Step::Read);
        elector.read(
            clock.now,
            cleared.then(|| Record {
                holder: String::new(),
                ..record.clone()
            }),
        );
        let write = elector.step(clock.now, 0.5);
        assert!(elector.tenure(clock.now).is_some());
        match write {
            // B89: the Lease comes back as it was, the holder has not changed.
            Step::Create(back) if !cleared => {
                assert_eq!((back.acquired, back.transitions), (record.acquired, record.transitions));
            }
            Step::Replace(back) if cleared => assert_eq!((back.holder.as_str(), back.transitions), (ME, 1)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_tenure_is_bounded_by_both_clocks() {
    let clock = Clock::new();
    let tenure = Tenure {
        renewed: clock.now,
        lasts: Duration::from_secs(10),
        transitions: 0,
    };
    // (seconds on the monotonic clock, seconds on the wall clock, seconds left)
    for (monotonic, wall, left) in [
        (0, 0, Some(10)),
        (3, 3, Some(7)),
        (3, 9, Some(1)),
        (3, 10, None),       // suspended: the monotonic clock stood still
        (3, -3600, Some(7)), // set back: the monotonic bound holds
        (10, -3600, None),
        (10, 3, None),
        (3, 3600, None), // set forward: not leading until the next renewal
    ] {
        let now = Stamp {
            monotonic: clock.now.monotonic + Duration::from_secs(monotonic),
            wall: Micros(clock.now.wall.0 + wall * 1_000_000),
        };
        assert_eq!(
            tenure.remaining(now),
            left.map(Duration::from_secs),
            "{monotonic} s, {wall} s"
        );
    }
}

#[test]
fn calls_are_bounded_by_five_seconds_and_by_the_term() {
    let mut clock = Clock::new();
    assert_eq!(elector().call_limit(clock.now), Duration::from_secs(5));
    let (elector, _) = leader(&mut clock);
    assert_eq!(elector.call_limit(clock.now), Duration::from_secs(5));
    let later = clock.pass(7.0);
    assert_eq!(elector.call_limit(later), Duration::from_secs(3));
}

#[test]
fn a_release_ends_the_term_first() {
    let mut clock = Clock::new();
    let (mut elector, record) = leader(&mut clock);
    let now = clock.pass(1.0);
    let released = elector.release(now).unwrap();
    assert!(elector.tenure(now).is_none());
    assert!(released.is_released());
    assert_eq!(
        (released.transitions, released.renewed),
        (record.transitions, Some(now.wall))
    );
    // A candidate has nothing to release.
    let mut candidate = self::elector();
    watch(&mut candidate, &mut clock, Some(&held_by(OTHER, 15, 0)), 3.0);
    assert_eq!(candidate.release(clock.now), None);
}
