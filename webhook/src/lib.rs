//! svcplane's admission webhook.
//!
//! * [`address`]: addresses and ranges as the apiserver reads them.
//! * [`cause`]: what is wrong with which field.
//! * [`judge`](mod@judge): would the apiserver take this Service?
//! * [`names`]: the formats of names.
//! * [`service`]: a Service as far as it is judged.

pub mod address;
pub mod cause;
pub mod judge;
pub mod names;
pub mod service;
