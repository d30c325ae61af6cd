//! Operations: what is done to both clusters. Each says everything it needs, so that any selection of a stream can be
//! applied again.

mod edits;
mod objects;

use serde::{Deserialize, Serialize};

pub use self::edits::{SliceTamper, Tamper};
pub use self::objects::{
    Container, ContainerPort, Families, HandMade, HandMadeAddress, HandMadePort, HandMadeSubset, LEADER, Labels, Node,
    Pod, Port, SKIP_MIRROR, Service, ServiceKind, Status, TOPOLOGY, Target,
};

/// An object's place: the number of its namespace, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The number of the namespace: each run gives them names of its own.
    pub space: usize,
    /// The object's name.
    pub name: String,
}

impl Key {
    /// Of an object in namespace number `space`.
    pub fn new(space: usize, name: impl Into<String>) -> Self {
        Self {
            space,
            name: name.into(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.space, self.name)
    }
}

/// What goes wrong between svcplane and its apiserver. The other side is not disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Replies of writes are lost after the server acted.
    LoseReply,
    /// Connections of writes are reset before the server acts.
    ResetBefore,
    /// Replies of writes are cut in the middle.
    CutReply,
    /// Writes get a 409.
    Conflict,
    /// Writes get a 500.
    InternalError,
    /// Writes get a 503.
    Unavailable,
    /// Writes get a 429 with Retry-After 1.
    TooManyRequests,
    /// Replies of writes come half a second late.
    LateReply,
    /// All open watches are reset.
    ResetWatches,
    /// All open watches end with 410.
    ExpireWatches,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say it")]
pub enum Op {
    CreateService {
        key: Key,
        service: Service,
    },
    ReplaceService {
        key: Key,
        service: Service,
    },
    DeleteService {
        key: Key,
    },
    CreatePod {
        key: Key,
        pod: Pod,
        status: Status,
    },
    SetPodStatus {
        key: Key,
        status: Status,
    },
    LabelPod {
        key: Key,
        labels: Labels,
    },
    BindPod {
        key: Key,
        node: String,
    },
    DeletePod {
        key: Key,
        grace: u32,
    },
    CreateEndpoints {
        key: Key,
        content: HandMade,
    },
    ReplaceEndpoints {
        key: Key,
        content: HandMade,
    },
    DeleteEndpoints {
        key: Key,
    },
    TamperEndpoints {
        key: Key,
        how: Tamper,
    },
    /// One of the slices that a controller has written for this Service.
    TamperSlices {
        key: Key,
        how: SliceTamper,
        /// The last one by family and ports instead of the first.
        last: bool,
    },
    /// A slice for this Service that somebody else writes.
    PutForeignSlice {
        key: Key,
        number: u8,
        address: u8,
    },
    DeleteForeignSlice {
        key: Key,
        number: u8,
    },
    PutNode {
        name: String,
        node: Node,
    },
    DeleteNode {
        name: String,
    },
    /// Many Pods at once: one operation, as it is one `kubectl scale`.
    CreateCrowd {
        pods: Vec<(Key, Pod, Status)>,
    },
    DeleteCrowd {
        keys: Vec<Key>,
    },
    /// The next `times` requests of that kind go wrong.
    Fault {
        fault: Fault,
        times: u64,
    },
    /// Both programs end: by SIGKILL if `hard`, else by SIGTERM.
    Stop {
        hard: bool,
    },
    /// Both programs start again. The end of a window starts them too.
    Start,
    /// kube-controller-manager alone ends and starts again: what it takes to get over some edits of slices.
    RestartReference,
    /// Slices that were held while they are being deleted may go.
    ReleaseSlices,
}

impl Op {
    /// What it is about, if that is one object: operations on one object are applied in their order.
    pub fn object(&self) -> Option<(&'static str, String)> {
        match self {
            Self::CreateService { key, .. } | Self::ReplaceService { key, .. } | Self::DeleteService { key } => {
                Some(("service", key.to_string()))
            }
            Self::CreatePod { key, .. }
            | Self::SetPodStatus { key, .. }
            | Self::LabelPod { key, .. }
            | Self::BindPod { key, .. }
            | Self::DeletePod { key, .. } => Some(("pod", key.to_string())),
            Self::CreateEndpoints { key, .. }
            | Self::ReplaceEndpoints { key, .. }
            | Self::DeleteEndpoints { key }
            | Self::TamperEndpoints { key, .. } => Some(("endpoints", key.to_string())),
            Self::TamperSlices { key, .. }
            | Self::PutForeignSlice { key, .. }
            | Self::DeleteForeignSlice { key, .. } => Some(("slices", key.to_string())),
            Self::PutNode { name, .. } | Self::DeleteNode { name } => Some(("node", name.clone())),
            Self::CreateCrowd { .. }
            | Self::DeleteCrowd { .. }
            | Self::Fault { .. }
            | Self::Stop { .. }
            | Self::Start
            | Self::RestartReference
            | Self::ReleaseSlices => None,
        }
    }

