//! A client's connection, and how it is made to end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Time given to the last bytes of a reply to leave the process before its connection is closed.
pub(super) const SETTLE: Duration = Duration::from_millis(50);

/// How one connection is to end.
#[derive(Default)]
pub(super) struct Fate {
    reset: AtomicBool,
    pub(super) cut: CancellationToken,
    /// Of the last request on it.
    pub(super) user_agent: Mutex<String>,
}

impl Fate {
    /// The connection sends RST, not FIN, when it is dropped.
    pub(super) fn reset_on_close(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    /// Resets the connection now.
    pub(super) fn reset_now(&self) {
        self.reset_on_close();
        self.cut.cancel();
    }
}

/// The client's stream, which closes as its [`Fate`] says.
pub(super) struct ClientStream {
    pub(super) tcp: TcpStream,
    pub(super) fate: Arc<Fate>,
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if self.fate.reset.load(Ordering::Relaxed) {
            // If this fails the socket is already closed.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.fate.reset.load(Ordering::Relaxed) {
            // A FIN first would let the client read a clean end.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
