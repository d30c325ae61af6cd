//! A TCP balancer: each connection goes to the next of several addresses.

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

/// What becomes of a connection whose target refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It goes to the next target.
    Next,
    /// It is closed, as by kube-proxy's rules.
    Close,
}

type Targets = Arc<Mutex<Vec<String>>>;

impl Balancer {
    /// In front of these addresses, of which it takes the next where one refuses.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn start(targets: Vec<String>) -> Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), targets, Refused::Next).await
    }

    /// The same at this address.
    ///
    /// # Errors
    /// It cannot listen.
    pub async fn start_at(address: SocketAddr, targets: Vec<String>, refused: Refused) -> Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let (address, targets) = (listener.local_addr()?, Arc::new(Mutex::new(targets)));
        let task = tokio::spawn(serve(listener, targets.clone(), refused));
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

async fn serve(listener: TcpListener, targets: Targets, refused: Refused) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let targets = targets.lock().clone();
        connections.spawn(connect(client, targets, next.clone(), refused));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(mut client: TcpStream, targets: Vec<String>, next: Arc<AtomicUsize>, refused: Refused) {
    let tries = match refused {
        Refused::Next => targets.len(),
        Refused::Close => targets.len().min(1),
    };
    for _ in 0..tries {
        let target = &targets[next.fetch_add(1, Ordering::Relaxed) % targets.len()];
        if let Ok(mut server) = TcpStream::connect(target).await {
            // Either end may go at any time.
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
