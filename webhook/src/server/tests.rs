use std::fmt::Write as _;
use std::net::Ipv4Addr;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus::Registry;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::admission::Settings;
use crate::certificate::Certificate;
use crate::handshake::{HandshakeError, shake_hands};
use crate::metrics::WebhookMetrics;

struct Running {
    address: SocketAddr,
    certificates: watch::Sender<Option<Certificate>>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), rustls::Error>>,
}

fn new_certificate() -> (CertifiedKey<rcgen::KeyPair>, Certificate) {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let read = Certificate::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).unwrap();
    (made, read)
}

async fn start(certificate: Option<Certificate>) -> Running {
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let metrics = WebhookMetrics::new(&Registry::new()).unwrap();
    let admission = Admission::new(Settings::default(), metrics, None);
    let (certificates, newest) = watch::channel(certificate);
    let stop = CancellationToken::new();
    Running {
        address: server.address(),
        certificates,
        stop: stop.clone(),
        task: tokio::spawn(server.run(admission, newest, stop)),
    }
}

async fn connect(
    server: &Running,
    trusted: &CertifiedKey<rcgen::KeyPair>,
    protocol: &[u8],
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The body of a review of the creation of this Service.
fn review(spec: &Value) -> String {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u-1", "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "services"}, "name": "web", "namespace": "shop",
        "object": {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web"}, "spec": spec}}})
    .to_string()
}

fn head(line: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head + "\r\n"
}

fn posted(path: &str, body: &str) -> String {
    let length = body.len().to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", length.as_str()),
    ];
    head(&format!("POST {path}?timeout=10s"), &headers) + body
}

/// Reads one response with a Content-Length.
async fn response(stream: &mut TlsStream<TcpStream>) -> (u16, String) {
    let mut read = Vec::new();
    let end = loop {
        read.push(stream.read_u8().await.unwrap());
        if read.ends_with(b"\r\n\r\n") {
            break String::from_utf8(read).unwrap().to_ascii_lowercase();
        }
    };
    let length = end.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    (
        end.split(' ').nth(1).unwrap().parse().unwrap(),
        String::from_utf8(body).unwrap(),
    )
}

#[tokio::test]
async fn both_endpoints_answer_over_http_1_and_2() {
    let (trusted, certificate) = new_certificate();
    let server = start(Some(certificate)).await;
    let mut stream = connect(&server, &trusted, b"http/1.1").await.unwrap();
    for (path, spec, allowed) in [
        ("/mutate", json!({"ports": [{"port": 80}]}), true),
        ("/mutate", json!({"type": "Foo"}), false),
        ("/validate", json!({"type": "Foo"}), true),
    ] {
        stream.write_all(posted(path, &review(&spec)).as_bytes()).await.unwrap();
        let (code, body) = response(&mut stream).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (code, &body["response"]["uid"], &body["response"]["allowed"]),
            (200, &json!("u-1"), &json!(allowed))
        );
    }

    let stream = connect(&server, &trusted, b"h2").await.unwrap();
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = http::Request::post(format!("https://localhost:{}/mutate", server.address.port()))
        .header("Content-Type", "application/json")
        .body(Full::new(Bytes::from(review(&json!({})))))
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(
        (response.status(), response.version()),
        (StatusCode::OK, http::Version::HTTP_2)
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body["response"]["status"]["details"]["causes"][0]["field"],
        "spec.ports"
    );
}

