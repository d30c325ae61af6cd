use super::*;

fn listed(ip: &str) -> Item {
    let listed = Listed {
        addresses: vec![ip.to_owned()],
        ready: true,
        ..Listed::default()
    };
    Item {
        listed,
        ports: Vec::new(),
    }
}

fn with(ip: &str, change: impl FnOnce(&mut Listed)) -> Item {
    let mut item = listed(ip);
    change(&mut item.listed);
    item
}

fn pod(ip: &str, name: &str) -> Item {
    with(ip, |it| it.target = Some(format!("Pod {name}")))
}

#[test]
fn endpoints_are_matched_by_all_that_they_are_and_then_by_less() {
    let unready = |ip: &str, name: &str| {
        let mut item = pod(ip, name);
        item.listed.ready = false;
        item
    };
    let table = [
        (vec![listed("10.1.0.1")], vec![listed("10.1.0.1")], vec![]),
        // Two Pods of one address, as on the Node's network: each is its own.
        (
            vec![pod("10.1.0.1", "a"), pod("10.1.0.1", "b")],
            vec![unready("10.1.0.1", "b"), pod("10.1.0.1", "a")],
            vec!["10.1.0.1: ready -> not ready"],
        ),
        // One address, another Pod.
        (
            vec![pod("10.1.0.1", "a")],
            vec![pod("10.1.0.1", "b")],
            vec!["10.1.0.1: targetRef Pod a -> Pod b"],
        ),
        (
            vec![pod("10.1.0.1", "a"), listed("10.1.0.9")],
            vec![unready("10.1.0.2", "a"), listed("10.1.0.9")],
            vec!["+10.1.0.2 (not ready)", "-10.1.0.1"],
        ),
        (
            vec![with("10.1.0.1", |it| it.serving = Some(true))],
            vec![with("10.1.0.1", |it| {
                it.terminating = Some(true);
                it.hostname = Some("web-0".into());
                it.hints = vec!["zone a".into(), "zone b".into(), "node n1".into()];
            })],
            vec!["10.1.0.1: ready -> ready though terminating, hostname none -> web-0, hints none -> a b node n1"],
        ),
    ];
    for (before, after, want) in table {
        assert_eq!(endpoints_differ(&before, &after), want, "{before:?} {after:?}");
    }
}

#[test]
fn many_differences_are_cut_and_counted() {
    let before: Vec<Item> = (0..100).map(|number| listed(&format!("10.1.0.{number:03}"))).collect();
    let words = finished(endpoints_differ(&before, &[]));
    assert_eq!((words.len(), &*words[7], &*words[8]), (9, "-10.1.0.007", "and 92 more"));
    assert_eq!(finished(Vec::new()), ["the same in another form"]);
}
