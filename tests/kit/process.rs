//! Children do not outlive the process that started them.
