//! Free ports on loopback.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result};

/// While it lives, no other cluster on this machine is given the port: else one could take another's etcd for its own.
#[derive(Debug)]
pub(super) struct Reservation {
    port: u16,
    _lock: File,
}

/// Runs `start` with a free port, and again with others if a stranger took the port between our look and its use.
pub(super) async fn with_free_port<T>(mut start: impl AsyncFnMut(u16) -> Result<T>) -> Result<(T, Reservation)> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let reservation = reserve()?;
        match start(reservation.port).await {
            Ok(started) => return Ok((started, reservation)),
            Err(error) if attempts < 4 && format!("{error:#}").contains("address already in use") => {}
            Err(error) => return Err(error),
        }
    }
}

/// Below the range from which the kernel takes ports for outgoing connections (32768 and up on Linux), so that a
/// program that is stopped for a while finds its port free when it comes back.
fn reserve() -> Result<Reservation> {
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("svcplane-test-ports-{user}"));
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    for _ in 0..1000 {
        let port = rand::random_range(20_000..30_000);
        let path = directory.join(port.to_string());
        let options = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = options.with_context(|| format!("opening {}", path.display()))?;
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(Reservation { port, _lock: lock });
        }
    }
    anyhow::bail!("no free port between 20000 and 30000 on loopback")
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::{reserve, with_free_port};

    #[tokio::test]
    async fn a_port_taken_meanwhile_is_replaced() {
        let mut seen = Vec::new();
        let (listener, reservation) = with_free_port(async |port| {
            seen.push(port);
            if seen.len() == 1 {
                anyhow::bail!("listen tcp: bind: address already in use")
            }
            Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?)
        })
        .await
        .unwrap();
        assert_eq!(seen.len(), 2);
        assert_eq!(listener.local_addr().unwrap().port(), reservation.port);
        let failed = with_free_port(async |_| -> anyhow::Result<()> { anyhow::bail!("something else") }).await;
        assert_eq!(failed.unwrap_err().to_string(), "something else");
    }

    #[test]
    fn a_reserved_port_is_nobody_elses() {
        let reservations: Vec<_> = (0..500).map(|_| reserve().unwrap()).collect();
        let mut ports: Vec<u16> = reservations.iter().map(|reservation| reservation.port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 500);
    }
}
