//! From the stored object to what the books need. Every error names its field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use kube::core::{Selector, SelectorExt as _};
use svcplane_allocators::pools::{
    self, ClusterIpHoldings, FieldError, Mode, NodePortHoldings, PoolTerms, parse_cluster_ip_pool, parse_node_port_pool,
};
use svcplane_runtime::args::duration;

use super::{ClusterIPPool, NodePortPool, PoolMode, PoolSpec};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The longest `spec.reuseDelay`.
const LONGEST_REST: Duration = Duration::from_hours(7 * 24);

/// A pool that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool<H> {
    /// All but its values.
    pub terms: Arc<PoolTerms>,
    /// Its values.
    pub holdings: H,
    /// Which Services it is for.
    pub selection: Selection,
    /// `metadata.generation`.
    pub generation: i64,
}

/// Which Services a pool is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    namespaces: Option<BTreeSet<String>>,
    by_namespace: Option<Selector>,
    by_service: Option<Selector>,
}

impl Selection {
    /// Which field keeps the pool from being for a Service with these labels in this namespace; `None` if it is for it.
    pub fn mismatch(&self, namespace: &str, namespace_labels: &Labels, labels: &Labels) -> Option<&'static str> {
        let Self {
            namespaces,
            by_namespace,
            by_service,
        } = self;
        if namespaces.as_ref().is_some_and(|names| !names.contains(namespace)) {
            return Some("spec.selector.namespaces");
        }
        let differs = |selector: &Option<Selector>, labels: &Labels| {
            let selector = selector.as_ref();
            selector.is_some_and(|selector| !selector.matches(labels))
        };
        if differs(by_namespace, namespace_labels) {
            return Some("spec.selector.namespaceSelector");
        }
        differs(by_service, labels).then_some("spec.selector.serviceSelector")
    }
}

/// Reads a ClusterIPPool.
///
/// # Errors
/// What is wrong, field by field.
pub fn read_cluster_ip_pool(pool: &ClusterIPPool) -> Result<Pool<ClusterIpHoldings>, Vec<FieldError>> {
    read(&pool.metadata, &pool.spec.pool, parse_cluster_ip_pool)
}

/// Reads a NodePortPool.
///
/// # Errors
/// What is wrong, field by field.
pub fn read_node_port_pool(pool: &NodePortPool) -> Result<Pool<NodePortHoldings>, Vec<FieldError>> {
    read(&pool.metadata, &pool.spec.pool, parse_node_port_pool)
}

pub(super) fn read<H>(
    metadata: &ObjectMeta,
    spec: &PoolSpec,
    values: impl Fn(&pools::PoolSpec) -> Result<H, Vec<FieldError>>,
) -> Result<Pool<H>, Vec<FieldError>> {
    let mut errors = Vec::new();
    let holdings = values(&pools::PoolSpec {
        ranges: spec.ranges.clone(),
        excluded: spec.excluded.clone(),
        reservations: spec
            .reservations
            .iter()
            .map(|kept| (kept.value.clone(), kept.service.clone()))
            .collect(),
    })
    .map_err(|wrong| errors.extend(wrong))
    .ok();
    let selection = selection(spec, &mut errors);
    let reuse_delay = rest(spec.reuse_delay.as_deref(), &mut errors);
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    let terms = PoolTerms {
        name: metadata.name.as_deref().unwrap_or_default().into(),
        created: created.unwrap_or(i64::MAX),
        priority: spec.priority,
        auto_assign: spec.auto_assign,
        mode: match spec.mode {
            PoolMode::Active => Mode::Active,
            PoolMode::Drain => Mode::Drain,
            PoolMode::Disabled => Mode::Disabled,
        },
        enforce: spec.enforce,
        reuse_delay,
    };
    match holdings {
        Some(holdings) if errors.is_empty() => Ok(Pool {
            terms: Arc::new(terms),
            holdings,
            selection,
            generation: metadata.generation.unwrap_or_default(),
        }),
        _ => Err(errors),
    }
}

