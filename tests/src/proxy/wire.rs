//! The little the proxy reads of what passes through it: object metadata and where one watch event ends, in JSON and in
//! Kubernetes' protobuf (which kube-controller-manager speaks).

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use hyper::body::Bytes;
use serde::Deserialize;

use super::refusal::Refusal;
use super::request::ApiRequest;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ENVELOPE: &[u8] = b"k8s\0";

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// By `Content-Type`; anything that is not Kubernetes' protobuf is read as JSON.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        if kind.is_some_and(|k| k.starts_with(PROTOBUF)) {
            Self::Protobuf
        } else {
            Self::Json
        }
    }
}

/// The object metadata the proxy needs; empty where the body says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub name: String,
    pub resource_version: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Meta,
}

/// Reads the metadata of the object in `body`; `None` for a body that is no object (a JSON patch, an empty body).
pub(super) fn meta(encoding: Encoding, body: &[u8]) -> Option<Meta> {
    match encoding {
        // serde would read the first element of an array (a JSON patch) as the metadata.
        Encoding::Json if !body.starts_with(b"{") => None,
        Encoding::Json => serde_json::from_slice::<Object>(body).ok().map(|o| o.metadata),
        Encoding::Protobuf => {
            let object = field(body.strip_prefix(ENVELOPE)?, 2)?;
            let meta = field(object, 1)?;
            let text = |number| {
                let bytes = field(meta, number).unwrap_or_default();
                String::from_utf8_lossy(bytes).into_owned()
            };
            Some(Meta {
                name: text(1),
                resource_version: text(6),
            })
        }
    }
}

/// The first length-delimited field `wanted` of a protobuf message.
fn field(mut message: &[u8], wanted: u64) -> Option<&[u8]> {
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match tag & 7 {
            0 => {
                varint(&mut message)?;
            }
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (value, rest) = message.split_at_checked(length)?;
                if tag >> 3 == wanted {
                    return Some(value);
                }
                message = rest;
            }
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    None
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Cuts a watch stream into events: lines in JSON, length-prefixed frames in protobuf.
pub(super) struct EventCutter {
    encoding: Encoding,
    rest: Vec<u8>,
    /// Bytes of `rest` known to hold no newline, so that a long line is not searched twice.
    searched: usize,
}

impl EventCutter {
    pub(super) fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            rest: Vec::new(),
            searched: 0,
        }
    }

    /// Takes the next piece of the stream and gives the events that are now complete.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<Bytes> {
        self.rest.extend_from_slice(piece);
        let mut events = Vec::new();
        while let Some(length) = self.next_length() {
            let tail = self.rest.split_off(length);
            events.push(Bytes::from(std::mem::replace(&mut self.rest, tail)));
            self.searched = 0;
        }
        events
    }

    /// Bytes after the last complete event.
    pub(super) fn take_rest(&mut self) -> Bytes {
        self.searched = 0;
        Bytes::from(std::mem::take(&mut self.rest))
    }

    fn next_length(&mut self) -> Option<usize> {
        match self.encoding {
            Encoding::Json => {
                let found = self.rest[self.searched..].iter().position(|&b| b == b'\n');
                let start = std::mem::replace(&mut self.searched, self.rest.len());
                found.map(|at| start + at + 1)
            }
            Encoding::Protobuf => {
                let prefix = self.rest.first_chunk::<4>()?;
                let length = 4 + u32::from_be_bytes(*prefix) as usize;
                (self.rest.len() >= length).then_some(length)
            }
        }
    }
}

/// What a client that expects an object, or a watch event, cannot read.
pub(super) fn garbage(encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Json => Bytes::from_static(b"<html>not what you asked for</html>\n"),
        Encoding::Protobuf => Bytes::from_static(b"\0\0\0\x04none"),
    }
}

