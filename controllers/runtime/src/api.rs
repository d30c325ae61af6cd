//! One call to the apiserver: under a deadline, with its outcome put into the few classes that callers act on.

use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use kube::core::Status;

use crate::args::format_duration;

/// A longer wait in seconds is not believed: an admission webhook's answer comes through with the wait it asks for, and work must not
/// rest for a day on its word.
const LONGEST_WAIT: u32 = 60;

/// Why a call did not succeed. `Display` is one line for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 404: the object is not there.
    NotFound,
    /// 409 `AlreadyExists`: a create met an object of that name.
    AlreadyExists,
    /// 409 `Conflict`: the resourceVersion or uid given is not the stored one.
    Conflict,
    /// 403 with cause `NamespaceTerminating`: nothing may be created there any more.
    NamespaceTerminating,
    /// Another 403; the text names user, verb and resource.
    Forbidden(String),
    /// 422: the apiserver found the object invalid; the text names the field.
    Invalid(String),
    /// 429, or another answer that says when to come back: in a minute at the latest.
    Throttled(Duration),
    /// Any other answer that is an error: its HTTP code and text.
    Refused(u16, String),
    /// No answer: not connected, or cut off. Whether the server acted is not known.
    Unreachable(String),
    /// An answer that says success and cannot be read.
    Garbled(String),
    /// No answer in time. Whether the server acted is not known.
    Deadline(Duration),
}

impl Failure {
    /// Closed set of words for a metric label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Forbidden(_) => "forbidden",
            Self::Invalid(_) => "invalid",
            Self::Throttled(_) => "throttled",
            Self::Refused(..) => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::Garbled(_) => "garbled",
            Self::Deadline(_) => "deadline",
        }
    }

    /// How long the server asked us to stay away, if it did.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Throttled(wait) => *wait,
            _ => Duration::ZERO,
        }
    }

    /// True if the server may have done what it was asked although this is all the answer there is.
    pub fn may_have_acted(&self) -> bool {
        match self {
            // A 504 comes with a Retry-After, too.
            Self::Unreachable(_) | Self::Garbled(_) | Self::Deadline(_) | Self::Throttled(_) => true,
            Self::Refused(code, _) => *code >= 500,
            _ => false,
        }
    }

    fn from_status(status: &Status) -> Self {
        let details = status.details.as_ref();
        let wait = details.map_or(0, |details| details.retry_after_seconds.min(LONGEST_WAIT));
        let terminating = details.is_some_and(|details| {
            details
                .causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        });
        match status.code {
            _ if terminating => Self::NamespaceTerminating,
            404 => Self::NotFound,
            409 if status.is_already_exists() => Self::AlreadyExists,
            409 => Self::Conflict,
            403 => Self::Forbidden(status.message.clone()),
            422 => Self::Invalid(status.message.clone()),
            // Priority and fairness answers in plain text, with the wait in a header that kube does not pass on: it is one second.
            429 => Self::Throttled(Duration::from_secs(u64::from(wait.max(1)))),
            code if wait > 0 && code >= 500 => Self::Throttled(Duration::from_secs(u64::from(wait))),
            code => Self::Refused(code, status.message.clone()),
        }
    }
}

impl From<&kube::Error> for Failure {
    fn from(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status),
            kube::Error::SerdeError(error) => Self::Garbled(error.to_string()),
            other => Self::Unreachable(innermost(other)),
        }
    }
}

/// Which failures of something that is tried for ever are worth a line: each new one, and a lasting one once a minute.
#[derive(Debug, Default)]
pub struct Repeated {
    said: Option<Said>,
}

#[derive(Debug)]
struct Said {
    since: Instant,
    failure: Failure,
    at: Instant,
}

impl Repeated {
    /// If `failure` at `now` should be said: for how long nothing has worked. The first time that is no time at all.
    pub fn news(&mut self, failure: &Failure, now: Instant) -> Option<Duration> {
        let known = self.said.as_ref().is_some_and(|said| {
            same(&said.failure, failure) && now.saturating_duration_since(said.at) < Duration::from_mins(1)
        });
        if known {
            return None;
        }
        let since = self.said.as_ref().map_or(now, |said| said.since);
        self.said = Some(Said {
            since,
            failure: failure.clone(),
            at: now,
        });
        Some(now.saturating_duration_since(since))
    }

    /// What was last said, if it has not been over since.
    pub fn last(&self) -> Option<&Failure> {
        self.said.as_ref().map(|said| &said.failure)
    }

    /// It works again. After how long, if a failure had been said.
    pub fn over(&mut self, now: Instant) -> Option<Duration> {
        let said = self.said.take()?;
        Some(now.saturating_duration_since(said.since))
    }
}

/// A part of a sentence about what does not work: nothing at first, later `, for 1m18s now`.
pub fn lasting(time: Duration) -> String {
    if time.is_zero() {
        return String::new();
    }
    format!(", for {} now", in_seconds(time))
}

/// `1m18s`.
pub fn in_seconds(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs()))
}

/// How long was waited, or is to be waited, makes no other trouble of it.
fn same(one: &Failure, other: &Failure) -> bool {
    match (one, other) {
        (Failure::Deadline(_), Failure::Deadline(_)) | (Failure::Throttled(_), Failure::Throttled(_)) => true,
        _ => one == other,
    }
}

