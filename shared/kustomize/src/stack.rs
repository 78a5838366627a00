//! The stack of a build: objects may be nested a thousand levels deep, and each level is several
//! calls.

/// The bytes of a build's stack. Only pages that are used take memory.
const STACK: usize = 256 << 20;

/// The bytes that the caller's stack must have left for a build to stay on it.
const MIN_REMAINING: usize = STACK - (16 << 20);

/// Runs `work` on a stack that is large enough for the maximal nesting of a build: a worker of an
/// asynchronous runtime has 2 MiB.
pub fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(MIN_REMAINING, STACK, work)
}
