//! The connections of a server: taken one by one until it stops, each served by a task that the server owns.

use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The pause after a connection could not be accepted. Mostly too many files are open: they do not become fewer by trying at once.
const PAUSE: Duration = Duration::from_millis(250);

/// What a server listens on, and the tasks that serve its connections. They end with it.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    tasks: JoinSet<()>,
}

impl Connections {
    /// None yet.
    pub fn on(listener: TcpListener) -> Self {
        Self {
            listener,
            tasks: JoinSet::new(),
        }
    }

    /// Waits for the next connection; `None`: `stop` came first.
    pub async fn next(&mut self, stop: &CancellationToken) -> Option<TcpStream> {
        loop {
            tokio::select! {
                () = stop.cancelled() => return None,
                Some(_) = self.tasks.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => return Some(stream),
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(PAUSE).await;
                    }
                },
            }
        }
    }

    /// Serves one of them in a task of its own.
    pub fn serve(&mut self, connection: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.tasks.spawn(connection)
    }

    /// Takes no more, and gives those that are served so long to end. What is left then is cut off.
    pub async fn drain(mut self, limit: Duration) {
        drop(self.listener);
        _ = timeout(limit, async { while self.tasks.join_next().await.is_some() {} }).await;
    }
}
