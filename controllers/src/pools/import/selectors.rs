//! Selectors of which one must match, as one selector: where that can be said.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// The label that the apiserver gives every namespace: its name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Selects namespaces of these names.
pub fn named(names: &[String]) -> LabelSelector {
    one_of(NAMESPACE_NAME, names.iter().cloned().collect())
}

/// What at least one of them selects; `None` if no single selector says so. Of no selectors: everything.
pub fn any_of(selectors: &[LabelSelector]) -> Option<LabelSelector> {
    if selectors.is_empty() || selectors.iter().any(is_empty) {
        return Some(LabelSelector::default());
    }
    if let [only] = selectors {
        return Some(only.clone());
    }
    let mut all: Option<(String, BTreeSet<String>)> = None;
    for selector in selectors {
        let (key, values) = alternatives(selector)?;
        match &mut all {
            None => all = Some((key, values)),
            Some((known, together)) if *known == key => together.extend(values),
            Some(_) => return None,
        }
    }
    all.map(|(key, values)| one_of(&key, values))
}

fn one_of(key: &str, values: BTreeSet<String>) -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: Some(values.into_iter().collect()),
        }]),
        match_labels: None,
    }
}

fn is_empty(selector: &LabelSelector) -> bool {
    labels(selector).next().is_none() && expressions(selector).is_empty()
}

fn labels(selector: &LabelSelector) -> impl Iterator<Item = (&String, &String)> {
    selector.match_labels.iter().flatten()
}

fn expressions(selector: &LabelSelector) -> &[LabelSelectorRequirement] {
    selector.match_expressions.as_deref().unwrap_or_default()
}

/// The values of the one label that it asks for.
fn alternatives(selector: &LabelSelector) -> Option<(String, BTreeSet<String>)> {
    let of_labels: BTreeMap<&String, &String> = labels(selector).collect();
    match (
        of_labels.into_iter().collect::<Vec<_>>().as_slice(),
        expressions(selector),
    ) {
        ([(key, value)], []) => Some(((*key).clone(), [(*value).clone()].into())),
        ([], [only]) if only.operator == "In" => {
            Some((only.key.clone(), only.values.iter().flatten().cloned().collect()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn any(selectors: Value) -> Option<Value> {
        let selectors: Vec<LabelSelector> = serde_json::from_value(selectors).unwrap();
        any_of(&selectors).map(|it| serde_json::to_value(it).unwrap())
    }

    #[test]
    fn alternatives_are_one_selector_where_they_are_of_one_label() {
        let is_in = |key: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
        let is = |key: &str, value: &str| json!({"matchLabels": {key: value}});
        let both = json!({"matchLabels": {"a": "x", "b": "y"}});
        let table = [
            (json!([]), Some(json!({}))),
            (json!([both]), Some(both.clone())),
            (json!([both, {}]), Some(json!({}))),
            (json!([is("a", "x"), is("a", "w")]), Some(is_in("a", &["w", "x"]))),
            (
                json!([is("a", "x"), is_in("a", &["y", "z"])]),
                Some(is_in("a", &["x", "y", "z"])),
            ),
            (json!([is("a", "x"), is("b", "x")]), None),
            (json!([is("a", "x"), both]), None),
            (
                json!([is("a", "x"), {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]),
                None,
            ),
        ];
        for (selectors, want) in table {
            assert_eq!(any(selectors.clone()), want, "{selectors}");
        }
        assert_eq!(
            serde_json::to_value(named(&["shop".into()])).unwrap(),
            is_in(NAMESPACE_NAME, &["shop"])
        );
    }
}
