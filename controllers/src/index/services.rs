//! A Service in the index.

use std::sync::Arc;

use super::Epoch;
use super::pairs::PairId;
use crate::model::Service;

#[derive(Debug)]
pub(super) struct ServiceEntry {
    pub service: Arc<Service>,
    /// The numbers of its selector's pairs; `None` = no selector.
    pub selector: Option<Box<[PairId]>>,
    /// Where it is filed; `None` with a selector = the empty selector, which every Pod matches.
    pub filed: Option<PairId>,
    pub epoch: Epoch,
}
