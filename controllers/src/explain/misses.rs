//! Pods that a Service misses by a hair.

use serde::Serialize;

use super::objects::{Objects, SeenPod};
use crate::model::{Labels, ObjectKey, PodName};

/// A Pod that is nearly matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Miss {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// What keeps it out.
    pub why: String,
}

/// Pods of the same namespace of which one label is wrong, or any number in letter case alone, and Pods of other namespaces of which all are
/// right.
///
/// Where the selector has one label only, that alone would be every Pod of the namespace: then a Pod counts if its value is written nearly
/// the same or stands under another key, or, after all others, if the Service matches nobody at all.
pub fn near(objects: &Objects) -> Vec<Miss> {
    let Some(selector) = objects.service.selector.as_ref().filter(|it| !it.is_empty()) else {
        return Vec::new();
    };
    if !objects.service.is_followed() {
        return Vec::new();
    }
    let alone = objects.snapshot.pods.is_empty();
    let pods = objects.pods.iter().flatten();
    let found = |(name, seen): (&PodName, &SeenPod), alone| {
        let why = near_miss(selector, &seen.labels, alone)?;
        Some(miss(&ObjectKey::new(objects.key.namespace.clone(), name.clone()), why))
    };
    let (near, far): (Vec<_>, Vec<_>) = pods.partition(|(_, seen)| near_miss(selector, &seen.labels, false).is_some());
    let here = near.into_iter().filter_map(|pod| found(pod, false));
    let last = far.into_iter().filter(|_| alone).filter_map(|pod| found(pod, true));
    let elsewhere = objects.elsewhere.iter().flatten();
    let elsewhere = elsewhere.map(|key| {
        let why = "its labels match, but a Service has Pods of its own namespace only";
        miss(key, why.to_owned())
    });
    here.chain(elsewhere).chain(last).collect()
}

fn miss(key: &ObjectKey, why: String) -> Miss {
    Miss {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        why,
    }
}

/// What is wrong if letter case is, or else one label; `alone`: the Service matches nobody.
fn near_miss(selector: &Labels, labels: &Labels, alone: bool) -> Option<String> {
    let wrong = selector.iter().filter(|(key, value)| labels.get(key) != Some(*value));
    let (mut slips, mut others) = (Vec::new(), Vec::new());
    for (key, wanted) in wrong {
        match slip(key, wanted, labels) {
            Some(words) => slips.push(words),
            None => others.push((key, wanted)),
        }
    }
    let &[(key, wanted)] = others.as_slice() else {
        return (others.is_empty() && !slips.is_empty()).then(|| slips.join("; "));
    };
    if !slips.is_empty() {
        return None;
    }
    let under_other_key = labels.iter().find(|(_, value)| *value == wanted).map(|(key, _)| key);
    let single = selector.len() == 1;
    match (labels.get(key), under_other_key) {
        (Some(value), _) if !single || alone || is_alike(value, wanted) => {
            Some(format!("label {key} is {value:?}, not {wanted:?}"))
        }
        (value, Some(other)) if single => {
            let is = value.map_or_else(|| "missing".to_owned(), |value| format!("{value:?}"));
            Some(format!("label {key} is {is}; {wanted:?} is the value of {other}"))
        }
        (None, _) if !single => Some(format!("label {key} is missing; it should be {wanted:?}")),
        _ => None,
    }
}

/// A label that is the wanted one but for letter case, in words.
fn slip(key: &str, wanted: &str, labels: &Labels) -> Option<String> {
    let mut all = labels.iter();
    let (own, value) = all.find(|(own, value)| own.eq_ignore_ascii_case(key) && value.eq_ignore_ascii_case(wanted))?;
    Some(format!("label {own}={value} is not {key}={wanted}: letter case counts"))
}

/// Whether one may be a slip of the pen for the other: equal but for case, the beginning of the other, or few letters apart.
fn is_alike(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    if one.is_empty() || other.is_empty() {
        return false;
    }
    let letters = one.chars().count().min(other.chars().count());
    one.starts_with(&other) || other.starts_with(&one) || distance(&one, &other) <= (letters / 3).clamp(1, 3)
}

/// Letters to put in, take out, or exchange.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.chars().enumerate() {
        let mut diagonal = place;
        let mut left = place + 1;
        let mut next = vec![left];
        for (wanted, above) in other.iter().zip(row.iter().skip(1)) {
            let exchanged = diagonal + usize::from(letter != *wanted);
            left = exchanged.min(left + 1).min(above + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::fixtures::labels;

    #[test]
    fn letters_apart() {
        for (one, other, want) in [
            ("web", "web", 0),
            ("web", "wbe", 2),
            ("", "web", 3),
            ("kitten", "sitting", 3),
            ("web", "webb", 1),
        ] {
            assert_eq!(
                (distance(one, other), distance(other, one)),
                (want, want),
                "{one} {other}"
            );
        }
        for (one, other) in [
            ("web", "Web"),
            ("web", "web-v2"),
            ("frontend", "frontned"),
            ("web", "wab"),
        ] {
            assert!(is_alike(one, other), "{one} {other}");
        }
        for (one, other) in [("web", "db"), ("cart", "web"), ("", "web")] {
            assert!(!is_alike(one, other), "{one} {other}");
        }
    }

    #[test]
    fn one_label_is_near_and_two_are_not() {
        let two = labels(&[("app", "web"), ("tier", "front")]);
        let one = labels(&[("app", "web")]);
        let table = [
            (
                &two,
                vec![("app", "web"), ("tier", "back")],
                false,
                Some(r#"label tier is "back", not "front""#),
            ),
            (
                &two,
                vec![("app", "web")],
                false,
                Some(r#"label tier is missing; it should be "front""#),
            ),
            (&two, vec![("app", "db"), ("tier", "back")], true, None),
            (
                &one,
                vec![("app", "webb")],
                false,
                Some(r#"label app is "webb", not "web""#),
            ),
            (&one, vec![("app", "cart")], false, None),
            (
                &one,
                vec![("app", "cart")],
                true,
                Some(r#"label app is "cart", not "web""#),
            ),
            (
                &one,
                vec![("name", "web")],
                false,
                Some(r#"label app is missing; "web" is the value of name"#),
            ),
            (
                &one,
                vec![("app", "cart"), ("name", "web")],
                false,
                Some(r#"label app is "cart"; "web" is the value of name"#),
            ),
            (&one, vec![], true, None),
            (
                &one,
                vec![("app", "Web")],
                false,
                Some("label app=Web is not app=web: letter case counts"),
            ),
            (
                &one,
                vec![("App", "web")],
                false,
                Some("label App=web is not app=web: letter case counts"),
            ),
            (
                &one,
                vec![("APP", "WEB")],
                false,
                Some("label APP=WEB is not app=web: letter case counts"),
            ),
            (
                &two,
                vec![("App", "web"), ("tier", "Front")],
                false,
                Some(
                    "label App=web is not app=web: letter case counts; label tier=Front is not tier=front: letter case counts",
                ),
            ),
            (&two, vec![("App", "web"), ("tier", "back")], true, None),
        ];
        for (selector, pod, alone, want) in table {
            assert_eq!(
                near_miss(selector, &labels(&pod), alone).as_deref(),
                want,
                "{pod:?} {alone}"
            );
        }
    }
}
