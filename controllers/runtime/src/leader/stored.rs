//! The Lease as it is stored. The election's fields are read each by itself, so that one that a person has spoilt does not
//! hide the others; whatever else the Lease holds, of later versions too, goes back as it was read.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use serde_json::{Map, Value};

use super::record::{Micros, Record};

/// Leases of `namespace`. Not as `k8s_openapi`'s type: that refuses the whole object for one time it cannot represent,
/// such as any of the last day of the year 9999.
pub(super) fn leases(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &resource())
}

/// A Lease to be created.
pub(super) fn new(metadata: ObjectMeta) -> DynamicObject {
    DynamicObject {
        metadata,
        ..DynamicObject::new("", &resource())
    }
}

fn resource() -> ApiResource {
    ApiResource::erase::<Lease>(&())
}

/// The election's part of `lease`.
pub(super) fn record_of(lease: &DynamicObject) -> Record {
    let field = |name| lease.data.get("spec").and_then(|spec| spec.get(name));
    let text = |name| field(name).and_then(Value::as_str);
    let number = |name| {
        field(name)
            .and_then(Value::as_i64)
            .and_then(|it| i32::try_from(it).ok())
    };
    let mut unreadable = String::new();
    let mut time = |name| {
        let text = text(name)?;
        let Ok(time) = text.parse::<Timestamp>() else {
            unreadable = format!("{unreadable}{name}={text} ");
            return None;
        };
        Some(Micros(time.as_microsecond()))
    };
    Record {
        holder: text("holderIdentity").unwrap_or_default().to_owned(),
        duration_seconds: number("leaseDurationSeconds"),
        acquired: time("acquireTime"),
        renewed: time("renewTime"),
        transitions: number("leaseTransitions").unwrap_or_default(),
        unreadable,
    }
}

/// `lease` with the election's part replaced.
pub(super) fn with_record(mut lease: DynamicObject, record: &Record) -> DynamicObject {
    let mut data = object(lease.data.take());
    let mut spec = object(data.remove("spec").unwrap_or_default());
    let fields = [
        ("holderIdentity", Some(record.holder.clone().into())),
        ("leaseDurationSeconds", record.duration_seconds.map(Value::from)),
        ("acquireTime", record.acquired.and_then(time)),
        ("renewTime", record.renewed.and_then(time)),
        ("leaseTransitions", Some(record.transitions.into())),
    ];
    for (name, value) in fields {
        match value {
            Some(value) => spec.insert(name.to_owned(), value),
            None => spec.remove(name),
        };
    }
    data.insert("spec".to_owned(), spec.into());
    lease.data = data.into();
    lease
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// With exactly six digits after the point: the apiserver takes no other number of them.
fn time(time: Micros) -> Option<Value> {
    let time = Timestamp::from_microsecond(time.0).ok()?;
    serde_json::to_value(MicroTime(time)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "svcplane"}, "spec": spec}))
            .unwrap()
    }

    #[test]
    fn times_have_six_digits_whatever_they_end_in() {
        // B91.
        for (micros, text) in [
            (1_700_000_000_204_817, "2023-11-14T22:13:20.204817Z"),
            (1_700_000_000_500_000, "2023-11-14T22:13:20.500000Z"),
            (1_700_000_000_000_000, "2023-11-14T22:13:20.000000Z"),
            (1_700_000_000_000_001, "2023-11-14T22:13:20.000001Z"),
        ] {
            let time = Some(Micros(micros));
            let record = Record {
                holder: "a".to_owned(),
                duration_seconds: Some(15),
                acquired: time,
                renewed: time,
                transitions: 2,
                unreadable: String::new(),
            };
            let lease = with_record(new(ObjectMeta::default()), &record);
            let json = serde_json::to_value(&lease).unwrap();
            assert_eq!(
                (&json["spec"]["acquireTime"], &json["spec"]["renewTime"]),
                (&json!(text), &json!(text))
            );
            assert_eq!(
                (&json["kind"], &json["apiVersion"]),
                (&json!("Lease"), &json!("coordination.k8s.io/v1"))
            );
            assert_eq!(record_of(&serde_json::from_value(json).unwrap()), record);
        }
        let finer = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_700_000_000_204_817_309);
        assert_eq!(Micros::from(finer), Micros(1_700_000_000_204_817));
    }

    #[test]
    fn a_time_that_cannot_be_read_hides_nothing_else_and_tells_records_apart() {
        let with = |renewed: &str| {
            record_of(&stored(
                &json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed, "leaseTransitions": 3}),
            ))
        };
        let first = with("9999-12-31T23:59:59.000000Z");
        assert_eq!(
            (first.holder.as_str(), first.duration_seconds, first.transitions),
            ("a", Some(15), 3)
        );
        assert_eq!(first.renewed, None);
        assert_ne!(first, with("10000-01-01T00:59:59.000000Z"));
        assert_eq!(first, with("9999-12-31T23:59:59.000000Z"));
        assert_eq!(with("2023-11-14T22:13:20.500000Z").unreadable, "");
    }

    #[test]
    fn what_is_not_the_elections_goes_back_as_it_came() {
        let before = stored(
            &json!({"holderIdentity": "a", "strategy": "OldestEmulationVersion", "ofALaterVersion": {"deep": [1, 2]}}),
        );
        let after = with_record(
            before,
            &Record {
                holder: "b".to_owned(),
                ..Record::default()
            },
        );
        let after = serde_json::to_value(after).unwrap();
        assert_eq!(
            after["spec"],
            json!({"holderIdentity": "b", "leaseTransitions": 0, "strategy": "OldestEmulationVersion", "ofALaterVersion": {"deep": [1, 2]}})
        );
        assert_eq!(after["metadata"]["name"], "svcplane");
    }

    #[test]
    fn a_lease_without_a_spec_is_an_empty_record() {
        assert_eq!(record_of(&stored(&Value::Null)), Record::default());
        assert_eq!(record_of(&new(ObjectMeta::default())), Record::default());
    }
}
