//! Go's regular expressions: compiled once per thread, charged once per render.

use crate::render_context::RenderContext;
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
    expressions: HashMap<String, Result<Regexp, String>>,
    size: u64,
}

impl Cache {
    fn keep(&mut self, pattern: &str, compiled: &Result<Regexp, String>) {
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

/// Compiles an expression; the inner error is Go's message without its head.
///
/// # Errors
/// The outer one is a used-up budget.
pub(super) fn compile(
    exec: &mut Exec<'_>,
    pattern: &str,
) -> Result<Result<Regexp, String>, FuncError> {
    exec.charge_bytes(pattern.len().saturating_mul(16))?;
    // The cost of a render must not depend on earlier renders.
    let paid = exec.host::<RenderContext>().map(|host| &host.compiled);
    if let Some(known) = paid.and_then(|paid| paid.borrow().expressions.get(pattern).cloned()) {
        return Ok(known);
    }
    exec.charge_bytes(pattern.len().saturating_mul(1024).saturating_add(4096))?;
    let translated = re2::translate(pattern);
    if translated.is_ok() {
        exec.charge(re2::expansion(pattern).min(MAX_COST))?;
    }
    let compiled = compiled(pattern, translated);
    if let Some(paid) = paid {
        paid.borrow_mut().keep(pattern, &compiled);
    }
    Ok(compiled)
}

fn compiled(pattern: &str, translated: Result<String, String>) -> Result<Regexp, String> {
    if let Some(known) = COMPILED.with_borrow(|all| all.expressions.get(pattern).cloned()) {
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
            Err(_) => Err("expression too large".to_owned()),
        }
    });
    COMPILED.with_borrow_mut(|all| all.keep(pattern, &compiled));
    compiled
}

/// The maximal steps of compiling: a larger expression is refused.
const MAX_COST: u64 = 400_000;