/// The first line of the error at the bottom of a chain: "connection refused" rather than five layers that each repeat it. The layer above
/// is taken if it says the same and more, such as which file there is none of.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let (mut last, mut above) = (error, error);
    while let Some(source) = last.source() {
        above = last;
        last = source;
    }
    let (text, more) = (last.to_string(), above.to_string());
    let text = if more.contains(&text) { more } else { text };
    text.lines().next().unwrap_or_default().to_owned()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("not found"),
            Self::AlreadyExists => f.write_str("an object of that name already exists"),
            Self::Conflict => f.write_str("the object was changed by somebody else meanwhile"),
            Self::NamespaceTerminating => f.write_str("the namespace is being deleted"),
            Self::Forbidden(text) => write!(f, "not permitted: {text}"),
            Self::Invalid(text) => write!(f, "refused as invalid: {text}"),
            Self::Throttled(wait) => write!(f, "the apiserver asks to come back in {} s", wait.as_secs()),
            Self::Refused(code, text) => write!(f, "the apiserver answered {code}: {text}"),
            Self::Unreachable(text) => write!(f, "no answer from the apiserver: {text}"),
            Self::Garbled(text) => write!(f, "the apiserver's answer cannot be understood: {text}"),
            Self::Deadline(limit) => write!(f, "no answer from the apiserver within {limit:?}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Runs one call and gives up at `deadline`.
pub async fn call<T>(deadline: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer.map_err(|error| Failure::from(&error)),
        Err(_elapsed) => Err(Failure::Deadline(deadline)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::{StatusCause, StatusDetails};

    fn status(code: u16, reason: &str, details: Option<StatusDetails>) -> Failure {
        let mut status = Status::failure("text", reason).with_code(code);
        status.details = details;
        Failure::from(&kube::Error::Api(Box::new(status)))
    }

    fn details(cause: &str, wait: u32) -> StatusDetails {
        let cause = StatusCause {
            reason: cause.into(),
            message: String::new(),
            field: String::new(),
        };
        StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: wait,
        }
    }

    #[test]
    fn answers_are_told_apart_by_reason_and_code() {
        let table = [
            (status(404, "NotFound", None), Failure::NotFound),
            (status(409, "AlreadyExists", None), Failure::AlreadyExists),
            (status(409, "Conflict", None), Failure::Conflict),
            (
                status(403, "Forbidden", Some(details("NamespaceTerminating", 0))),
                Failure::NamespaceTerminating,
            ),
            (status(403, "Forbidden", None), Failure::Forbidden("text".into())),
            (status(422, "Invalid", None), Failure::Invalid("text".into())),
            (
                status(429, "TooManyRequests", Some(details("", 7))),
                Failure::Throttled(Duration::from_secs(7)),
            ),
            (status(429, "", None), Failure::Throttled(Duration::from_secs(1))),
            (
                status(503, "ServiceUnavailable", Some(details("", 3))),
                Failure::Throttled(Duration::from_secs(3)),
            ),
            // Also the answer of an admission webhook comes through with its own idea of the wait.
            (
                status(429, "TooManyRequests", Some(details("", 86_400))),
                Failure::Throttled(Duration::from_mins(1)),
            ),
            (
                status(504, "Timeout", Some(details("", u32::MAX))),
                Failure::Throttled(Duration::from_mins(1)),
            ),
            (status(500, "InternalError", None), Failure::Refused(500, "text".into())),
        ];
        for (got, want) in table {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn a_lasting_failure_is_said_once_a_minute() {
        let (mut repeated, now) = (Repeated::default(), Instant::now());
        let second = Duration::from_secs(1);
        let mut at = |failure: Failure, seconds: u32| repeated.news(&failure, now + seconds * second);
        assert_eq!(at(Failure::NotFound, 0), Some(Duration::ZERO));
        assert_eq!(at(Failure::NotFound, 59), None);
        assert_eq!(at(Failure::NotFound, 60), Some(60 * second));
        assert_eq!(at(Failure::Conflict, 61), Some(61 * second));
        assert_eq!(at(Failure::Deadline(5 * second), 62), Some(62 * second));
        assert_eq!(at(Failure::Deadline(2 * second), 63), None);
        assert_eq!(repeated.last(), Some(&Failure::Deadline(5 * second)));
        assert_eq!(repeated.over(now + 70 * second), Some(70 * second));
        assert_eq!(repeated.over(now + 71 * second), None);
        let again = repeated.news(&Failure::NotFound, now + 72 * second);
        assert_eq!(again, Some(Duration::ZERO), "a new trouble");
    }

    #[test]
    fn how_long_it_lasts_is_said_in_seconds() {
        assert_eq!(lasting(Duration::ZERO), "");
        assert_eq!(lasting(Duration::from_millis(78_900)), ", for 1m18s now");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_taken_for_none() {
        let error = serde_json::from_str::<u8>("x").unwrap_err();
        let failure = Failure::from(&kube::Error::SerdeError(error));
        assert!(failure.may_have_acted());
        assert!(
            failure
                .to_string()
                .starts_with("the apiserver's answer cannot be understood"),
            "{failure}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends_at_its_deadline() {
        let limit = Duration::from_secs(10);
        let outcome = call(limit, std::future::pending::<kube::Result<()>>()).await;
        assert_eq!(outcome, Err(Failure::Deadline(limit)));
    }
}
