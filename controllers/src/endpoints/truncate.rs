//! The bound on the size of an Endpoints object.

use crate::model::Subset;

/// The most addresses, ready and not ready together, that one Endpoints object lists. One address in two subsets counts twice.
pub const CAPACITY: usize = 1000;

/// Cuts canonical subsets down to [`CAPACITY`] addresses. The flag says whether anything was over the bound.
///
/// Ready addresses go before not ready ones, and every subset keeps its share, rounded up, as long as room is left; within a subset the
/// first addresses stay. Subsets that end up without an address are dropped: upstream sends them and the apiserver refuses the object.
pub fn truncate(mut subsets: Vec<Subset>) -> (Vec<Subset>, bool) {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready + not_ready <= CAPACITY {
        return (subsets, false);
    }
    let ready_alone_is_too_much = ready > CAPACITY;
    let (total, budget) = if ready_alone_is_too_much {
        (ready, CAPACITY)
    } else {
        (not_ready, CAPACITY - ready)
    };
    let mut left = budget;
    for subset in &mut subsets {
        let addresses = if ready_alone_is_too_much {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        addresses.truncate(share(addresses.len(), total, budget).min(left));
        left -= addresses.len();
    }
    subsets.retain(|subset| !subset.is_empty());
    (subsets, true)
}

/// `count / total` of `budget`, rounded up. In floating point, as upstream, whose result is one too high for some counts: the same
/// addresses must survive here.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of addresses are far below 2^52, and the result lies between 0 and budget + 1"
)]
fn share(count: usize, total: usize, budget: usize) -> usize {
    (count as f64 / total as f64 * budget as f64).ceil() as usize
}

#[cfg(test)]
mod tests;
