//! stub
use k8s_openapi::api::core::v1::ObjectReference;
/// stub
#[derive(Clone)]
pub struct EventSink;
/// stub
pub struct Warning {
    /// stub
    pub source: &'static str,
    /// stub
    pub reason: &'static str,
    /// stub
    pub note: String,
    /// stub
    pub about: ObjectReference,
}
impl EventSink {
    /// stub
    pub fn emit(&self, _w: Warning) {}
}
/// stub
pub struct Events;
impl Events {
    /// stub
    pub fn new(_c: kube::Client, _n: &str, _m: &crate::metrics::Metrics) -> (EventSink, Self) {
        (EventSink, Self)
    }
    /// stub
    pub async fn run(self) {
        std::future::pending::<()>().await;
    }
}
