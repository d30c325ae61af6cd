//! Reads the objects of one Service from the apiserver.

use std::time::Duration;

use http::Uri;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::{Deserialize, Deserializer};
use svcplane_runtime::api::{Failure, call};

use super::objects::{Text, Texts, selector};
use crate::endpointslice::SERVICE_NAME_LABEL;
use crate::listing::some;
use crate::model::{Labels, ObjectKey};
use crate::permissions::{Right, complaint};
use crate::wire::{WireEndpoints, WireNode, WirePod, WireService, WireSlice};

/// What one answer may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Objects in one answer.
const PAGE: u32 = 500;

/// Why there is nothing to tell.
#[derive(Debug)]
pub enum Trouble {
    /// There is no such Service.
    NoService(Absent),
    /// The Service itself may not be read.
    NotPermitted(Right),
    /// Reading these failed.
    Failed(&'static str, Failure),
    /// An answer that is none.
    Garbled(String),
}

impl Trouble {
    /// One line; `server`: who was asked.
    pub fn told(&self, server: &Uri) -> String {
        match self {
            Self::NoService(absent) => absent.told(),
            Self::NotPermitted(right) => complaint(std::slice::from_ref(right)),
            Self::Failed(what, failure) => format!("cannot read {what} from {server}: {failure}"),
            Self::Garbled(text) => text.clone(),
        }
    }
}

/// A Service that there is not.
#[derive(Debug)]
pub struct Absent {
    key: ObjectKey,
    /// There is no such namespace either.
    namespace_too: bool,
    /// Namespaces that have a Service of that name, as far as they may be read.
    elsewhere: Vec<String>,
}

impl Absent {
    /// What cannot be found out about it is left out.
    async fn look(client: &Client, key: &ObjectKey) -> Self {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let services: Api<WireService> = Api::all(client.clone());
        let same_name = ListParams::default().fields(&format!("metadata.name={}", key.name));
        let (namespace, others) = tokio::join!(
            call(LIMIT, namespaces.get_metadata(&key.namespace)),
            call(LIMIT, services.list_metadata(&same_name)),
        );
        let mut elsewhere: Vec<String> = others
            .into_iter()
            .flat_map(|list| list.items)
            .filter_map(|it| it.metadata.namespace)
            .collect();
        elsewhere.sort_unstable();
        Self {
            key: key.clone(),
            namespace_too: matches!(namespace, Err(Failure::NotFound)),
            elsewhere,
        }
    }

    fn told(&self) -> String {
        let ObjectKey { namespace, name } = &self.key;
        let here = if self.namespace_too {
            format!("there is no namespace {namespace}")
        } else {
            format!("there is no Service {name} in namespace {namespace}")
        };
        if self.elsewhere.is_empty() {
            return here;
        }
        format!("{here}; there is a Service {name} in {}", some(&self.elsewhere))
    }
}

/// Reads them. What may not be read is left out and named.
pub async fn gather(client: &Client, key: &ObjectKey) -> Result<Texts, Trouble> {
    let namespace = Some(&*key.namespace);
    let service = match get::<WireService>(client, namespace, &key.name).await {
        Ok(service) => service,
        Err(Failure::NotFound) => return Err(Trouble::NoService(Absent::look(client, key).await)),
        Err(Failure::Forbidden(_)) => return Err(Trouble::NotPermitted(right("get", "", "services", namespace))),
        Err(failure) => return Err(Trouble::Failed("the Service", failure)),
    };
    let selector = selector(&service)
        .map_err(Trouble::Garbled)?
        .filter(|it| !it.is_empty());
    let all = ListParams::default();
    let matching = all
        .clone()
        .labels(&selector.as_ref().map(selector_text).unwrap_or_default());
    let named = all.clone().labels(&format!("{SERVICE_NAME_LABEL}={}", key.name));
    let everywhere = async {
        match &selector {
            Some(_) => list::<WirePod>(client, None, &matching).await,
            None => Ok(Vec::new()),
        }
    };
    let (pods, everywhere, endpoints, slices, nodes, services, place) = tokio::join!(
        list::<WirePod>(client, namespace, &all),
        everywhere,
        get::<WireEndpoints>(client, namespace, &key.name),
        list::<WireSlice>(client, namespace, &named),
        list::<WireNode>(client, None, &all),
        list::<WireService>(client, namespace, &all),
        get::<Namespace>(client, None, &key.namespace),
    );
    let endpoints = match endpoints {
        Err(Failure::NotFound) => Ok(Vec::new()),
        other => other.map(|text| vec![text]),
    };
    // Who may not see it is not told of its end, which is all that it is read for.
    let place = match place {
        Err(Failure::NotFound | Failure::Forbidden(_)) => None,
        other => Some(other.map_err(|failure| Trouble::Failed("the Namespace", failure))?),
    };
    let mut unread = Vec::new();
    let mut known = |what, answer, right: Right| permitted(what, answer, &right, &mut unread);
    Ok(Texts {
        service,
        pods: known("Pods", pods, right("list", "", "pods", namespace))?,
        everywhere: known("Pods of other namespaces", everywhere, right("list", "", "pods", None))?,
        endpoints: known("Endpoints", endpoints, right("get", "", "endpoints", namespace))?,
        slices: known(
            "EndpointSlices",
            slices,
            right("list", "discovery.k8s.io", "endpointslices", namespace),
        )?,
        nodes: known("Nodes", nodes, right("list", "", "nodes", None))?,
        namespace: place,
        services: known("other Services", services, right("list", "", "services", namespace))?,
        unread,
    })
}

fn right(verb: &'static str, group: &'static str, resource: &'static str, namespace: Option<&str>) -> Right {
    Right::new(verb, group, resource, namespace)
}

fn permitted(
    what: &'static str,
    answer: Result<Vec<Text>, Failure>,
    right: &Right,
    unread: &mut Vec<String>,
) -> Result<Option<Vec<Text>>, Trouble> {
    match answer {
        Ok(texts) => Ok(Some(texts)),
        Err(Failure::Forbidden(_)) => {
            unread.push(format!("{what}: missing permission: {right}"));
            Ok(None)
        }
        Err(failure) => Err(Trouble::Failed(what, failure)),
    }
}

fn selector_text(selector: &Labels) -> String {
    let pairs: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// One page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default, deserialize_with = "nullable")]
    items: Vec<Text>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// The apiserver sends an empty list as null.
fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Text>, D::Error> {
    Option::<Vec<Text>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

async fn list<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Vec<Text>, Failure> {
    let path = Request::new(K::url_path(&(), namespace));
    let mut params = params.clone().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let request = path
            .list(&params)
            .map_err(|error| Failure::Garbled(error.to_string()))?;
        let page: Page = call(LIMIT, client.request(request)).await?;
        all.extend(page.items);
        match page.metadata.next.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

async fn get<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
) -> Result<Text, Failure> {
    let path = Request::new(K::url_path(&(), namespace));
    let request = path.get(name, &GetParams::default());
    let request = request.map_err(|error| Failure::Garbled(error.to_string()))?;
    call(LIMIT, client.request(request)).await
}
