//! A string as Go's regular expressions see it: every byte that is not UTF-8 is one U+FFFD.

use std::borrow::Cow;
use std::ops::Range;

/// The string that is searched, and the mapping to the original one.
pub(super) struct LossyUtf8<'s> {
    original: &'s [u8],
    seen: Cow<'s, [u8]>,
    /// The offsets in `seen` of each U+FFFD that replaces one byte.
    replaced: Vec<usize>,
}

const REPLACEMENT: &str = "\u{FFFD}";

impl<'s> LossyUtf8<'s> {
    pub fn new(original: &'s [u8]) -> Self {
        let mut subject = Self {
            original,
            seen: Cow::Borrowed(original),
            replaced: Vec::new(),
        };
        if std::str::from_utf8(original).is_err() {
            let mut seen = Vec::with_capacity(original.len() + 16);
            for chunk in original.utf8_chunks() {
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

    /// Returns the string that is searched.
    pub fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Returns the part of the original string for a part of the searched one.
    pub fn original(&self, seen: Range<usize>) -> &'s [u8] {
        self.original.get(self.range(seen)).unwrap_or_default()
    }

    /// Returns the range in the original string for a range of the searched one.
    pub fn range(&self, seen: Range<usize>) -> Range<usize> {
        self.place(seen.start)..self.place(seen.end)
    }

    fn place(&self, seen: usize) -> usize {
        let before = self.replaced.partition_point(|at| *at < seen);
        seen - before * (REPLACEMENT.len() - 1)
    }
}
