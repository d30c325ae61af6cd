//! Counts and times every request, as client-go's `rest_client_*` metrics do.

use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::BoxFuture;
use http::{Request, Response};
use tower::{Layer, Service};

use crate::metrics::RestClientMetrics;

/// Wraps a client's service.
#[derive(Clone)]
pub struct ObserveLayer {
    metrics: RestClientMetrics,
}

impl ObserveLayer {
    /// Counts into `metrics`.
    pub fn new(metrics: RestClientMetrics) -> Self {
        Self { metrics }
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Observe {
            inner,
            metrics: self.metrics.clone(),
        }
    }
}

/// The wrapped service.
#[derive(Clone)]
pub struct Observe<S> {
    inner: S,
    metrics: RestClientMetrics,
}

impl<S, Q, A> Service<Request<Q>> for Observe<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let method = request.method().clone();
        let started = Instant::now();
        let metrics = self.metrics.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.observe(method.as_str(), code, started.elapsed());
            answer
        })
    }
}
