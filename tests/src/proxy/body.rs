//! The body the client gets, counted as it goes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes, Frame, SizeHint};

use super::record::{Outcome, Records};
use super::stream::BodyError;

pub(super) type Inner = UnsyncBoxBody<Bytes, BodyError>;

/// A reply body that writes its length and its end into the record of its request.
pub(super) struct ClientBody {
    inner: Inner,
    records: Arc<Records>,
    seq: u64,
    bytes: u64,
    /// The outcome when the body was handed over whole.
    complete: Outcome,
    /// The outcome when the body itself breaks off.
    broken: Outcome,
    outcome: Option<Outcome>,
}

impl ClientBody {
    pub(super) fn new(inner: Inner, records: Arc<Records>, seq: u64, complete: Outcome, broken: Outcome) -> Self {
        Self {
            inner,
            records,
            seq,
            bytes: 0,
            complete,
            broken,
            outcome: None,
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                self.bytes += frame.data_ref().map_or(0, |d| d.len() as u64);
            }
            Some(Err(_)) => self.outcome = Some(self.broken),
            None => self.outcome = Some(self.complete),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let complete = self.inner.is_end_stream().then_some(self.complete);
        let outcome = self.outcome.or(complete).unwrap_or(Outcome::ClientGone);
        let bytes = self.bytes;
        self.records.update(self.seq, |r| {
            r.bytes = bytes;
            r.outcome = outcome;
        });
    }
}
