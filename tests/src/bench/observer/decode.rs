//! The little that is read of a watch event. Borrowed from its line: this is done for every event beside what is measured.

use serde::Deserialize;

use super::shown::Said;

#[derive(Deserialize)]
pub struct Event<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    #[serde(borrow)]
    pub object: Object<'a>,
}

/// A Pod, an Endpoints object or an EndpointSlice.
#[derive(Deserialize)]
pub struct Object<'a> {
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    #[serde(default, borrow)]
    subsets: Option<Vec<Subset<'a>>>,
    #[serde(default, borrow)]
    endpoints: Option<Vec<Endpoint<'a>>>,
    #[serde(default, borrow)]
    status: Option<Status<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta<'a> {
    #[serde(default)]
    pub name: &'a str,
    #[serde(default)]
    pub namespace: &'a str,
    #[serde(default, borrow)]
    pub labels: Option<Labels<'a>>,
    #[serde(default)]
    deletion_timestamp: Option<&'a str>,
}

#[derive(Deserialize)]
pub struct Labels<'a> {
    #[serde(default)]
    pub app: Option<&'a str>,
    #[serde(default, rename = "kubernetes.io/service-name")]
    pub service_name: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    #[serde(default)]
    phase: Option<&'a str>,
    #[serde(default, rename = "podIP")]
    pod_ip: Option<&'a str>,
    #[serde(default, borrow)]
    conditions: Option<Vec<Condition<'a>>>,
}

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    status: &'a str,
}

#[derive(Deserialize)]
struct Subset<'a> {
    #[serde(default, borrow)]
    addresses: Option<Vec<Address<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address<'a> {
    #[serde(default, borrow)]
    target_ref: Option<Target<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    #[serde(default)]
    conditions: Option<Conditions>,
    #[serde(default, borrow)]
    target_ref: Option<Target<'a>>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
struct Target<'a> {
    name: &'a str,
}

impl<'a> Object<'a> {
    /// What Endpoints say: a Pod is among the ready addresses, or nothing.
    pub fn in_endpoints(&self) -> Vec<(&'a str, Said)> {
        let subsets = self.subsets.iter().flatten();
        let addresses = subsets.filter_map(|subset| subset.addresses.as_ref()).flatten();
        addresses
            .filter_map(|address| Some((address.target_ref.as_ref()?.name, Said::READY)))
            .collect()
    }

    /// What a slice says.
    pub fn in_slice(&self) -> Vec<(&'a str, Said)> {
        let endpoints = self.endpoints.iter().flatten();
        endpoints
            .filter_map(|endpoint| {
                let none = Conditions::default();
                let conditions = endpoint.conditions.as_ref().unwrap_or(&none);
                let said = Said::Endpoint {
                    ready: conditions.ready.unwrap_or_default(),
                    serving: conditions.serving.unwrap_or_default(),
                    terminating: conditions.terminating.unwrap_or_default(),
                };
                Some((endpoint.target_ref.as_ref()?.name, said))
            })
            .collect()
    }

    /// What slices should say of this Pod.
    pub fn pod(&self) -> Said {
        let Some(status) = &self.status else {
            return Said::Nothing;
        };
        if status.pod_ip.is_none() || matches!(status.phase, Some("Succeeded" | "Failed")) {
            return Said::Nothing;
        }
        let mut conditions = status.conditions.iter().flatten();
        let serving = conditions.any(|condition| condition.kind == "Ready" && condition.status == "True");
        let terminating = self.metadata.deletion_timestamp.is_some();
        Said::Endpoint {
            ready: serving && !terminating,
            serving,
            terminating,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(line: &str) -> Said {
        serde_json::from_str::<Event<'_>>(line).unwrap().object.pod()
    }

    #[test]
    fn a_pod_is_ready_or_ends() {
        let status =
            r#""status":{"phase":"Running","podIP":"10.0.0.1","conditions":[{"type":"Ready","status":"True"}]}"#;
        let line = |meta: &str| format!(r#"{{"type":"ADDED","object":{{"metadata":{{{meta}}},{status}}}}}"#);
        assert_eq!(pod(&line("")), Said::READY);
        let ending = Said::Endpoint {
            ready: false,
            serving: true,
            terminating: true,
        };
        assert_eq!(pod(&line(r#""deletionTimestamp":"2026-01-01T00:00:00Z""#)), ending);
        assert_eq!(pod(&line("").replace(r#""podIP":"10.0.0.1","#, "")), Said::Nothing);
        assert_eq!(pod(&line("").replace("Running", "Failed")), Said::Nothing);
    }
}
