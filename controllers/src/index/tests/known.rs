//! An object whose content is at hand need not be read again.

use super::*;

/// What may happen to one Endpoints object.
#[derive(Clone, Debug)]
enum Step {
    Shown(u64, u8),
    Gone(u64),
    Sent(u8),
    Ended(WriteEnd),
    Listed,
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u64, 0..3_u8).prop_map(|(revision, content)| Step::Shown(revision, content)),
        1 => (0..12_u64).prop_map(Step::Gone),
        2 => (0..3_u8).prop_map(Step::Sent),
        2 => (1..12_u64).prop_map(|revision| Step::Ended(WriteEnd::Stored(Uid::parse("u"), Revision(revision)))),
        1 => Just(Step::Ended(WriteEnd::Refused)),
        1 => Just(Step::Ended(WriteEnd::Unknown)),
        1 => Just(Step::Listed),
    ]
}

proptest! {
    /// Told that it shows what is known, the index does as if it had been given the whole object.
    #[test]
    fn a_known_object_is_taken_as_a_whole_one(steps in proptest::collection::vec(some_step(), 0..24)) {
        let with = |content: u8, revision: u64| {
            let mut object = endpoints("web", "u", revision, true);
            object.annotations = labels(&[("content", &content.to_string())]);
            object
        };
        let (mut whole, mut known) = (Index::default(), Index::default());
        for index in [&mut whole, &mut known] {
            index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
        }
        for step in steps {
            for index in [&mut whole, &mut known] {
                match step.clone() {
                    Step::Shown(..) => {}
                    Step::Gone(revision) => index.delete_endpoints(&key("web"), Revision(revision)),
                    Step::Sent(content) => index.expect_endpoints(&Arc::new(with(content, 0))),
                    Step::Ended(end) => index.finish_endpoints(&key("web"), end),
                    Step::Listed => {
                        index.begin(Kind::Endpoints);
                        index.sweep(Kind::Endpoints);
                    }
                }
            }
            if let Step::Shown(revision, content) = step {
                let object = with(content, revision);
                let at_hand = known.known_endpoints(&key("web")).into_iter().flatten();
                match at_hand.into_iter().find(|known| known.annotations == object.annotations) {
                    Some(at_hand) => known.apply_known_endpoints(&at_hand, object.uid.clone(), object.revision),
                    None => known.apply_endpoints(object.clone()),
                }
                whole.apply_endpoints(object);
            }
            prop_assert_eq!(whole.take_affected(), known.take_affected());
            prop_assert_eq!(whole.snapshot(&key("web")).endpoints, known.snapshot(&key("web")).endpoints);
        }
    }
}