    /// The number of the namespace it is about.
    pub fn space(&self) -> Option<usize> {
        match self {
            Self::CreateService { key, .. }
            | Self::ReplaceService { key, .. }
            | Self::DeleteService { key }
            | Self::CreatePod { key, .. }
            | Self::SetPodStatus { key, .. }
            | Self::LabelPod { key, .. }
            | Self::BindPod { key, .. }
            | Self::DeletePod { key, .. }
            | Self::CreateEndpoints { key, .. }
            | Self::ReplaceEndpoints { key, .. }
            | Self::DeleteEndpoints { key }
            | Self::TamperEndpoints { key, .. }
            | Self::TamperSlices { key, .. }
            | Self::PutForeignSlice { key, .. }
            | Self::DeleteForeignSlice { key, .. } => Some(key.space),
            Self::CreateCrowd { pods } => pods.first().map(|(key, ..)| key.space),
            Self::DeleteCrowd { keys } => keys.first().map(|key| key.space),
            Self::PutNode { .. }
            | Self::DeleteNode { .. }
            | Self::Fault { .. }
            | Self::Stop { .. }
            | Self::Start
            | Self::RestartReference
            | Self::ReleaseSlices => None,
        }
    }

    /// Whether it concerns the programs instead of the objects.
    pub fn is_disturbance(&self) -> bool {
        matches!(
            self,
            Self::Fault { .. } | Self::Stop { .. } | Self::Start | Self::RestartReference | Self::ReleaseSlices
        )
    }
}

/// How the operations of a window stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// From a settled state, no two on one Service: trigger times are compared by value.
    Isolated,
    /// Back to back, on whatever they like.
    Burst,
}

/// Operations between two quiet points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Counts up from 0 over the stream.
    pub number: u64,
    /// How they stand to each other.
    pub kind: Kind,
    /// In order.
    pub ops: Vec<Op>,
}

impl Window {
    /// Whether svcplane was stopped, or something went wrong for it on purpose.
    pub fn is_disturbed(&self) -> bool {
        let disturbs = |op: &Op| matches!(op, Op::Fault { .. } | Op::Stop { .. } | Op::Start);
        self.ops.iter().any(disturbs)
    }

    /// Whether svcplane may have missed what came and went.
    pub fn expires_watches(&self) -> bool {
        let expires = |op: &Op| {
            matches!(
                op,
                Op::Fault {
                    fault: Fault::ExpireWatches,
                    ..
                }
            )
        };
        self.ops.iter().any(expires)
    }

    /// Whether svcplane was stopped.
    pub fn restarts_svcplane(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Stop { .. }))
    }

    /// Whether kube-controller-manager was stopped.
    pub fn restarts_reference(&self) -> bool {
        self.restarts_svcplane() || self.ops.contains(&Op::RestartReference)
    }
}
