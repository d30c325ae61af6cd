//! Addresses of Services of type LoadBalancer: who gets which, who keeps it, and what is written.

mod balancers {
    mod assignment;
    mod ownership;
    mod pools;
    mod restart;
    mod sharing;
}
