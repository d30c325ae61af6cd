//! One plain HTTP request to a server on loopback.

use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

const DEADLINE: Duration = Duration::from_secs(10);

/// GETs `http://ADDRESS/PATH` on a connection of its own.
///
/// # Errors
/// No complete answer within 10 s. A status that is no success is an answer.
pub async fn get(url: &str) -> Result<(StatusCode, String)> {
    let (status, _, body) = get_accepting(url, "*/*").await?;
    Ok((status, body))
}

/// The same with this `Accept` header, and with the headers of the answer.
///
/// # Errors
/// As [`get`].
pub async fn get_accepting(url: &str, accept: &str) -> Result<(StatusCode, HeaderMap, String)> {
    let ask = tokio::time::timeout(DEADLINE, get_without_deadline(url, accept));
    ask.await
        .with_context(|| format!("GET {url}: no answer within {DEADLINE:?}"))?
        .with_context(|| format!("GET {url}"))
}

async fn get_without_deadline(url: &str, accept: &str) -> Result<(StatusCode, HeaderMap, String)> {
    let uri: http::Uri = url.parse()?;
    let authority = uri.authority().context("no address in the URL")?.as_str();
    let stream = TcpStream::connect(authority).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::ACCEPT, accept)
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::Ok((status, headers, String::from_utf8_lossy(&body).into_owned()))
    };
    // The connection makes progress only while it is polled; its own end is not news, the answer's is.
    let answer = std::pin::pin!(answer);
    let connection = std::pin::pin!(connection);
    match futures::future::select(answer, connection).await {
        futures::future::Either::Left((answer, _)) => answer,
        futures::future::Either::Right((_, answer)) => answer.await,
    }
}
