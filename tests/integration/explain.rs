//! `svcplane explain` on a real apiserver: what a person sees of each kind of Service. Expected values are read from the apiserver's objects
//! or written by hand.

mod explain {
    mod apiserver;
    mod kinds;
    mod known;
    mod naming;
    mod pods;
    mod rights;
    mod run;
    mod traffic;
}
