//! Whatever somebody does to a slice of ours, its Service soon has exactly the right ones again, without an event of a Service or Pod; and
//! slices of other managers are never written. Each case has a Service of its own: who edits the same Service again and again waits.

mod slices_healing {
    mod edits;
    mod peace;
    mod rig;
    mod strangers;
}