/// An `ERROR` watch event that carries `refusal`, framed for `encoding`.
pub(super) fn error_event(encoding: Encoding, refusal: &Refusal, request: &ApiRequest) -> Bytes {
    let status = refusal.status(request);
    match encoding {
        Encoding::Json => {
            let event = serde_json::json!({"type": "ERROR", "object": status});
            Bytes::from(format!("{event}\n"))
        }
        Encoding::Protobuf => {
            let text = |key: &str| status[key].as_str().unwrap_or_default().as_bytes().to_vec();
            let mut body = Vec::new();
            put(&mut body, 2, &text("status"));
            put(&mut body, 3, &text("message"));
            put(&mut body, 4, &text("reason"));
            body.push(6 << 3);
            put_varint(&mut body, u64::from(refusal.code()));
            let mut kind = Vec::new();
            put(&mut kind, 1, b"v1");
            put(&mut kind, 2, b"Status");
            let mut unknown = ENVELOPE.to_vec();
            put(&mut unknown, 1, &kind);
            put(&mut unknown, 2, &body);
            let mut raw = Vec::new();
            put(&mut raw, 1, &unknown);
            let mut event = Vec::new();
            put(&mut event, 1, b"ERROR");
            put(&mut event, 2, &raw);
            let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
            let mut framed = length.to_be_bytes().to_vec();
            framed.append(&mut event);
            Bytes::from(framed)
        }
    }
}

fn put(message: &mut Vec<u8>, number: u8, value: &[u8]) {
    message.push(number << 3 | 2);
    put_varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn put_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_wherever_the_pieces_end() {
        let lines = b"{\"a\":1}\n{\"b\":2}\n{\"c\"";
        for size in 1..lines.len() {
            let mut cutter = EventCutter::new(Encoding::Json);
            let events: Vec<Bytes> = lines.chunks(size).flat_map(|p| cutter.push(p)).collect();
            assert_eq!(events, ["{\"a\":1}\n", "{\"b\":2}\n"], "pieces of {size}");
            assert_eq!(cutter.take_rest(), "{\"c\"");
        }
        let frames = [&[0, 0, 0, 2, 10, 11][..], &[0, 0, 0, 0], &[0, 0, 0, 1, 7]].concat();
        for size in 1..frames.len() {
            let mut cutter = EventCutter::new(Encoding::Protobuf);
            let events: Vec<Bytes> = frames.chunks(size).flat_map(|p| cutter.push(p)).collect();
            assert_eq!(events.len(), 3, "pieces of {size}");
            assert_eq!(events.concat(), frames);
        }
    }

    #[test]
    fn metadata_is_read_in_both_encodings() {
        let want = Some(Meta {
            name: "web".into(),
            resource_version: "42".into(),
        });
        let json = br#"{"kind":"Endpoints","metadata":{"name":"web","resourceVersion":"42","labels":{}}}"#;
        assert_eq!(meta(Encoding::Json, json), want);
        assert_eq!(meta(Encoding::Json, b"[{\"op\":\"add\"}]"), None);

        let mut metadata = Vec::new();
        put(&mut metadata, 1, b"web");
        put(&mut metadata, 3, b"a");
        metadata.extend([7 << 3, 5]);
        put(&mut metadata, 6, b"42");
        let mut object = Vec::new();
        put(&mut object, 1, &metadata);
        let mut body = ENVELOPE.to_vec();
        put(&mut body, 1, b"type");
        put(&mut body, 2, &object);
        assert_eq!(meta(Encoding::Protobuf, &body), want);
        assert_eq!(meta(Encoding::Protobuf, &body[..body.len() - 1]), None);
    }

    #[test]
    fn an_error_event_in_protobuf_holds_the_status() {
        let event = error_event(Encoding::Protobuf, &Refusal::expired(), &ApiRequest::default());
        let event = EventCutter::new(Encoding::Protobuf).push(&event).remove(0);
        let raw = field(field(&event[4..], 2).unwrap(), 1).unwrap();
        let status = field(raw.strip_prefix(ENVELOPE).unwrap(), 2).unwrap();
        assert_eq!(field(&event[4..], 1).unwrap(), b"ERROR");
        assert_eq!(field(status, 4).unwrap(), b"Expired");
        assert!(status.ends_with(&[6 << 3, 0x9a, 0x03]), "code 410 as a varint");
    }
}
