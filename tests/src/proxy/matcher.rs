//! Which requests a rule or a count concerns.

use std::fmt;
use std::sync::Arc;

use http::Method;

use super::request::ApiRequest;

type Predicate = Arc<dyn Fn(&ApiRequest) -> bool + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Any,
    Write,
    Watch,
    List,
    ContinuedList,
}

/// Which requests a rule or a count concerns. Conditions are and-ed; an empty `Match` takes everything.
#[derive(Clone)]
pub struct Match {
    kind: Kind,
    resources: Vec<String>,
    methods: Vec<Method>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Option<String>,
    when: Option<Predicate>,
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind, self.resources)?;
        for text in [&self.subresource, &self.namespace, &self.name, &self.user_agent]
            .into_iter()
            .flatten()
        {
            write!(f, " {text:?}")?;
        }
        write!(
            f,
            " {:?}{}",
            self.methods,
            if self.when.is_some() { " when(..)" } else { "" }
        )
    }
}

impl Match {
    fn kind(kind: Kind) -> Self {
        Self {
            kind,
            resources: Vec::new(),
            methods: Vec::new(),
            subresource: None,
            namespace: None,
            name: None,
            user_agent: None,
            when: None,
        }
    }

    /// Every request.
    pub fn any() -> Self {
        Self::kind(Kind::Any)
    }

    /// POST, PUT, PATCH and DELETE of `resource`, subresources included.
    pub fn writes(resource: &str) -> Self {
        Self::kind(Kind::Write).resource(resource)
    }

    /// Writes of any resource.
    pub fn all_writes() -> Self {
        Self::kind(Kind::Write)
    }

    /// Watches of `resource`, streaming lists included.
    pub fn watches(resource: &str) -> Self {
        Self::kind(Kind::Watch).resource(resource)
    }

    /// Watches of any resource.
    pub fn all_watches() -> Self {
        Self::kind(Kind::Watch)
    }

    /// Lists of `resource` that are no watch: all pages.
    pub fn lists(resource: &str) -> Self {
        Self::kind(Kind::List).resource(resource)
    }

    /// Pages after the first of a list of `resource`.
    pub fn continued_lists(resource: &str) -> Self {
        Self::kind(Kind::ContinuedList).resource(resource)
    }

    /// Adds a plural resource name; any of those added matches.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resources.push(resource.to_owned());
        self
    }

    /// Adds an HTTP method; any of those added matches.
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Only this subresource; `""` is the object itself.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only requests within this namespace: one over all namespaces does not match.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only this object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only clients whose `User-Agent` contains this text.
    pub fn user_agent(mut self, part: &str) -> Self {
        self.user_agent = Some(part.to_owned());
        self
    }

    /// Only where `predicate` holds; it is asked last.
    pub fn when(mut self, predicate: impl Fn(&ApiRequest) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(predicate));
        self
    }

    /// Whether `request` is meant.
    pub fn matches(&self, request: &ApiRequest) -> bool {
        let kind = match self.kind {
            Kind::Any => true,
            Kind::Write => request.is_write(),
            Kind::Watch => request.is_watch,
            Kind::List => request.is_list && request.method == Method::GET,
            Kind::ContinuedList => request.is_list && request.is_continued,
        };
        let is = |wanted: &Option<String>, got: &String| wanted.as_ref().is_none_or(|w| w == got);
        kind && (self.resources.is_empty() || self.resources.contains(&request.resource))
            && (self.methods.is_empty() || self.methods.contains(&request.method))
            && is(&self.subresource, &request.subresource)
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && self
                .user_agent
                .as_ref()
                .is_none_or(|part| request.user_agent.contains(part))
            && self.when.as_ref().is_none_or(|holds| holds(request))
    }
}
