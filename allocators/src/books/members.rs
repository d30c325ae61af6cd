//! Which part of each range this replica chooses from first.
//!
//! Every range is cut into the same number of blocks, and a block belongs to the replica with the highest hash of block and replica
//! (rendezvous hashing): all replicas that know the same members agree without a word, and a member that comes or goes moves only its own
//! share.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Blocks that a range is cut into, at most.
pub(super) const BLOCKS: usize = 64;
/// How long a block that has become ours counts as foreign: until the one who had it knows of the change too.
pub(super) const HANDOVER: Duration = Duration::from_secs(5);

/// Whose the blocks are.
#[derive(Clone, Debug)]
pub(super) struct Members {
    since: [Option<Instant>; BLOCKS],
}

impl Default for Members {
    fn default() -> Self {
        Self { since: [None; BLOCKS] }
    }
}

impl Members {
    /// `all` replicas serve now, `me` among them or not.
    pub fn set(&mut self, me: &str, all: &[Arc<str>], now: Instant) {
        for (block, since) in (0_u64..).zip(&mut self.since) {
            let owner = all
                .iter()
                .max_by_key(|member| (weight(block, member), Arc::clone(member)));
            *since = if owner.is_some_and(|owner| **owner == *me) {
                since.or(Some(now))
            } else {
                None
            };
        }
    }

    /// This block is ours, and was so long enough.
    pub fn own(&self, block: usize, now: Instant) -> bool {
        let since = self.since.get(block).copied().flatten();
        since.is_some_and(|since| now.saturating_duration_since(since) >= HANDOVER)
    }

    /// When the next block is handed over, if nobody comes or goes.
    pub fn next_handover(&self, now: Instant) -> Option<Instant> {
        let times = self.since.iter().flatten().map(|since| *since + HANDOVER);
        times.filter(|time| *time > now).min()
    }
}

/// The same on every replica, whatever it was built with: FNV-1a over the member, finished by splitmix64's mixer.
fn weight(block: u64, member: &str) -> u64 {
    let seed = 0xCBF2_9CE4_8422_2325 ^ block.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = member.bytes().fold(seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    mix(hash)
}

/// splitmix64's mixer: every bit of the result depends on every bit of `number`.
pub(super) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<Arc<str>> {
        (0..count)
            .map(|number| format!("7d1fbd36-{number:04}-4d2b-9a0c-0123456789ab").into())
            .collect()
    }

    fn owned(me: &str, all: &[Arc<str>]) -> Vec<usize> {
        let (mut members, start) = (Members::default(), Instant::now());
        members.set(me, all, start);
        (0..BLOCKS)
            .filter(|block| members.own(*block, start + HANDOVER))
            .collect()
    }

    #[test]
    fn every_block_has_one_owner_and_the_shares_are_alike() {
        for count in 1..6 {
            let all = names(count);
            let mut blocks: Vec<usize> = Vec::new();
            for member in &all {
                let own = owned(member, &all);
                assert!(own.len() * count > BLOCKS / 3, "{} of {count}", own.len());
                blocks.extend(own);
            }
            blocks.sort_unstable();
            assert_eq!(blocks, (0..BLOCKS).collect::<Vec<_>>());
        }
        assert_eq!(owned("somebody else", &names(3)), []);
    }

    #[test]
    fn a_member_that_goes_moves_only_its_own_blocks_and_they_are_foreign_for_a_while() {
        let (mut all, start) = (names(3), Instant::now());
        all.reverse();
        let me = Arc::clone(&all[0]);
        let before = owned(&me, &all);
        let mut members = Members::default();
        members.set(&me, &all, start);
        assert!((0..BLOCKS).all(|block| !members.own(block, start)), "at the start too");
        let later = start + HANDOVER;
        assert_eq!(members.next_handover(start), Some(later));
        all.pop();
        members.set(&me, &all, later);
        let own = |now| (0..BLOCKS).filter(|block| members.own(*block, now)).collect::<Vec<_>>();
        assert_eq!(own(later + HANDOVER / 2), before, "what was ours stays ours");
        let after = own(later + HANDOVER);
        assert!(after.len() > before.len() && before.iter().all(|block| after.contains(block)));
        assert_eq!(
            (after.clone(), members.next_handover(later + HANDOVER)),
            (owned(&me, &all), None)
        );
    }
}
