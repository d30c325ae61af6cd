//! AdmissionReview v1: what the apiserver asks and what it is answered.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::cause::{Cause, MOST_CAUSES, quoted};

/// The `apiVersion` of a review.
pub const API_VERSION: &str = "admission.k8s.io/v1";

/// The `kind` of a review.
pub const KIND: &str = "AdmissionReview";

/// Why a body is no review: for the answer 400.
#[derive(Debug, Error)]
pub enum NotAReview {
    /// It is not JSON, or a field has a wrong type.
    #[error("the body is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// It is something else, or of a version that is not spoken here.
    #[error("the body is kind {kind:?} of {api_version:?}; send {KIND} of {API_VERSION}")]
    Kind {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        api_version: String,
    },
    /// It asks nothing.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// No answer could be matched to it.
    #[error("the AdmissionReview's request has no uid")]
    NoUid,
}

/// What the apiserver asks. The objects are read later: one that cannot be read still gets an answer with its uid.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// Names the question; the answer repeats it.
    #[serde(borrow, default)]
    pub uid: Cow<'a, str>,
    /// What is changed.
    #[serde(borrow, default)]
    pub resource: Resource<'a>,
    /// The part of it, such as `status`; empty for the object itself.
    #[serde(borrow, default)]
    pub sub_resource: Option<Cow<'a, str>>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[serde(borrow, default)]
    pub operation: Cow<'a, str>,
    /// Empty where a name is generated.
    #[serde(borrow, default)]
    pub name: Option<Cow<'a, str>>,
    /// The object's namespace.
    #[serde(borrow, default)]
    pub namespace: Option<Cow<'a, str>>,
    /// Who asks.
    #[serde(borrow, default)]
    pub user_info: UserInfo<'a>,
    /// Nothing will be stored.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// The object as it is to be.
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
    /// The object as it is stored.
    #[serde(borrow, default)]
    pub old_object: Option<&'a RawValue>,
}

/// `resource` of a request.
#[derive(Debug, Default, Deserialize)]
#[allow(missing_docs)]
pub struct Resource<'a> {
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    #[serde(borrow, default)]
    pub resource: Cow<'a, str>,
}

/// `userInfo` of a request.
#[derive(Debug, Default, Deserialize)]
#[allow(missing_docs)]
pub struct UserInfo<'a> {
    #[serde(borrow, default)]
    pub username: Cow<'a, str>,
}

impl<'a> Request<'a> {
    /// Reads the request of a review.
    ///
    /// # Errors
    /// The body is no review of version 1 with a request that has a uid.
    pub fn parse(body: &'a [u8]) -> Result<Self, NotAReview> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Review<'a> {
            #[serde(borrow, default)]
            api_version: Cow<'a, str>,
            #[serde(borrow, default)]
            kind: Cow<'a, str>,
            #[serde(borrow, default)]
            request: Option<Request<'a>>,
        }
        let review: Review<'a> = serde_json::from_slice(body)?;
        if review.kind != KIND || review.api_version != API_VERSION {
            return Err(NotAReview::Kind {
                kind: review.kind.chars().take(100).collect(),
                api_version: review.api_version.chars().take(100).collect(),
            });
        }
        let request = review.request.ok_or(NotAReview::NoRequest)?;
        if request.uid.is_empty() {
            Err(NotAReview::NoUid)
        } else {
            Ok(request)
        }
    }

    /// Is it a Service itself, not its status?
    pub fn is_service(&self) -> bool {
        let part = self.sub_resource.as_deref().unwrap_or_default();
        self.resource.group.is_empty() && self.resource.resource == "services" && part.is_empty()
    }
}

/// One operation of a JSON Patch (RFC 6902).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Sets a value, or inserts it into a list.
    Add {
        /// A JSON Pointer.
        path: String,
        /// What will be there.
        value: serde_json::Value,
    },
}

/// An answer in the making: allowed, without warnings and without a patch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Why it is refused; none: it is allowed.
    pub refusal: Option<Refusal>,
    /// What the user is told beside; kubectl prints them as `Warning: ...`.
    pub warnings: Vec<String>,
    /// What is changed in the object; nothing in a refused one.
    pub patch: Vec<PatchOperation>,
}

/// Why an object is refused: a Status like the apiserver's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    code: u16,
    reason: &'static str,
    message: String,
    kind: &'static str,
    name: String,
    causes: Vec<Cause>,
}

