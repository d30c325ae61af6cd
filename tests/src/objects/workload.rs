//! A Service with its Pods, in one call.

use anyhow::Result;

use super::{create_pods, pod, service};
use crate::namespace::TestNamespace;

impl TestNamespace {
    /// Creates a Service of this name (port 80 to 8080) and before it one ready Pod `NAME-0`, `NAME-1`, … per address.
    /// Its Endpoints are to be `ADDRESS … -> :8080/TCP`.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn workload(&self, name: &str, addresses: &[&str]) -> Result<()> {
        let numbered = addresses.iter().enumerate();
        let pods = numbered.map(|(number, ip)| pod(&format!("{name}-{number}")).label("app", name).ip(ip));
        create_pods(pods, self).await?;
        service(name)
            .selector("app", name)
            .port("", 80, 8080)
            .create(self)
            .await?;
        Ok(())
    }
}
