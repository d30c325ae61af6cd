//! Direct load on the server, over TLS and HTTP/1.1 keep-alive, from another process: `cargo bench -p svcplane-webhook --bench
//! load -- [--seconds 10] [--connections 8] [--rate 2000] [--endpoint mutate|validate]`.
//!
//! Two runs: as fast as it goes, for reviews per second of the server's processor time, and at a fixed rate, for the time that
//! an answer takes, measured from when its request was due. Prints a table; judges nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::Registry;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcplane_webhook::admission::{Admission, Settings};
use svcplane_webhook::certificate::Certificate;
use svcplane_webhook::metrics::WebhookMetrics;
use svcplane_webhook::server::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--serve") {
        return runtime()?.block_on(serve());
    }
    // Built with the tests, it has nothing to do.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let number = |flag: &str, default: u32| -> Result<u32, Failure> {
        let given = arguments.iter().skip_while(|argument| *argument != flag).nth(1);
        Ok(given.map_or(Ok(default), |text| text.parse())?)
    };
    let endpoint = arguments.iter().skip_while(|argument| *argument != "--endpoint").nth(1);
    let load = Load {
        endpoint: endpoint.cloned().unwrap_or_else(|| "mutate".to_owned()),
        seconds: number("--seconds", 10)?,
        connections: number("--connections", 8)?,
        rate: number("--rate", 2_000)?,
    };
    runtime()?.block_on(load.run())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// The server's process: says its port and certificate, and serves until its input ends.
async fn serve() -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes())?;
    let (_renew, certificates) = watch::channel(Some(certificate));
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into()).await?;
    let told = Told {
        port: server.address().port(),
        certificate: chain,
    };
    println!("{}", serde_json::to_string(&told)?);
    let admission = Admission::new(Settings::default(), WebhookMetrics::new(&Registry::new())?, None);
    let stop = CancellationToken::new();
    let ends = stop.clone();
    std::thread::spawn(move || {
        _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        ends.cancel();
    });
    server.run(admission, certificates, stop).await?;
    Ok(())
}

/// What the server's process says of itself.
#[derive(Serialize, Deserialize)]
struct Told {
    port: u16,
    certificate: String,
}

/// The server as the load sees it. It ends when this is dropped.
struct Served {
    child: Child,
    address: SocketAddr,
    tls: TlsConnector,
}

impl Served {
    fn start() -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let told: Told = serde_json::from_str(&line)?;
        let certificate = CertificateDer::from_pem_slice(told.certificate.as_bytes())?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate)?;
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            child,
            address: (Ipv4Addr::LOCALHOST, told.port).into(),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>, Failure> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(self.tls.connect(ServerName::try_from("localhost")?, stream).await?)
    }

    /// Processor time so far, in steps of 10 ms.
    fn processor_time(&self) -> Result<Duration, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(')').ok_or("no name in stat")?;
        let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
        Ok(Duration::from_millis(ticks.sum::<Result<u64, _>>()? * 10))
    }

    /// Resident memory, in KiB.
    fn resident(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

struct Load {
    endpoint: String,
    seconds: u32,
    connections: u32,
    rate: u32,
}

impl Load {
    async fn run(&self) -> Result<(), Failure> {
        let served = Arc::new(Served::start()?);
        let request: Arc<[u8]> = request(&self.endpoint).into();
        println!(
            "/{} over HTTP/1.1, {} connections, {} s each",
            self.endpoint, self.connections, self.seconds
        );
        // Once to warm up.
        for rate in [Some(self.rate), None, Some(self.rate)] {
            let (processor, begun) = (served.processor_time()?, Instant::now());
            let (took, late) = self.drive(&served, &request, rate).await?;
            let wall = begun.elapsed();
            let processor = served.processor_time()?.saturating_sub(processor);
            report(rate, &took, wall, processor, served.resident()?);
            if rate.is_some() {
                println!(
                    "    of which the machine woke the sender late by p50 {} us  p99 {} us",
                    micros(&late, 500),
                    micros(&late, 990)
                );
            }
        }
        Ok(())
    }

    /// All connections at once; the time that each answer took since it was due, and how late each request was sent, sorted.
    async fn drive(
        &self,
        served: &Arc<Served>,
        request: &Arc<[u8]>,
        rate: Option<u32>,
    ) -> Result<(Vec<Duration>, Vec<Duration>), Failure> {
        let begun = Instant::now();
        let end = begun + Duration::from_secs(self.seconds.into());
        let tasks = (0..self.connections).map(|i| {
            let (served, request, connections) = (served.clone(), request.clone(), self.connections);
            let mut paced = rate.map(|rate| {
                let pause = Duration::from_secs(1) * connections / rate;
                pace(begun + pause * i / connections, pause, end)
            });
            tokio::spawn(async move {
                let mut stream = served.connect().await?;
                let (mut took, mut late) = (Vec::new(), Vec::new());
                loop {
                    let due = match &mut paced {
                        Some(paced) => paced.recv().await,
                        None => Some(Instant::now()).filter(|now| *now < end),
                    };
                    let Some(due) = due else {
                        return Ok::<_, Failure>((took, late));
                    };
                    late.push(due.elapsed());
                    let last = ask(&mut stream, &request).await?;
                    if last {
                        stream = served.connect().await?;
                    }
                    took.push(due.elapsed());
                }
            })
        });
        let (mut took, mut late) = (Vec::new(), Vec::new());
        for task in tasks.collect::<Vec<_>>() {
            let (one_took, one_late) = task.await??;
            took.extend(one_took);
            late.extend(one_late);
        }
        took.sort_unstable();
        late.sort_unstable();
        Ok((took, late))
    }
}

/// When each request of a connection is due, told at that time. By a thread: timers of tokio wake at whole milliseconds, which
/// would count as time that the server took.
fn pace(first: Instant, pause: Duration, end: Instant) -> mpsc::UnboundedReceiver<Instant> {
    let (tell, told) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut due = first;
        while due < end {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if tell.send(due).is_err() {
                return;
            }
            due += pause;
        }
    });
    told
}

