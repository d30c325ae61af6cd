//! The answers the proxy gives in the apiserver's place: `Status` objects as the apiserver words them.

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::request::ApiRequest;

/// A failure `Status` with its HTTP code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: u16,
    reason: &'static str,
    /// `None`: worded for the request it answers.
    message: Option<String>,
    retry_after: Option<u64>,
    /// The body is this text and no `Status`.
    text: Option<&'static str>,
}

impl Refusal {
    /// Any code with a reason of `metav1.StatusReason` and a message.
    pub fn new(code: u16, reason: &'static str, message: &str) -> Self {
        Self {
            code,
            reason,
            message: Some(message.to_owned()),
            retry_after: None,
            text: None,
        }
    }

    /// 409 `Conflict`: what a stale resourceVersion gets.
    pub fn conflict() -> Self {
        Self {
            message: None,
            ..Self::new(409, "Conflict", "")
        }
    }

    /// 410 `Expired`: the resourceVersion of a watch or list is no longer kept.
    pub fn expired() -> Self {
        Self::new(410, "Expired", "too old resource version: 1 (2)")
    }

    /// 410 `Expired` as a page after the first gets it when its continue token is too old.
    pub fn expired_continue() -> Self {
        Self::new(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result. You must start a new list \
             without the continue parameter.",
        )
    }

    /// 429 `TooManyRequests` with `Retry-After` in seconds.
    pub fn too_many_requests(retry_after: u64) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(
                429,
                "TooManyRequests",
                "The apiserver has received too many requests; please try again later.",
            )
        }
    }

    /// 429 as priority and fairness says it: a header and a line of text, no `Status`.
    pub fn overloaded() -> Self {
        Self {
            retry_after: Some(1),
            text: Some("Too many requests, please try again later.\n"),
            ..Self::new(429, "TooManyRequests", "")
        }
    }

    /// 502 as a load balancer in front of the apiserver says it: a page of HTML.
    pub fn bad_gateway() -> Self {
        Self {
            text: Some("<html><body><h1>502 Bad Gateway</h1></body></html>\n"),
            ..Self::new(502, "", "")
        }
    }

    /// 500 `InternalError`.
    pub fn internal_error() -> Self {
        Self::new(
            500,
            "InternalError",
            "Internal error occurred: injected by the fault proxy",
        )
    }

    /// 503 `ServiceUnavailable`.
    pub fn unavailable() -> Self {
        Self::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        )
    }

    /// The HTTP code.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The `Status` object that answers `request`.
    pub(super) fn status(&self, request: &ApiRequest) -> Value {
        let message = self.message.clone().unwrap_or_else(|| {
            format!(
                "Operation cannot be fulfilled on {} {:?}: the object has been modified; please apply your changes to \
                 the latest version and try again",
                request.resource, request.name
            )
        });
        let mut details = json!({"name": request.name, "group": request.group, "kind": request.resource});
        if let Some(seconds) = self.retry_after {
            details["retryAfterSeconds"] = json!(seconds);
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": self.reason, "details": details, "code": self.code,
        })
    }

    /// The whole HTTP answer to `request`.
    pub(super) fn response(&self, request: &ApiRequest) -> http::Response<Bytes> {
        let (kind, body) = match self.text {
            Some(text) => ("text/plain; charset=utf-8", Bytes::from_static(text.as_bytes())),
            None => ("application/json", Bytes::from(self.status(request).to_string())),
        };
        let mut response = http::Response::new(body);
        *response.status_mut() =
            http::StatusCode::from_u16(self.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, http::HeaderValue::from(seconds));
        }
        response
    }
}
