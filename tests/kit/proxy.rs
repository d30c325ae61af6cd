//! Each fault of the proxy, shown against the real apiserver: what the client sees, and what the server did.

mod proxy {
    pub mod faults;
    pub mod garbled;
    pub mod peer;
    pub mod rig;
    pub mod watches;
}
