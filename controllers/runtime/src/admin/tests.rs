//! The servers on loopback, spoken to byte by byte.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use prometheus::Registry;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::server::{HEADER_LIMIT, MOST_CONNECTIONS};
use super::*;
use crate::metrics::BuildInfo;

const LIMIT: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn metrics() -> Metrics {
    Metrics::new(
        Registry::new(),
        BuildInfo {
            version: "0.1.0",
            kubernetes: "1.37",
        },
    )
    .unwrap()
}

async fn admin(probes: Probes) -> Running {
    let server = AdminServer::bind(loopback(), probes, metrics()).await.unwrap();
    let (address, stop) = (server.address(), CancellationToken::new());
    Running {
        address,
        task: tokio::spawn(server.run(stop.clone())),
        stop,
    }
}

/// The status, head and body of the answer to one request on a connection of its own.
async fn request(address: SocketAddr, method: &str, target: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{method} {target} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, target: &str) -> (u16, String) {
    let (status, _, body) = request(address, "GET", target).await;
    (status, body)
}

#[tokio::test]
async fn health_is_told_in_the_apiservers_form() {
    let stuck = Arc::new(AtomicBool::new(false));
    let seen = stuck.clone();
    let election = move || {
        if seen.load(Ordering::Relaxed) {
            Err("nothing for 40 s".to_owned())
        } else {
            Ok(())
        }
    };
    let admin = admin(Probes::new().live("ping", || Ok(())).live("leader-election", election)).await;
    assert_eq!(get(admin.address, "/livez").await, (200, "ok".to_owned()));
    let verbose = "[+]ping ok\n[+]leader-election ok\nlivez check passed\n".to_owned();
    assert_eq!(get(admin.address, "/livez?verbose").await, (200, verbose.clone()));
    assert_eq!(get(admin.address, "/livez?a=b&verbose=true").await, (200, verbose));
    assert_eq!(get(admin.address, "/livez?verbosely").await, (200, "ok".to_owned()));
    stuck.store(true, Ordering::Relaxed);
    let failed = "[+]ping ok\n[-]leader-election failed: nothing for 40 s\nlivez check failed\n".to_owned();
    assert_eq!(get(admin.address, "/livez").await, (500, failed));
    stuck.store(false, Ordering::Relaxed);
    assert_eq!(get(admin.address, "/livez").await.0, 200, "liveness does not latch");
    assert_eq!(get(admin.address, "/nothing").await.0, 404);
    assert_eq!(request(admin.address, "POST", "/livez").await.0, 405);
}

#[tokio::test]
async fn readiness_latches_once_all_checks_have_passed_together() {
    let synced = Arc::new(AtomicUsize::new(0));
    let (pods, services) = (synced.clone(), synced.clone());
    let probes = Probes::new()
        .ready("pods", move || {
            if pods.load(Ordering::Relaxed) & 1 == 1 {
                Ok(())
            } else {
                Err("not listed yet".to_owned())
            }
        })
        .ready("services", move || {
            if services.load(Ordering::Relaxed) & 2 == 2 {
                Ok(())
            } else {
                Err("not listed yet".to_owned())
            }
        });
    let admin = admin(probes).await;
    for (state, status) in [(0, 500), (1, 500), (2, 500), (3, 200), (0, 200), (1, 200)] {
        synced.store(state, Ordering::Relaxed);
        assert_eq!(get(admin.address, "/readyz").await.0, status, "{state}");
    }
    let (_, body) = get(admin.address, "/readyz?verbose").await;
    assert_eq!(
        body,
        "[+]pods ok\n[-]services failed: not listed yet\nreadyz check passed\n"
    );
}

#[tokio::test]
async fn metrics_are_served_as_what_they_are() {
    // B116: the content type is that of the text format, whatever is asked for.
    let admin = admin(Probes::new()).await;
    let (status, head, body) = request(admin.address, "GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    assert!(
        body.contains("\nsvcplane_build_info{kubernetes=\"1.37\",version=\"0.1.0\"} 1\n"),
        "{body}"
    );
    assert!(!body.contains("_total_total") && body.ends_with('\n'));
    assert_eq!(get(admin.address, "/debug/state").await.0, 404, "not on this port");
}

#[tokio::test]
async fn the_state_is_shown_on_loopback_only() {
    for address in ["0.0.0.0:9", "10.1.2.3:9", "[::]:9", "[::ffff:10.1.2.3]:9"] {
        let error = DebugServer::bind(address.parse().unwrap(), || json!({}))
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.starts_with(&format!("--debug-address: {address} is not on loopback")),
            "{error}"
        );
        assert!(error.contains("use 127.0.0.1:9 or [::1]:9"), "{error}");
    }
    let server = DebugServer::bind(loopback(), || json!({"services": 2})).await.unwrap();
    let (address, stop) = (server.address(), CancellationToken::new());
    let task = tokio::spawn(server.run(stop.clone()));
    let (status, head, body) = request(address, "GET", "/debug/state").await;
    assert_eq!(
        (status, serde_json::from_str::<Value>(&body).unwrap()),
        (200, json!({"services": 2}))
    );
    assert!(head.contains("content-type: application/json"), "{head}");
    stop.cancel();
    timeout(LIMIT, task).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_the_flag() {
    let first = AdminServer::bind(loopback(), Probes::new(), metrics()).await.unwrap();
    let error = AdminServer::bind(first.address(), Probes::new(), metrics())
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with(&format!("--admin-address: cannot listen on {}: ", first.address())),
        "{error}"
    );
}

#[tokio::test]
async fn slow_and_many_clients_hold_nobody_up() {
    let admin = admin(Probes::new()).await;
    let start = Instant::now();
    let mut slow = Vec::new();
    for _ in 0..2 * MOST_CONNECTIONS {
        let mut stream = TcpStream::connect(admin.address).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: ").await.unwrap();
        slow.push(stream);
    }
    assert_eq!(get(admin.address, "/livez").await.0, 200);
    assert!(
        start.elapsed() < HEADER_LIMIT,
        "served beside clients that never finish"
    );
    // The oldest had to go at once, the others go when their time is over.
    for (number, stream) in slow.iter_mut().enumerate() {
        let mut rest = Vec::new();
        let ended = timeout(LIMIT, stream.read_to_end(&mut rest)).await;
        assert!(
            ended.is_ok(),
            "connection {number} is still open after {:?}",
            start.elapsed()
        );
        if number == 0 {
            assert!(start.elapsed() < HEADER_LIMIT / 2);
        }
    }
}

#[tokio::test]
async fn too_long_a_request_is_refused() {
    let admin = admin(Probes::new()).await;
    let mut stream = TcpStream::connect(admin.address).await.unwrap();
    let head = format!("GET /livez HTTP/1.1\r\nX: {}", "a".repeat(64 * 1024));
    // The server may close while we still write.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_eq!(get(admin.address, "/livez").await.0, 200);
}

#[tokio::test]
async fn stopping_is_orderly_and_bounded() {
    let admin = admin(Probes::new()).await;
    let mut idle = TcpStream::connect(admin.address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: admin\r\n\r\n")
        .await
        .unwrap();
    let mut answer = vec![0; 15];
    timeout(LIMIT, idle.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, b"HTTP/1.1 200 OK");
    admin.stop.cancel();
    timeout(Duration::from_secs(4), admin.task).await.unwrap().unwrap();
    assert!(
        TcpStream::connect(admin.address).await.is_err(),
        "nobody listens any more"
    );
}
