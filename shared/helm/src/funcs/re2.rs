//! Go's regular expressions: compiled once a thread, paid for once a render.

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
    /// Steps that eight bytes of a text cost, beside those of any expression.
    steps: u64,
    /// How large it is, written out.
    size: u64,
}

impl Regexp {
    /// Pays for matching a text.
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

    /// Whether the expression is the empty text.
    pub fn is_empty_pattern(&self) -> bool {
        self.empty
    }
}

/// Compiled expressions that are kept a thread, and a render: charts use the same ones again and again.
const KEPT: usize = 64;

/// How large those that are kept are all together, written out.
const KEPT_SIZE: u64 = 400_000;

/// Places of an expression for a step that eight bytes of a text cost more.
const PLACES_PER_STEP: u64 = 16;

/// Bytes of the states that matching keeps.
const STATES: usize = 512 << 10;

/// Bytes that one compiled expression may take.
const SIZE: usize = 1 << 20;

/// Expressions by their text: compiled, or Go's message without its head.
#[derive(Default)]
pub(crate) struct Kept {
    expressions: HashMap<String, Result<Regexp, String>>,
    size: u64,
}

impl Kept {
    fn keep(&mut self, pattern: &str, compiled: &Result<Regexp, String>) {
        let size = compiled.as_ref().map_or(0, |regexp| regexp.size);
        self.size = self.size.saturating_add(size);
        if self.expressions.len() >= KEPT || self.size > KEPT_SIZE {
            *self = Kept {
                size,
                ..Kept::default()
            };
        }
        self.expressions
            .insert(pattern.to_owned(), compiled.clone());
    }
}

/// The expressions of a render, or of a thread.
pub(crate) type Compiled = RefCell<Kept>;

thread_local! {
    static COMPILED: Compiled = RefCell::default();
}

/// Compiles an expression; the inner error is Go's message without its head.
///
/// # Errors
/// The outer one is a budget that is used up.
pub(super) fn compile(
    exec: &mut Exec<'_>,
    pattern: &str,
) -> Result<Result<Regexp, String>, FuncError> {
    exec.charge_bytes(pattern.len().saturating_mul(16))?;
    // What a render costs must not hang on what was rendered before it.
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
            .dfa_size_limit(STATES)
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

/// Steps that compiling takes at most: an expression that is too large is given up.
const MAX_COST: u64 = 400_000;