/// Whether the server answers no more on this connection.
async fn ask(stream: &mut TlsStream<TcpStream>, request: &[u8]) -> Result<bool, Failure> {
    stream.write_all(request).await?;
    let mut buffer = [0; 8192];
    let mut read = 0;
    loop {
        let room = buffer.get_mut(read..).unwrap_or_default();
        match stream.read(room).await? {
            0 => return Err("the server closed the connection".into()),
            more => read += more,
        }
        let text = std::str::from_utf8(buffer.get(..read).unwrap_or_default())?;
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .ok_or("no length")?;
            if body.len() == length.parse::<usize>()? {
                return if body.contains("\"allowed\":true") {
                    Ok(head.contains("\r\nconnection: close"))
                } else {
                    Err(text.into())
                };
            }
        }
    }
}

/// What `share` thousandths of sorted times do not exceed.
fn micros(sorted: &[Duration], share: usize) -> u128 {
    let place = sorted.len().saturating_sub(1) * share / 1000;
    sorted.get(place).unwrap_or(&Duration::ZERO).as_micros()
}

fn report(rate: Option<u32>, took: &[Duration], wall: Duration, processor: Duration, resident: u64) {
    let count = f64::from(u32::try_from(took.len()).unwrap_or(u32::MAX));
    let kind = rate.map_or("as fast as it goes".to_owned(), |rate| format!("at {rate}/s"));
    println!(
        "{kind:<20} {:>8.0}/s {:>8.0} per server core-second  p50 {} us  p99 {} us  p99.9 {} us  max {} us  {resident} KiB",
        count / wall.as_secs_f64(),
        count / processor.as_secs_f64().max(0.01),
        micros(took, 500),
        micros(took, 990),
        micros(took, 999),
        micros(took, 1000),
    );
    _ = std::io::stdout().flush();
}

/// A review like the ones that an apiserver sends for a Service of an application: two ports, managed fields.
fn request(endpoint: &str) -> Vec<u8> {
    let fields = json!({"f:metadata": {"f:annotations": {".": {}, "f:team": {}}, "f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:internalTrafficPolicy": {}, "f:ports": {".": {},
        "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
        "f:selector": {}, "f:sessionAffinity": {}, "f:type": {}}});
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "TCP", "targetPort": name});
    let labels = json!({"app": "web", "app.kubernetes.io/name": "web", "app.kubernetes.io/managed-by": "Helm"});
    let object = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "labels": labels, "annotations": {"team": "shop"},
            "managedFields": [{"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "helm",
                "operation": "Update", "time": "2026-01-01T00:00:00Z"}]},
        "spec": {"type": "ClusterIP", "ports": [port("http", 80), port("metrics", 9090)], "selector": {"app": "web"},
            "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"},
        "status": {"loadBalancer": {}}});
    let kind = json!({"group": "", "version": "v1", "kind": "Service"});
    let resource = json!({"group": "", "version": "v1", "resource": "services"});
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "5a1b6c3e-7f1a-4c53-9d5e-0123456789ab", "kind": kind, "resource": resource, "requestKind": kind,
        "requestResource": resource, "name": "web", "namespace": "shop", "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:ci:deployer", "groups": ["system:authenticated"]},
        "object": object, "oldObject": null, "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "helm"}}})
    .to_string();
    let head = format!(
        "POST /{endpoint}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}