/// B59, d to f: a clear answer, and the next request is fine.
#[tokio::test]
async fn what_is_no_review_gets_a_clear_answer() {
    let (trusted, certificate) = new_certificate();
    let server = start(Some(certificate)).await;
    let json_type = ("Content-Type", "application/json; charset=utf-8");
    let body = |body: &str| {
        head(
            "POST /mutate",
            &[json_type, ("Content-Length", &body.len().to_string())],
        ) + body
    };
    let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let chunks = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20)).repeat(4) + "0\r\n\r\n";
    for (request, code, words) in [
        (head("GET /mutate", &[]), 405, ""),
        (head("POST /other", &[("Content-Length", "0")]), 404, ""),
        (
            head("POST /mutate", &[("Content-Length", "0")]),
            415,
            "application/json",
        ),
        (body(""), 400, "no AdmissionReview"),
        (body("{}"), 400, "send AdmissionReview of admission.k8s.io/v1"),
        (body(&deep), 400, "no AdmissionReview"),
        (
            head("POST /mutate", &[json_type, ("Content-Length", "20000000")]),
            413,
            "3145728",
        ),
        (
            head("POST /mutate", &[json_type, ("Transfer-Encoding", "chunked")]) + &chunks,
            413,
            "3145728",
        ),
    ] {
        let mut stream = connect(&server, &trusted, b"http/1.1").await.unwrap();
        // The server may close before it has read all.
        _ = stream.write_all(request.as_bytes()).await;
        let (got, body) = response(&mut stream).await;
        let line = request.lines().next().unwrap();
        assert_eq!(got, code, "{line}: {body}");
        assert!(body.contains(words), "{line}: {body}");
    }
    let mut stream = connect(&server, &trusted, b"http/1.1").await.unwrap();
    stream
        .write_all(posted("/mutate", &review(&json!({}))).as_bytes())
        .await
        .unwrap();
    assert_eq!(response(&mut stream).await.0, 200);
}

/// So that a client that keeps its connections comes to every replica.
#[tokio::test]
async fn a_connection_ends_with_an_answer_after_many_requests() {
    let (trusted, certificate) = new_certificate();
    let server = start(Some(certificate)).await;
    let mut stream = connect(&server, &trusted, b"http/1.1").await.unwrap();
    let request = posted("/mutate", &review(&json!({})));
    for _ in 0..connection::MOST_REQUESTS {
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(response(&mut stream).await.0, 200);
    }
    assert!(stream.read_u8().await.is_err());
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let (trusted, certificate) = new_certificate();
    let server = start(Some(certificate)).await;
    let mut stream = connect(&server, &trusted, b"http/1.1").await.unwrap();
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", "10"),
        ("Expect", "100-continue"),
    ];
    stream
        .write_all(head("POST /mutate", &headers).as_bytes())
        .await
        .unwrap();
    // The server asks for the body: it has read the head.
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    tokio::time::pause();
    tokio::time::advance(BODY_LIMIT).await;
    assert_eq!(response(&mut stream).await.0, 408);
}

