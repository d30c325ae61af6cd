//! A TCP balancer on loopback: each connection goes to the next of several addresses that takes it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A running balancer. It ends, with its connections, when it is dropped.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    targets: Targets,
    task: JoinHandle<()>,
}

type Targets = Arc<Mutex<Vec<String>>>;

impl Balancer {
    /// In front of these addresses.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn start(targets: Vec<String>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, targets) = (listener.local_addr()?, Arc::new(Mutex::new(targets)));
        let task = tokio::spawn(serve(listener, targets.clone()));
        Ok(Self { address, targets, task })
    }

    /// Its address, in a form that a client does not take for loopback.
    pub fn address(&self) -> String {
        format!("{}:{}", Ipv4Addr::UNSPECIFIED, self.address.port())
    }

    /// From now on it stands in front of these.
    pub fn point_at(&self, targets: Vec<String>) {
        *self.targets.lock() = targets;
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, targets: Targets) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let targets = targets.lock().clone();
        connections.spawn(connect(client, targets, next.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(mut client: TcpStream, targets: Vec<String>, next: Arc<AtomicUsize>) {
    for _ in 0..targets.len() {
        let target = &targets[next.fetch_add(1, Ordering::Relaxed) % targets.len()];
        if let Ok(mut server) = TcpStream::connect(target).await {
            // Either end may go at any time.
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
