//! Selectors and classes that name what no object is called.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use svcplane_allocators::pools::FieldError;

use super::PoolSelector;
use crate::names::{Faults, dns_label, label_value, qualified_name};

/// Namespaces and labels that the apiserver takes nowhere.
pub fn faults(selector: &PoolSelector) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, name) in selector.namespaces.iter().flatten().enumerate() {
        note(
            &mut errors,
            format!("spec.selector.namespaces[{index}]"),
            name,
            "names no namespace",
            &dns_label(name),
        );
    }
    for (field, selector) in [
        ("namespaceSelector", &selector.namespace_selector),
        ("serviceSelector", &selector.service_selector),
    ] {
        if let Some(selector) = selector {
            of_labels(&mut errors, &format!("spec.selector.{field}"), selector);
        }
    }
    errors
}

/// Classes that no Service can have.
pub fn class_faults(classes: &[String]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, class) in classes.iter().enumerate().filter(|(_, class)| !class.is_empty()) {
        note(
            &mut errors,
            format!("spec.classes[{index}]"),
            class,
            "is the class of no Service",
            &qualified_name(class),
        );
    }
    errors
}

fn of_labels(errors: &mut Vec<FieldError>, path: &str, selector: &LabelSelector) {
    for (key, value) in selector.match_labels.iter().flatten() {
        let field = format!("{path}.matchLabels");
        note(
            errors,
            field.clone(),
            key,
            "is the key of no label",
            &qualified_name(key),
        );
        note(
            errors,
            format!("{field}[{key}]"),
            value,
            "is the value of no label",
            &label_value(value),
        );
    }
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        of_requirement(errors, &format!("{path}.matchExpressions[{index}]"), requirement);
    }
}

fn of_requirement(errors: &mut Vec<FieldError>, path: &str, requirement: &LabelSelectorRequirement) {
    let LabelSelectorRequirement { key, operator, values } = requirement;
    let values = values.as_deref().unwrap_or_default();
    note(
        errors,
        format!("{path}.key"),
        key,
        "is the key of no label",
        &qualified_name(key),
    );
    for (index, value) in values.iter().enumerate() {
        note(
            errors,
            format!("{path}.values[{index}]"),
            value,
            "is the value of no label",
            &label_value(value),
        );
    }
    // Another operator cannot be read at all.
    let wrong = match (operator.as_str(), values) {
        ("In" | "NotIn", []) => "needs values to compare with",
        ("Exists" | "DoesNotExist", [_, ..]) => "takes no values",
        _ => return,
    };
    errors.push(FieldError {
        field: format!("{path}.values"),
        value: operator.clone(),
        message: wrong.to_owned(),
    });
}

fn note(errors: &mut Vec<FieldError>, field: String, value: &str, what: &str, faults: &Faults) {
    if !faults.is_empty() {
        errors.push(FieldError {
            field,
            value: value.to_owned(),
            message: format!("{what}: {}", faults.join("; ")),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(selector: Value) -> Vec<String> {
        let selector: PoolSelector = serde_json::from_value(selector).unwrap();
        faults(&selector).into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn what_no_object_is_called_is_named_with_its_field() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let table = [
            (
                json!({"namespaces": ["shop", "Bank", "a.b", ""]}),
                vec![
                    "spec.selector.namespaces[1]",
                    "spec.selector.namespaces[2]",
                    "spec.selector.namespaces[3]",
                ],
            ),
            (
                json!({"namespaceSelector": {"matchLabels": {"te am": "front"}}}),
                vec!["spec.selector.namespaceSelector.matchLabels"],
            ),
            (
                json!({"serviceSelector": {"matchLabels": {"team": "fr ont", "a.example/b": ""}}}),
                vec!["spec.selector.serviceSelector.matchLabels[team]"],
            ),
            (
                json!({"serviceSelector": expression("-x", "Exists", &[])}),
                vec!["spec.selector.serviceSelector.matchExpressions[0].key"],
            ),
            (
                json!({"serviceSelector": expression("x", "In", &["ok", "no no"])}),
                vec!["spec.selector.serviceSelector.matchExpressions[0].values[1]"],
            ),
            (
                json!({"serviceSelector": expression("x", "In", &[])}),
                vec!["spec.selector.serviceSelector.matchExpressions[0].values"],
            ),
            (
                json!({"serviceSelector": expression("x", "Exists", &["y"])}),
                vec!["spec.selector.serviceSelector.matchExpressions[0].values"],
            ),
            (
                json!({"namespaces": [], "namespaceSelector": {}, "serviceSelector": {"matchLabels": {"tier": "web"}}}),
                vec![],
            ),
        ];
        let classes = ["svcplane.io/lb", "", "Bad Class!"].map(String::from);
        assert_eq!(class_faults(&classes)[0].field, "spec.classes[2]");
        assert_eq!(class_faults(&classes[..2]), []);
        for (selector, want) in table {
            assert_eq!(fields(selector.clone()), want, "{selector}");
        }
    }
}
