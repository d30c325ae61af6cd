//! What the apiserver says to a request.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use kube::Client;
use kube::core::Status;
use serde_json::Value;

/// Fields and reasons, as in `details.causes`.
pub(super) type Causes = BTreeSet<(String, String)>;

/// The apiserver's answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// The object as it is now.
    Accepted(Value),
    /// 422.
    Refused {
        /// What is wrong.
        causes: Causes,
        /// It depends on what is allocated, or on flags of the apiserver.
        allocation: bool,
        /// In its words.
        message: String,
    },
    /// Any other code, or none.
    Failed {
        /// The code; 0 where there was no answer: a handler of the apiserver that panics ends the connection.
        code: u16,
        /// In its words.
        message: String,
    },
}

/// What only the allocator says, and only of values that are taken, out of range or of a family that is not there.
const ALLOCATION: &[&str] = &[
    "failed to allocate IP",
    "provided port is already allocated",
    "provided port is not in the valid range",
    "not configured on this cluster",
    "this cluster is not configured for dual-stack services",
];

impl Answer {
    fn of(status: &Status) -> Self {
        if status.code != 422 {
            return Self::Failed {
                code: status.code,
                message: status.message.clone(),
            };
        }
        let causes = status.details.iter().flat_map(|details| &details.causes);
        Self::Refused {
            allocation: causes
                .clone()
                .any(|cause| ALLOCATION.iter().any(|words| cause.message.contains(words))),
            causes: causes
                .map(|cause| (cause.field.clone(), cause.reason.clone()))
                .collect(),
            message: status.message.clone(),
        }
    }

    /// The object, where nothing else is expected.
    pub(super) fn accepted(self) -> Result<Value> {
        match self {
            Self::Accepted(object) => Ok(object),
            other => bail!("refused: {other:?}"),
        }
    }
}

/// Sends one request.
pub(super) async fn send(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
    let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)?;
    match client.request(request).await {
        Ok(object) => Ok(Answer::Accepted(object)),
        Err(kube::Error::Api(status)) => Ok(Answer::of(&status)),
        Err(error) => Ok(Answer::Failed {
            code: 0,
            message: format!("{method} {path}: {error:?}"),
        }),
    }
}