fn selection(spec: &PoolSpec, errors: &mut Vec<FieldError>) -> Selection {
    let Some(selector) = &spec.selector else {
        return Selection::default();
    };
    let mut labels = |field: &str, selector: &Option<LabelSelector>| {
        let unknown = unknown_operators(field, selector.as_ref()?);
        if !unknown.is_empty() {
            errors.extend(unknown);
            return None;
        }
        let read = Selector::try_from(selector.clone()?);
        let wrong = |error: &dyn std::fmt::Display| FieldError {
            field: format!("spec.selector.{field}"),
            value: String::new(),
            message: format!("cannot be used: {error}"),
        };
        read.map_err(|error| errors.push(wrong(&error))).ok()
    };
    Selection {
        namespaces: selector
            .namespaces
            .as_ref()
            .map(|names| names.iter().cloned().collect()),
        by_namespace: labels("namespaceSelector", &selector.namespace_selector),
        by_service: labels("serviceSelector", &selector.service_selector),
    }
}

fn unknown_operators(field: &str, selector: &LabelSelector) -> Vec<FieldError> {
    let requirements = selector.match_expressions.iter().flatten().enumerate();
    let unknown = requirements.filter(|(_, it)| !["In", "NotIn", "Exists", "DoesNotExist"].contains(&&*it.operator));
    unknown
        .map(|(index, requirement)| FieldError {
            field: format!("spec.selector.{field}.matchExpressions[{index}].operator"),
            value: requirement.operator.clone(),
            message: "must be In, NotIn, Exists or DoesNotExist".into(),
        })
        .collect()
}

fn rest(text: Option<&str>, errors: &mut Vec<FieldError>) -> Duration {
    let Some(text) = text else {
        return Duration::ZERO;
    };
    match duration(text) {
        Ok(rest) if rest <= LONGEST_REST => rest,
        _ => {
            errors.push(FieldError {
                field: "spec.reuseDelay".into(),
                value: text.into(),
                message: "must be a duration of at most 168h, such as 30s, 10m or 24h".into(),
            });
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selection: &Selection, namespace: &str, namespace_labels: &Labels, labels: &Labels) -> bool {
        selection.mismatch(namespace, namespace_labels, labels).is_none()
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    }

    fn pool(spec: &serde_json::Value) -> Result<Pool<ClusterIpHoldings>, Vec<FieldError>> {
        let object = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "ClusterIPPool",
            "metadata": {"name": "front", "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": spec});
        read_cluster_ip_pool(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_is_left_out_has_a_value() {
        let pool = pool(&json!({"ranges": ["10.96.0.0/24"]})).unwrap();
        let terms = &*pool.terms;
        assert_eq!((&*terms.name, terms.created), ("front", 1_767_323_045));
        assert_eq!(
            (
                terms.priority,
                terms.auto_assign,
                terms.mode,
                terms.enforce,
                terms.reuse_delay
            ),
            (0, true, Mode::Active, false, Duration::ZERO)
        );
        assert!(selects(&pool.selection, "any", &labels(&[]), &labels(&[])));
        assert_eq!(pool.holdings.ipv4.values.count(), 256);
    }

    #[test]
    fn parts_of_a_selector_must_all_match() {
        let select = |selector: serde_json::Value| {
            pool(&json!({"ranges": ["10.96.0.1"], "selector": selector}))
                .unwrap()
                .selection
        };
        let (team, web) = (labels(&[("team", "a")]), labels(&[("app", "web")]));
        let both = select(json!({"namespaceSelector": {"matchLabels": {"team": "a"}},
            "serviceSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}}));
        assert!(selects(&both, "x", &team, &web));
        assert!(!selects(&both, "x", &team, &labels(&[])));
        assert!(!selects(&both, "x", &labels(&[]), &web));
        let named = select(json!({"namespaces": ["shop"]}));
        assert!(selects(&named, "shop", &team, &web) && !selects(&named, "x", &team, &web));
        let nobody = select(json!({"namespaces": []}));
        assert!(!selects(&nobody, "shop", &team, &web));
        let everyone = select(json!({"namespaceSelector": {}, "serviceSelector": {}}));
        assert!(selects(&everyone, "x", &labels(&[]), &labels(&[])));
    }

    #[test]
    fn all_that_is_wrong_is_told_by_field() {
        let errors = pool(&json!({"ranges": ["10.96.0.300"], "reuseDelay": "200h",
            "reservations": [{"value": "10.96.0.7", "service": "web"}],
            "selector": {"serviceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}))
        .unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        for field in [
            "spec.ranges[0]",
            "spec.reservations[0].service",
            "spec.selector.serviceSelector.matchExpressions[0].operator",
            "spec.reuseDelay",
        ] {
            assert!(fields.contains(&field), "{field}: {fields:?}");
        }
    }
}
