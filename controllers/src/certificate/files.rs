//! The webhook's certificate, from files that may change at any time.

use std::path::PathBuf;
use std::time::Duration;

use svcplane_webhook::certificate::Certificate;

use super::Display;

/// How often the files are looked at.
const POLL: Duration = Duration::from_secs(1);

/// Certificate chain and private key, PEM.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The chain.
    pub chain: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// What the files held when they were last read.
type Bytes = (Vec<u8>, Vec<u8>);

/// Files, and who shows what is in them.
pub struct CertificateReader {
    files: CertificateFiles,
    read: Bytes,
    display: Display,
}

impl CertificateReader {
    /// Reads them once. The error names the flag.
    pub async fn open(files: CertificateFiles, mut display: Display) -> Result<Self, String> {
        let read = read(&files).await?;
        display.show(parse(&read)?);
        Ok(Self { files, read, display })
    }

    /// Reads them again when they change. What cannot be used is logged, and what was shown before is shown on: chain and key change one
    /// after the other.
    pub async fn follow(mut self) {
        let mut said = None;
        loop {
            tokio::time::sleep(POLL).await;
            let news = match read(&self.files).await {
                Ok(bytes) if bytes == self.read => continue,
                Ok(bytes) => parse(&bytes).map(|certificate| (bytes, certificate)),
                Err(error) => Err(error),
            };
            match news {
                Ok((bytes, certificate)) => {
                    self.read = bytes;
                    said = None;
                    self.display.show(certificate);
                }
                Err(error) if said.as_ref() != Some(&error) => {
                    self.display.refuse(&error);
                    said = Some(error);
                }
                Err(_) => {}
            }
        }
    }
}

async fn read(files: &CertificateFiles) -> Result<Bytes, String> {
    let file = async |flag: &str, path: &PathBuf| {
        let bytes = tokio::fs::read(path).await;
        bytes.map_err(|error| format!("{flag}: cannot read {}: {error}", path.display()))
    };
    Ok((
        file("--webhook-tls-cert-file", &files.chain).await?,
        file("--webhook-tls-private-key-file", &files.key).await?,
    ))
}

fn parse((chain, key): &Bytes) -> Result<Certificate, String> {
    let certificate = Certificate::from_pem(chain, key);
    certificate.map_err(|error| format!("--webhook-tls-cert-file and --webhook-tls-private-key-file: {error}"))
}
