//! Which step comes next in the life of the webhook's certificate. Pure: what is stored and published, and the time, are arguments, so any
//! leader goes on where another one stopped.
//!
//! ```text
//! new authority beside the old ─► both published ─► the apiserver has seen it ─► new leaf ─► old leaves have run out ─► old authority goes
//! ```
//!
//! The apiserver trusts an authority before a leaf of it is served, and until the last leaf of it has run out: no call fails, whoever is late.

/// Seconds since 1970.
pub type Seconds = i64;

/// How long before it is made a certificate is valid, in seconds, for clocks that are behind.
pub const BACKDATED: Seconds = 3600;

/// How long certificates live, and how long caches may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// From the making of a leaf to its end, in seconds.
    pub leaf_lifetime: Seconds,
    /// From the making of an authority to its end, in seconds: at least twice that of a leaf.
    pub authority_lifetime: Seconds,
    /// How long every apiserver may take to trust what is published, in seconds.
    pub grace: Seconds,
    /// By which part of the last third of a life it is renewed earlier, in per cent, so that what was installed together is not renewed together.
    pub early: u8,
}

/// The most that [`Policy::early`] is chosen to be.
pub const EARLIEST: u8 = 10;

/// From when to when something is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When it was made.
    pub made: Seconds,
    /// When it ends.
    pub until: Seconds,
}

impl Life {
    /// A third before its end and a little earlier: short lives and long ones are renewed at the same share (B101).
    fn renewal(self, policy: &Policy) -> Seconds {
        let third = (self.until - self.made).max(0) / 3;
        self.until - third - third * Seconds::from(policy.early) / 100
    }
}

/// The certificate that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its life.
    pub life: Life,
    /// Is it of the newest authority?
    pub of_newest: bool,
    /// Does it fit its key, and has it the names that are wanted?
    pub fits: bool,
}

/// What is stored and published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The authorities that are trusted, the newest first.
    pub authorities: Vec<Life>,
    /// Is the key of the newest there?
    pub can_sign: bool,
    /// What is served, if it can be read.
    pub leaf: Option<Leaf>,
    /// Since when exactly these authorities are published wherever the webhook is registered; `None` = somewhere they are not.
    pub published_since: Option<Seconds>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make an authority and store it beside those that are there. The leaf stays.
    NewAuthority,
    /// Publish all authorities that are stored.
    Publish,
    /// Make a leaf of the newest authority and store it.
    Issue,
    /// Take the authorities away that no leaf needs any more.
    DropOld,
    /// Nothing, until then.
    Wait(Seconds),
}

impl Step {
    /// A word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NewAuthority => "new-authority",
            Self::Publish => "publish",
            Self::Issue => "issue",
            Self::DropOld => "drop-old",
            Self::Wait(_) => "wait",
        }
    }

    /// All that change something, and the look at what is served after it (`verify`).
    pub const WORDS: [&str; 5] = ["new-authority", "publish", "issue", "drop-old", "verify"];
}

/// The next step.
pub fn next(state: &State, policy: &Policy, now: Seconds) -> Step {
    let Some((&newest, old)) = state.authorities.split_first() else {
        return Step::NewAuthority;
    };
    if !state.can_sign || now >= newest.renewal(policy) || is_ahead(newest, now) {
        return Step::NewAuthority;
    }
    // Before anything else that takes trust for granted: somebody may have blanked it.
    let Some(since) = state.published_since else {
        return Step::Publish;
    };
    let Some(leaf) = state
        .leaf
        .filter(|leaf| leaf.fits && leaf.of_newest && now < leaf.life.renewal(policy) && !is_ahead(leaf.life, now))
    else {
        let seen = since.saturating_add(policy.grace);
        return if now >= seen { Step::Issue } else { Step::Wait(seen) };
    };
    // Since it was made the newest has signed everything, so by then the last leaf of another one has run out.
    let unused = newest.made.saturating_add(policy.leaf_lifetime);
    let drops = old.iter().map(|authority| authority.until.min(unused));
    if drops.clone().any(|due| now >= due) {
        return Step::DropOld;
    }
    let due = drops.chain([newest.renewal(policy), leaf.life.renewal(policy)]).min();
    Step::Wait(due.unwrap_or(now))
}

/// Made by somebody whose clock was wrong, so for everybody else it is not valid yet.
fn is_ahead(life: Life, now: Seconds) -> bool {
    life.made > now.saturating_add(BACKDATED)
}

/// May this old authority go, where `newest` is the newest? (see [`Step::DropOld`])
pub fn is_unused(old: Life, newest: Life, policy: &Policy, now: Seconds) -> bool {
    now >= old.until.min(newest.made.saturating_add(policy.leaf_lifetime))
}

#[cfg(test)]
mod tests;
