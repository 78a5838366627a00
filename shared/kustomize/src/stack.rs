//! The stack of a build: objects may be nested a thousand levels deep, and each level is several calls.

/// Stack for a build. Only what is used takes memory.
const STACK: usize = 256 << 20;

/// What the stack of the caller must have left for a build to stay on it.
const ENOUGH: usize = STACK - (16 << 20);

/// Runs `work` on a stack that holds whatever a build may nest: a worker of an asynchronous runtime has 2 MiB.
pub fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH, STACK, work)
}
