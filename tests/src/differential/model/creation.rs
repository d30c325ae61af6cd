//! The way back to a world.

use super::super::ops::Op;
use super::{CROWD_SPACE, World};

impl World {
    /// Operations that make this world from nothing: to go on after a checkpoint.
    pub fn creation(&self) -> Vec<Op> {
        let mut ops = Vec::new();
        for (name, node) in &self.nodes {
            ops.push(Op::PutNode {
                name: name.clone(),
                node: node.clone(),
            });
        }
        let crowd = self.pods.iter().filter(|(key, _)| key.space == CROWD_SPACE);
        let crowd: Vec<_> = crowd
            .map(|(key, stored)| (key.clone(), stored.pod.clone(), stored.status.clone()))
            .collect();
        if !crowd.is_empty() {
            ops.push(Op::CreateCrowd { pods: crowd });
        }
        for (key, stored) in self.pods.iter().filter(|(key, _)| key.space != CROWD_SPACE) {
            let mut status = stored.status.clone();
            if stored.terminating {
                // One that is finished would be gone with its deletion.
                status.phase = "Running".into();
            }
            ops.push(Op::CreatePod {
                key: key.clone(),
                pod: stored.pod.clone(),
                status,
            });
            if stored.terminating {
                ops.push(Op::DeletePod {
                    key: key.clone(),
                    grace: 30,
                });
                ops.push(Op::SetPodStatus {
                    key: key.clone(),
                    status: stored.status.clone(),
                });
            }
        }
        for (key, service) in &self.services {
            ops.push(Op::CreateService {
                key: key.clone(),
                service: service.clone(),
            });
        }
        for (key, content) in &self.loose {
            if let Some(content) = content {
                ops.push(Op::CreateEndpoints {
                    key: key.clone(),
                    content: content.clone(),
                });
            }
        }
        for ((key, number), address) in &self.foreign {
            ops.push(Op::PutForeignSlice {
                key: key.clone(),
                number: *number,
                address: *address,
            });
        }
        ops
    }
}
