//! Operations on Nodes.

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::super::ops;
use super::super::render;
use super::Side;
use super::calls::{DONE, answer, outcome};

/// A Node that is nobody's place and does not count for hints.
const PASSING: &str = "passing";

impl Side {
    /// Makes a Node or changes it.
    pub async fn put_node(&self, name: &str, node: &ops::Node) -> Result<String> {
        let (object, status) = (render::node(name, node), render::node_status(node));
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut new = object.clone();
        if let Some(labels) = new["metadata"]["labels"].as_object_mut() {
            labels.retain(|_, value| !value.is_null());
        }
        let body = serde_json::from_value(new)?;
        let put = match answer("Node", nodes.create(&PostParams::default(), &body)).await? {
            Ok(_) => DONE.into(),
            Err(_) => {
                let patch = Patch::Merge(object);
                outcome("Node", nodes.patch(name, &PatchParams::default(), &patch)).await?
            }
        };
        if put != DONE {
            return Ok(put);
        }
        let patch = Patch::Merge(status);
        let done = outcome("Node", nodes.patch_status(name, &PatchParams::default(), &patch)).await?;
        self.pass_by().await?;
        Ok(done)
    }

    /// Deletes a Node.
    pub async fn delete_node(&self, name: &str) -> Result<String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        outcome("Node", nodes.delete(name, &DeleteParams::default())).await
    }

    /// Deletes all Nodes: a new stream begins without any.
    pub async fn delete_nodes(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
        Ok(())
    }

    /// The reference does not look at a change of CPUs, and counts all Nodes anew when one comes.
    async fn pass_by(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let passing = json!({"metadata": {"name": PASSING, "labels": {render::CONTROL_PLANE: ""}}});
        let body = serde_json::from_value(passing)?;
        // Another Node's may be under way.
        outcome("Node", nodes.create(&PostParams::default(), &body)).await?;
        outcome("Node", nodes.delete(PASSING, &DeleteParams::default())).await?;
        Ok(())
    }
}
