//! A barrier: svcplane has looked at everything that was stored before.

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use rand::distr::{Alphanumeric, SampleString as _};
use serde_json::json;

use crate::namespace::TestNamespace;
use crate::objects::{pod, service};

impl TestNamespace {
    /// Returns once the svcplane that leads has looked at every Service, Pod and Endpoints object that was stored before
    /// the call, and has sent what it found necessary. Leaves objects behind whose names begin with `caught-up-`.
    ///
    /// It makes a change of each kind and waits for the effect: watches keep the order, and the queue the order of age.
    ///
    /// # Errors
    /// The effect does not come.
    pub async fn caught_up(&self) -> Result<()> {
        let random = Alphanumeric.sample_string(&mut rand::rng(), 8).to_ascii_lowercase();
        let name = format!("caught-up-{random}");
        let effect = ["192.0.2.200 -> :80/TCP"];
        pod(&name)
            .label("caught-up", &name)
            .ip("192.0.2.200")
            .create(self)
            .await?;
        service(&name)
            .selector("caught-up", &name)
            .port("", 80, 80)
            .create(self)
            .await?;
        self.endpoints_become(&name, &effect).await?;
        let none = Patch::Merge(json!({ "subsets": null }));
        self.endpoints().patch(&name, &PatchParams::default(), &none).await?;
        self.endpoints_become(&name, &effect).await?;
        Ok(())
    }
}
