//! Addresses of Services of type LoadBalancer: who gets which, who keeps it, and what is written.

mod balancers {
    mod assignment;
    mod migration;
    mod neighbours;
    mod ownership;
    mod pools;
    mod random;
    mod restart;
    mod screens;
    mod sharing;
}
