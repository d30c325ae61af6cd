//! A watch, line by line as the apiserver sends it: its bytes can be counted, and little of it need be read.

use anyhow::{Context as _, Result, ensure};
use http_body_util::BodyExt as _;
use kube::client::Body;

/// Longer than any run.
const TIMEOUT: u64 = 6 * 3600;

/// Watches all objects below a path (`api/v1/pods`), beginning with those there are. The apiserver ends the watch of a client that falls behind; it is then
/// taken up where it ended, so that events come late but none is lost.
///
/// # Errors
/// The apiserver refuses it, or it cannot be taken up.
pub async fn watch(mut config: kube::Config, path: &str, mut line: impl FnMut(&[u8])) -> Result<()> {
    // Silence is no fault here.
    config.read_timeout = None;
    let client = kube::Client::try_from(config)?;
    let mut last = String::new();
    loop {
        let uri = format!("/{path}?watch=true&timeoutSeconds={TIMEOUT}&resourceVersion={last}");
        let request = http::Request::get(uri).body(Body::empty())?;
        let response = client.send(request).await?;
        ensure!(response.status().is_success(), "watching {path}: {}", response.status());
        let mut body = response.into_body();
        let mut buffer: Vec<u8> = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(data) = frame.into_data() else { continue };
            buffer.extend_from_slice(&data);
            let mut done = 0;
            while let Some(length) = buffer[done..].iter().position(|byte| *byte == b'\n') {
                let event = &buffer[done..done + length];
                last = version(event).with_context(|| format!("watching {path}: an event without a version"))?;
                line(event);
                done += length + 1;
            }
            buffer.drain(..done);
        }
        ensure!(!last.is_empty(), "the watch of {path} ended before it began");
        eprintln!("the observer's watch of {path} is taken up at {last}");
    }
}

/// The first one in an event is its object's own; an `ERROR` has none.
fn version(event: &[u8]) -> Option<String> {
    const FIELD: &[u8] = b"\"resourceVersion\":\"";
    let at = event.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
    let length = event[at..].iter().position(|byte| *byte == b'"')?;
    String::from_utf8(event[at..at + length].to_vec()).ok()
}
