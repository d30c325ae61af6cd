//! A proxy, a namespace and Endpoints objects to write; raw HTTP where a client library would hide what is to be seen.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Namespace};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use svcplane_tests::cluster;
use svcplane_tests::proxy::FaultProxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than anything here takes on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

pub struct Rig {
    pub proxy: FaultProxy,
    pub namespace: String,
    /// Through the proxy.
    pub through: Api<Endpoints>,
    /// Past it: what the server really holds.
    pub direct: Api<Endpoints>,
}

impl Rig {
    pub async fn new(test: &str) -> Self {
        let cluster = cluster::shared();
        let proxy = FaultProxy::start(cluster).unwrap();
        let namespace = format!("proxy-{test}");
        let object = Namespace {
            metadata: ObjectMeta {
                name: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::all(cluster.client())
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        let through = proxy.client(cluster.admin_token()).unwrap();
        Self {
            proxy,
            through: Api::namespaced(through, &namespace),
            direct: Api::namespaced(cluster.client(), &namespace),
            namespace,
        }
    }

    /// Creates Endpoints past the proxy.
    pub async fn create(&self, name: &str) -> Endpoints {
        self.direct
            .create(&PostParams::default(), &endpoints(name))
            .await
            .unwrap()
    }

    /// Writes `value` into a label past the proxy.
    pub async fn label(&self, name: &str, value: &str) {
        let current = self.direct.get(name).await.unwrap();
        self.direct
            .replace(name, &PostParams::default(), &labelled(current, value))
            .await
            .unwrap();
    }

    /// The label as the server holds it.
    pub async fn stored(&self, name: &str) -> Option<String> {
        self.direct.get(name).await.unwrap().metadata.labels?.remove("value")
    }

    pub fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/endpoints{rest}", self.namespace)
    }

    /// A GET through the proxy, read until the connection ends or has said nothing for `quiet`.
    pub async fn raw_get(&self, path: &str, quiet: Duration) -> Raw {
        let mut raw = RawReader::get(&self.proxy, path).await;
        raw.read_until(quiet, |_| false).await
    }

    /// A second client with a `User-Agent` of its own.
    pub fn agent(&self, agent: &str) -> Api<Endpoints> {
        let mut config = kube::Config::new(self.proxy.url().parse().unwrap());
        config.auth_info.token = Some(cluster::shared().admin_token().to_owned().into());
        config.default_retry = false;
        config.headers.push((http::header::USER_AGENT, agent.parse().unwrap()));
        Api::namespaced(Client::try_from(config).unwrap(), &self.namespace)
    }
}

pub fn endpoints(name: &str) -> Endpoints {
    Endpoints {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        subsets: None,
    }
}

pub fn labelled(mut object: Endpoints, value: &str) -> Endpoints {
    object.metadata.labels = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    object
}

/// How a raw reply ended.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Ended {
    Fin,
    Reset,
    /// Still open after the quiet time.
    Open,
    /// Still open; what was waited for has come.
    Found,
}

#[derive(Debug)]
pub struct Raw {
    pub text: String,
    pub ended: Ended,
}

pub struct RawReader {
    tcp: TcpStream,
    text: Vec<u8>,
}

impl RawReader {
    pub async fn get(proxy: &FaultProxy, path: &str) -> Self {
        let mut tcp = TcpStream::connect(proxy.url().trim_start_matches("http://"))
            .await
            .unwrap();
        let token = cluster::shared().admin_token();
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nUser-Agent: raw\r\n\r\n");
        tcp.write_all(head.as_bytes()).await.unwrap();
        Self { tcp, text: Vec::new() }
    }

    pub async fn read_until(&mut self, quiet: Duration, found: impl Fn(&str) -> bool) -> Raw {
        let ended = loop {
            if found(&String::from_utf8_lossy(&self.text)) {
                break Ended::Found;
            }
            match tokio::time::timeout(quiet, self.tcp.read_buf(&mut self.text)).await {
                Err(_) => break Ended::Open,
                Ok(Ok(0)) => break Ended::Fin,
                Ok(Ok(_)) => {}
                Ok(Err(e)) if e.kind() == ErrorKind::ConnectionReset => break Ended::Reset,
                Ok(Err(e)) => panic!("{e}"),
            }
        };
        let text = String::from_utf8_lossy(&self.text).into_owned();
        Raw { text, ended }
    }
}