/// More bytes are announced than may be in memory, and none of them come.
#[tokio::test]
async fn bodies_that_do_not_come_hold_up_nobody() {
    let (trusted, certificate) = new_certificate();
    let server = start(Some(certificate)).await;
    let length = LARGEST_BODY.to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", length.as_str()),
        ("Expect", "100-continue"),
    ];
    let mut slow = Vec::new();
    for _ in 0..=(BODY_BUDGET + SMALL_BUDGET) / LARGEST_BODY {
        let mut stream = connect(&server, &trusted, b"http/1.1").await.unwrap();
        let head = head("POST /mutate", &headers);
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 25]).await.unwrap();
        slow.push(stream);
    }
    let mut stream = connect(&server, &trusted, b"http/1.1").await.unwrap();
    let padding = "x".repeat(2 << 20);
    for body in [
        review(&json!({"ports": [{"port": 80}]})),
        review(&json!({"ports": [{"port": 80}], "externalName": padding})),
    ] {
        stream.write_all(posted("/mutate", &body).as_bytes()).await.unwrap();
        assert_eq!(response(&mut stream).await.0, 200);
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_at_the_next_handshake() {
    let server = start(None).await;
    let (first, certificate) = new_certificate();
    assert!(
        connect(&server, &first, b"http/1.1").await.is_err(),
        "there is none yet"
    );
    server.certificates.send(Some(certificate)).unwrap();
    let mut open = connect(&server, &first, b"http/1.1").await.unwrap();
    let (second, certificate) = new_certificate();
    server.certificates.send(Some(certificate)).unwrap();
    assert!(connect(&server, &first, b"http/1.1").await.is_err(), "it is gone");
    let mut new = connect(&server, &second, b"http/1.1").await.unwrap();
    for stream in [&mut open, &mut new] {
        stream
            .write_all(posted("/mutate", &review(&json!({}))).as_bytes())
            .await
            .unwrap();
        assert_eq!(response(stream).await.0, 200);
    }
}

#[tokio::test]
async fn answers_under_way_are_finished() {
    let (trusted, certificate) = new_certificate();
    let server = start(Some(certificate)).await;
    let mut idle = connect(&server, &trusted, b"http/1.1").await.unwrap();
    idle.write_all(posted("/mutate", &review(&json!({}))).as_bytes())
        .await
        .unwrap();
    assert_eq!(response(&mut idle).await.0, 200);
    let mut busy = connect(&server, &trusted, b"http/1.1").await.unwrap();
    let body = review(&json!({}));
    let length = body.len().to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", &length),
        ("Expect", "100-continue"),
    ];
    busy.write_all(head("POST /mutate", &headers).as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    busy.read_exact(&mut go_on).await.unwrap();
    let mut late = connect(&server, &trusted, b"http/1.1").await.unwrap();
    late.write_all(posted("/mutate", &review(&json!({}))).as_bytes())
        .await
        .unwrap();
    assert_eq!(response(&mut late).await.0, 200);
    server.stop.cancel();
    // One that may already be about to ask is answered, and used no more.
    late.write_all(posted("/mutate", &review(&json!({}))).as_bytes())
        .await
        .unwrap();
    assert_eq!(response(&mut late).await.0, 200);
    assert!(late.read_u8().await.is_err());
    // The one that asks nothing is closed.
    assert!(idle.read_u8().await.is_err());
    assert!(TcpStream::connect(server.address).await.is_err(), "no new ones");
    busy.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(response(&mut busy).await.0, 200);
    server.task.await.unwrap().unwrap();
}

/// Whoever opens connections and asks nothing makes room for others; those who ask keep theirs.
#[tokio::test]
async fn idle_connections_make_room() {
    let mut tasks = JoinSet::new();
    let mut known = |asked: bool| Known {
        task: tasks.spawn(std::future::pending::<()>()),
        asked: Arc::new(AtomicBool::new(asked)),
    };
    let mut by_age: VecDeque<Known> = (0..MOST_CONNECTIONS).map(|i| known(i != 7)).collect();
    let idle = by_age[7].task.clone();
    assert!(make_room(&mut by_age));
    assert_eq!(by_age.len(), MOST_CONNECTIONS - 1);
    by_age.push_back(known(true));
    assert!(!make_room(&mut by_age), "all of them ask");
    tokio::task::yield_now().await;
    assert!(idle.is_finished());
    by_age[0].task.abort();
    while !by_age[0].task.is_finished() {
        tokio::task::yield_now().await;
    }
    assert!(make_room(&mut by_age), "one has ended");
}

#[tokio::test]
async fn a_fresh_handshake_tells_what_an_apiserver_would_see() {
    let ((made, shown), (other, next)) = (new_certificate(), new_certificate());
    let server = start(Some(shown)).await;
    let shake =
        async |name: &'static str, trusted: &CertifiedKey<rcgen::KeyPair>, stored: &CertifiedKey<rcgen::KeyPair>| {
            let bundle = trusted.cert.pem();
            shake_hands(server.address, name, &bundle, stored.cert.der()).await
        };
    shake("localhost", &made, &made).await.unwrap();
    // The apiserver trusts somebody else, asks for another name, or another certificate is stored than is served.
    assert!(matches!(
        shake("localhost", &other, &made).await,
        Err(HandshakeError::Fails(_))
    ));
    assert!(matches!(
        shake("elsewhere", &made, &made).await,
        Err(HandshakeError::Fails(_))
    ));
    assert!(matches!(
        shake("localhost", &made, &other).await,
        Err(HandshakeError::Other)
    ));
    assert!(matches!(shake("", &made, &made).await, Err(HandshakeError::Unfit(_))));
    server.certificates.send_replace(Some(next));
    shake("localhost", &other, &other).await.unwrap();
    server.stop.cancel();
    server.task.await.unwrap().unwrap();
}