impl Refusal {
    /// Code 422, reason Invalid, with what is wrong field by field. `left_out` causes were not noted.
    pub fn invalid(kind: &'static str, name: &str, causes: &[Cause], left_out: usize) -> Self {
        let words: Vec<_> = causes.iter().take(MOST_CAUSES).map(ToString::to_string).collect();
        let more = if left_out > 0 {
            format!(" (and {left_out} more)")
        } else {
            String::new()
        };
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{kind} {} is invalid: {}{more}", quoted(name), words.join("; ")),
            kind,
            name: name.to_owned(),
            causes: causes.to_vec(),
        }
    }

    /// Code 403, reason Forbidden: for what is not wrong but not allowed here.
    pub fn forbidden(name: &str, causes: &[Cause]) -> Self {
        let words: Vec<_> = causes.iter().map(ToString::to_string).collect();
        Self {
            code: 403,
            reason: "Forbidden",
            message: format!("Service {} is not allowed: {}", quoted(name), words.join("; ")),
            kind: "Service",
            name: name.to_owned(),
            causes: causes.to_vec(),
        }
    }

    /// What is wrong, field by field.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Answer {
    /// Refused for this.
    pub fn refused(refusal: Refusal) -> Self {
        Self {
            refusal: Some(refusal),
            ..Self::default()
        }
    }

    /// The review that is sent back, as JSON. Without a refusal and with a patch it changes the object.
    ///
    /// # Errors
    /// Never in practice: a value in the patch that JSON cannot express.
    pub fn into_review(self, uid: &str) -> serde_json::Result<Vec<u8>> {
        let allowed = self.refusal.is_none();
        let patch = if allowed && !self.patch.is_empty() {
            Some(STANDARD.encode(serde_json::to_vec(&self.patch)?))
        } else {
            None
        };
        serde_json::to_vec(&Out {
            api_version: API_VERSION,
            kind: KIND,
            response: ResponseOut {
                uid,
                allowed,
                status: self.refusal.as_ref().map(StatusOut::of),
                patch_type: patch.is_some().then_some("JSONPatch"),
                patch,
                warnings: &self.warnings,
            },
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: ResponseOut<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseOut<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct StatusOut<'a> {
    status: &'static str,
    code: u16,
    reason: &'static str,
    message: &'a str,
    details: DetailsOut<'a>,
}

#[derive(Serialize)]
struct DetailsOut<'a> {
    name: &'a str,
    kind: &'static str,
    causes: Vec<CauseOut<'a>>,
}

#[derive(Serialize)]
struct CauseOut<'a> {
    reason: &'static str,
    message: &'a str,
    field: &'a str,
}

impl<'a> StatusOut<'a> {
    fn of(refusal: &'a Refusal) -> Self {
        let cause = |cause: &'a Cause| CauseOut {
            reason: cause.reason.as_str(),
            message: &cause.message,
            field: &cause.field,
        };
        Self {
            status: "Failure",
            code: refusal.code,
            reason: refusal.reason,
            message: &refusal.message,
            details: DetailsOut {
                name: &refusal.name,
                kind: refusal.kind,
                causes: refusal.causes.iter().map(cause).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cause::Reason;

    fn answered(answer: Answer) -> Value {
        serde_json::from_slice(&answer.into_review("u1").unwrap()).unwrap()
    }

    #[test]
    fn a_refusal_has_code_reason_and_causes() {
        let cause = Cause {
            field: "spec.type".into(),
            reason: Reason::NotSupported,
            message: "\"Foo\" is not known".into(),
        };
        let review = answered(Answer::refused(Refusal::invalid("Service", "web", &[cause], 2)));
        assert_eq!(
            review,
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u1", "allowed": false,
                "status": {"status": "Failure", "code": 422, "reason": "Invalid",
                    "message": "Service \"web\" is invalid: spec.type: \"Foo\" is not known (and 2 more)",
                    "details": {"name": "web", "kind": "Service", "causes": [{"reason": "FieldValueNotSupported",
                        "field": "spec.type", "message": "\"Foo\" is not known"}]}}}})
        );
    }

    #[test]
    fn the_patch_type_comes_with_a_patch_only() {
        let bare = answered(Answer::default());
        assert_eq!(bare["response"], json!({"uid": "u1", "allowed": true}));
        let operation = PatchOperation::Add {
            path: "/spec/clusterIP".into(),
            value: "10.96.0.7".into(),
        };
        let patched = answered(Answer {
            patch: vec![operation],
            warnings: vec!["w".into()],
            ..Answer::default()
        });
        assert_eq!(patched["response"]["patchType"], "JSONPatch");
        let patch = STANDARD.decode(patched["response"]["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(
            patch,
            json!([{"op": "add", "path": "/spec/clusterIP", "value": "10.96.0.7"}])
        );
        assert_eq!(patched["response"]["warnings"], json!(["w"]));
    }

    #[test]
    fn what_is_no_review() {
        for (body, words) in [
            ("", "EOF"),
            ("[]", "kind \"\""),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}"#,
                "v1beta1",
            ),
            (r#"{"kind":"Pod","apiVersion":"v1"}"#, "\"Pod\""),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
                "no request",
            ),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}"#,
                "no uid",
            ),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":1}}"#,
                "invalid type",
            ),
        ] {
            let error = Request::parse(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{body}: {error}");
        }
        let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert!(Request::parse(deep.as_bytes()).is_err());
    }
}
