//! The failures of ports in memory, which tests switch on.

/// The failure of the next write of a [`MemoryBlobs`](crate::MemoryBlobs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written, and the answer is an error.
    Before,
    /// The blob is written, but the answer is lost.
    After,
    /// The blob is written, and the answer is a refusal: the client's retry found the result of its
    /// first try.
    Echo,
    /// Nothing is written: another write of the key was in progress.
    Conflict,
}

/// The faults of a [`MemoryCluster`](crate::MemoryCluster).
#[derive(Clone, Copy, Debug, Default)]
pub struct Switches {
    /// The most objects of a page; 0 for no limit.
    pub page_size: usize,
    /// True if the next page after the first one is refused, because its token is too old.
    pub expires_token: bool,
    /// True if watches are refused, because the user lacks the verb.
    pub refuses_watch: bool,
    /// True if watches fail without an answer.
    pub breaks_watch: bool,
    /// True if watches send no changes, because the server has not yet received them itself.
    pub is_late: bool,
}
