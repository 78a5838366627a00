//! Go's regular expressions, compiled once per thread.

use driftless_go::Error as GoError;
use driftless_go::re2;
use driftless_gotmpl::{Exec, FuncError};
use regex::bytes::{CaptureMatches, Match, Matches, Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A compiled expression.
#[derive(Clone)]
pub(crate) struct Regexp {
    regex: Rc<Regex>,
    empty: bool,
    /// The steps per eight bytes of input, in addition to those of any expression.
    steps: u64,
    /// The size of the expanded expression.
    size: u64,
}

impl Regexp {
    /// Charges for matching an input.
    ///
    /// # Errors
    /// The budget is used up.
    pub fn pay(&self, exec: &mut Exec<'_>, s: &[u8]) -> Result<(), FuncError> {
        exec.charge_bytes(s.len())?;
        exec.charge(self.steps.saturating_mul(s.len() as u64) / 8)
    }

    pub fn is_match(&self, s: &[u8]) -> bool {
        self.regex.is_match(s)
    }

    pub fn find<'s>(&self, s: &'s [u8]) -> Option<Match<'s>> {
        self.regex.find(s)
    }

    pub fn find_iter<'s>(&self, s: &'s [u8]) -> Matches<'_, 's> {
        self.regex.find_iter(s)
    }

    pub fn captures_iter<'s>(&self, s: &'s [u8]) -> CaptureMatches<'_, 's> {
        self.regex.captures_iter(s)
    }

    /// Checks whether the expression is empty.
    pub fn is_empty_pattern(&self) -> bool {
        self.empty
    }
}

/// The maximal number of cached expressions per thread, and per render: charts use the same ones
/// repeatedly.
const CACHE_ENTRIES: usize = 64;

/// The maximal total size of cached expressions, expanded.
const CACHE_SIZE: u64 = 400_000;

/// The positions of an expression for which eight bytes of input cost one more step.
const PLACES_PER_STEP: u64 = 16;

/// The bytes of the states that matching caches.
const MAX_STATE_BYTES: usize = 512 << 10;

/// The maximal bytes of one compiled expression.
const SIZE: usize = 1 << 20;

/// The cache of expressions: compiled, or Go's message without its head.
#[derive(Default)]
pub(crate) struct Cache {
    expressions: HashMap<String, Result<Regexp, GoError>>,
    size: u64,
}

impl Cache {
    /// Returns what is kept for an expression.
    pub(super) fn get(&self, pattern: &str) -> Option<Result<Regexp, GoError>> {
        self.expressions.get(pattern).cloned()
    }

    pub(super) fn keep(&mut self, pattern: &str, compiled: &Result<Regexp, GoError>) {
        let size = compiled.as_ref().map_or(0, |regexp| regexp.size);
        self.size = self.size.saturating_add(size);
        if self.expressions.len() >= CACHE_ENTRIES || self.size > CACHE_SIZE {
            *self = Cache {
                size,
                ..Cache::default()
            };
        }
        self.expressions
            .insert(pattern.to_owned(), compiled.clone());
    }
}

/// The expressions of a render, or of a thread.
pub(crate) type Compiled = RefCell<Cache>;

thread_local! {
    static COMPILED: Compiled = RefCell::default();
}

/// Returns the compiled expression, from the cache of the thread if it is there; the error is Go's
/// message without its head.
pub(super) fn compiled(
    pattern: &str,
    translated: Result<String, GoError>,
) -> Result<Regexp, GoError> {
    if let Some(known) = COMPILED.with_borrow(|all| all.get(pattern)) {
        return known;
    }
    let compiled = translated.and_then(|translated| {
        let built = RegexBuilder::new(&translated)
            .size_limit(SIZE)
            .dfa_size_limit(MAX_STATE_BYTES)
            .nest_limit(1_000)
            .build();
        match built {
            Ok(regex) => Ok(Regexp {
                regex: Rc::new(regex),
                empty: pattern.is_empty(),
                steps: re2::places(pattern) / PLACES_PER_STEP,
                size: re2::expansion(pattern),
            }),
            Err(_) => Err("expression too large".into()),
        }
    });
    COMPILED.with_borrow_mut(|all| all.keep(pattern, &compiled));
    compiled
}
