//! A text as Go's regular expressions see it: every byte that is no UTF-8 is one U+FFFD.

use std::borrow::Cow;
use std::ops::Range;

/// The text that is searched, and the way back to the one that was given.
pub(super) struct LossyUtf8<'s> {
    given: &'s [u8],
    seen: Cow<'s, [u8]>,
    /// Where a U+FFFD stands in `seen` for one byte.
    replaced: Vec<usize>,
}

const REPLACEMENT: &str = "\u{FFFD}";

impl<'s> LossyUtf8<'s> {
    pub fn new(given: &'s [u8]) -> Self {
        let mut subject = Self {
            given,
            seen: Cow::Borrowed(given),
            replaced: Vec::new(),
        };
        if std::str::from_utf8(given).is_err() {
            let mut seen = Vec::with_capacity(given.len() + 16);
            for chunk in given.utf8_chunks() {
                seen.extend_from_slice(chunk.valid().as_bytes());
                for _ in chunk.invalid() {
                    subject.replaced.push(seen.len());
                    seen.extend_from_slice(REPLACEMENT.as_bytes());
                }
            }
            subject.seen = Cow::Owned(seen);
        }
        subject
    }

    /// What is searched.
    pub fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// The part of the given text that a part of the seen one stands for.
    pub fn given(&self, seen: Range<usize>) -> &'s [u8] {
        self.given.get(self.range(seen)).unwrap_or_default()
    }

    /// The place in the given text of a part of the seen one.
    pub fn range(&self, seen: Range<usize>) -> Range<usize> {
        self.place(seen.start)..self.place(seen.end)
    }

    fn place(&self, seen: usize) -> usize {
        let before = self.replaced.partition_point(|at| *at < seen);
        seen - before * (REPLACEMENT.len() - 1)
    }
}
