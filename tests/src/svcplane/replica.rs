//! svcplane behind a fault proxy of its own: what it asks for and what goes wrong for it is told apart from the others'.

use std::ops::Deref;

use anyhow::Result;

use super::{Builder, Svcplane};
use crate::cluster::Cluster;
use crate::proxy::FaultProxy;

/// A running svcplane and its proxy. It is used like a [`Svcplane`].
pub struct Replica {
    // Dropped in this order, so that svcplane can still give its Lease back.
    svcplane: Svcplane,
    proxy: FaultProxy,
}

impl Replica {
    /// Starts it as `admin` of the cluster and waits until its servers listen.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn start(cluster: &Cluster, builder: Builder) -> Result<Self> {
        Self::start_behind(FaultProxy::start(cluster)?, cluster, builder).await
    }

    /// The same behind a proxy that has rules already.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub async fn start_behind(proxy: FaultProxy, cluster: &Cluster, builder: Builder) -> Result<Self> {
        proxy.keep_bodies(true);
        let kubeconfig = proxy.kubeconfig(cluster.admin_token())?;
        let svcplane = builder.kubeconfig(kubeconfig).start().await?;
        Ok(Self { svcplane, proxy })
    }

    /// Its proxy.
    pub fn proxy(&self) -> &FaultProxy {
        &self.proxy
    }
}

impl Deref for Replica {
    type Target = Svcplane;

    fn deref(&self) -> &Svcplane {
        &self.svcplane
    }
}
