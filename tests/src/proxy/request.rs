//! What a request asks for, read from its line, its headers and, for creations, its body.

use http::{Method, header, request::Parts};

use super::wire::Meta;

/// One request to the apiserver, in Kubernetes' terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiRequest {
    /// The HTTP method.
    pub method: Method,
    /// The path without the query.
    pub path: String,
    /// The query without the question mark; empty if there is none.
    pub query: String,
    /// API group; empty for the core group and for paths that name no resource.
    pub group: String,
    /// Plural resource name, such as `endpoints`; empty for paths that name no resource (`/version`).
    pub resource: String,
    /// Such as `status` or `binding`; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped resources and for requests over all namespaces.
    pub namespace: String,
    /// Object name; for a creation it is taken from the body, and is empty while only `generateName` is known.
    pub name: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// A watch, including a streaming list.
    pub is_watch: bool,
    /// A GET or DELETE of a collection, watches excluded.
    pub is_list: bool,
    /// A list that carries a continue token: any page after the first.
    pub is_continued: bool,
    /// The caller asked that nothing be stored (`dryRun`).
    pub is_dry_run: bool,
}

impl ApiRequest {
    /// Reads the request head. `body` is what the body says about the object, if it has one.
    pub(super) fn read(parts: &Parts, body: Option<&Meta>) -> Self {
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let mut request = Self {
            method: parts.method.clone(),
            user_agent: parts
                .headers
                .get(header::USER_AGENT)
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            ..Self::default()
        };
        request.read_path(&path);
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "watch" => request.is_watch = matches!(value, "true" | "1" | ""),
                "continue" => request.is_continued = !value.is_empty(),
                "dryRun" => request.is_dry_run = true,
                _ => {}
            }
        }
        let named = !request.name.is_empty();
        request.is_list = !request.resource.is_empty()
            && !named
            && !request.is_watch
            && matches!(request.method, Method::GET | Method::DELETE);
        if request.method == Method::POST && !named {
            request.name = body.map(|m| m.name.clone()).unwrap_or_default();
        }
        request.path = path;
        request.query = query;
        request
    }

    fn read_path(&mut self, path: &str) {
        let mut parts = path.trim_matches('/').split('/');
        match parts.next() {
            Some("api") => {}
            Some("apis") => parts.next().unwrap_or_default().clone_into(&mut self.group),
            _ => return,
        }
        let rest: Vec<&str> = parts.skip(1).collect();
        let rest = match rest.as_slice() {
            // `namespaces/x/status` and `/finalize` are subresources of the Namespace itself.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => rest.as_slice(),
            ["namespaces", namespace, below @ ..] => {
                (*namespace).clone_into(&mut self.namespace);
                below
            }
            all => all,
        };
        let mut rest = rest.iter();
        for field in [&mut self.resource, &mut self.name, &mut self.subresource] {
            rest.next().copied().unwrap_or_default().clone_into(field);
        }
    }

    /// POST, PUT, PATCH or DELETE on a resource that can be stored: access reviews are questions.
    pub fn is_write(&self) -> bool {
        let stored = !self.resource.is_empty() && !self.resource.ends_with("accessreviews");
        stored && matches!(self.method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, uri: &str) -> ApiRequest {
        let (parts, ()) = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("user-agent", "svcplane/1")
            .body(())
            .unwrap()
            .into_parts();
        ApiRequest::read(
            &parts,
            Some(&Meta {
                name: "in-body".into(),
                ..Meta::default()
            }),
        )
    }

    #[test]
    fn paths_are_read_as_the_apiserver_reads_them() {
        // method, URI, [group, resource, subresource, namespace, name]
        let table = [
            (Method::GET, "/api/v1/pods", ["", "pods", "", "", ""]),
            (Method::GET, "/api/v1/namespaces/a/pods", ["", "pods", "", "a", ""]),
            (
                Method::PUT,
                "/api/v1/namespaces/a/pods/p/status",
                ["", "pods", "status", "a", "p"],
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/endpoints",
                ["", "endpoints", "", "a", "in-body"],
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/binding",
                ["", "pods", "binding", "a", "p"],
            ),
            (Method::GET, "/api/v1/namespaces", ["", "namespaces", "", "", ""]),
            (Method::GET, "/api/v1/namespaces/a", ["", "namespaces", "", "", "a"]),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                ["", "namespaces", "finalize", "", "a"],
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/s/leases/l",
                ["coordination.k8s.io", "leases", "", "s", "l"],
            ),
            (Method::GET, "/version", ["", "", "", "", ""]),
            (Method::GET, "/apis/apps/v1", ["apps", "", "", "", ""]),
        ];
        for (method, uri, want) in table {
            let got = read(method, uri);
            assert_eq!(
                [&got.group, &got.resource, &got.subresource, &got.namespace, &got.name],
                want,
                "{uri}"
            );
            assert_eq!(got.user_agent, "svcplane/1");
        }
    }

    #[test]
    fn watches_lists_and_pages_are_told_apart() {
        // URI, [watch, list, continued]
        let table = [
            ("/api/v1/pods?limit=500", [false, true, false]),
            ("/api/v1/pods?limit=500&continue=abc", [false, true, true]),
            ("/api/v1/pods?watch=true&resourceVersion=7", [true, false, false]),
            ("/api/v1/pods?watch=1&sendInitialEvents=true", [true, false, false]),
            ("/api/v1/pods?watch=false", [false, true, false]),
            ("/api/v1/namespaces/a/pods/p", [false, false, false]),
            ("/readyz?watch=0", [false, false, false]),
        ];
        for (uri, want) in table {
            let got = read(Method::GET, uri);
            assert_eq!([got.is_watch, got.is_list, got.is_continued], want, "{uri}");
        }
        assert!(read(Method::DELETE, "/api/v1/namespaces/a/pods").is_write());
        assert!(!read(Method::POST, "/healthz").is_write());
        assert!(!read(Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").is_write());
    }
}
