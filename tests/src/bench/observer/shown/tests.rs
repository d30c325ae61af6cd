use super::*;

const UNREADY: Said = Said::Endpoint {
    ready: false,
    serving: false,
    terminating: false,
};
const ENDING: Said = Said::Endpoint {
    ready: false,
    serving: true,
    terminating: true,
};

/// Milliseconds of each answer.
fn took(answered: impl IntoIterator<Item = Answered>) -> Vec<u128> {
    answered.into_iter().map(|it| it.took.as_millis()).collect()
}

/// Two Pods that are ready and listed.
fn two(start: Instant) -> Shown {
    let mut shown = Shown::default();
    for pod in ["a", "b"] {
        assert_eq!(shown.want(pod, Said::READY, start), None);
    }
    assert!(!shown.is_right());
    let answered = shown.show("s", b"1", &[("a", Said::READY), ("b", Said::READY)], start);
    assert_eq!(took(answered.unwrap()), [0, 0]);
    assert!(shown.is_right());
    shown
}

#[test]
fn a_change_is_answered_when_the_object_says_it() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(1000 + ms);
    let mut shown = two(start);
    shown.want("a", UNREADY, at(0));
    assert!(!shown.is_right());
    assert_eq!(shown.show("s", b"1", &[], at(5)), None, "the same text");
    let lists = [("a", UNREADY), ("b", Said::READY)];
    assert_eq!(took(shown.show("s", b"2", &lists, at(7)).unwrap()), [7]);
    assert!(shown.is_right());
}

#[test]
fn an_answer_that_overtakes_the_pod_took_no_time() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(1000 + ms);
    let mut shown = two(start);
    let lists = [("a", UNREADY), ("b", Said::READY)];
    assert_eq!(took(shown.show("s", b"2", &lists, at(0)).unwrap()), [0; 0]);
    assert!(!shown.is_right());
    assert_eq!(took(shown.want("a", UNREADY, at(1))), [0]);
    assert!(shown.is_right());
}

#[test]
fn a_change_taken_back_is_no_answer() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(1000 + ms);
    let mut shown = two(start);
    shown.want("a", UNREADY, at(0));
    assert_eq!(shown.want("a", Said::READY, at(300)), None);
    assert_eq!(shown.undone(), 2);
    assert!(shown.is_right());
}

#[test]
fn the_last_of_several_changes_answers_all_of_them() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(1000 + ms);
    let mut shown = two(start);
    shown.want("a", ENDING, at(0));
    shown.want("a", Said::Nothing, at(500));
    let mut apart = two(start);
    assert_eq!(
        took(shown.show("s", b"2", &[("b", Said::READY)], at(1100)).unwrap()),
        [1100, 600]
    );
    assert!(shown.is_right());

    apart.want("a", ENDING, at(0));
    apart.want("a", Said::Nothing, at(500));
    let lists = [("a", ENDING), ("b", Said::READY)];
    assert_eq!(took(apart.show("s", b"2", &lists, at(510)).unwrap()), [510]);
    assert!(!apart.is_right());
    assert_eq!(
        took(apart.show("s", b"3", &[("b", Said::READY)], at(520)).unwrap()),
        [20]
    );
}

#[test]
fn a_pod_may_move_from_one_slice_to_another() {
    let start = Instant::now();
    let mut shown = two(start);
    assert_eq!(
        took(shown.show("t", b"1", &[("a", Said::READY)], start).unwrap()),
        [0; 0]
    );
    assert_eq!(
        took(shown.show("s", b"2", &[("b", Said::READY)], start).unwrap()),
        [0; 0]
    );
    assert!(shown.is_right());
    shown.deleted("t", start);
    assert!(!shown.is_right());
    shown.deleted("s", start);
    assert!(!shown.exists());
}

#[test]
fn beyond_its_capacity_an_object_need_not_list_a_pod() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(1000 + ms);
    let mut shown = Shown::with_capacity(1);
    for pod in ["a", "b"] {
        shown.want(pod, Said::READY, start);
    }
    shown.show("s", b"1", &[("a", Said::READY)], start);
    assert!(shown.is_right());
    // One that is not listed goes and comes: nothing to say.
    shown.want("b", Said::Nothing, at(0));
    assert_eq!(shown.want("b", Said::READY, at(1)), None);
    assert!(shown.is_right());
    // One that is listed must go at once.
    shown.want("a", Said::Nothing, at(2));
    assert!(!shown.is_right());
    assert_eq!(took(shown.show("s", b"2", &[("b", Said::READY)], at(9)).unwrap()), [7]);
    assert!(shown.is_right());
}
