//! Go's regular expressions: compiled once a thread, paid for once a render.

use crate::host::Host;
use driftless_gotmpl::{Exec, FuncError};
use driftless_manifest::re2;
use regex::bytes::{CaptureMatches, Match, Matches, Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A compiled expression.
#[derive(Clone)]
pub(crate) struct Regexp {
    regex: Rc<Regex>,
    empty: bool,
}

impl Regexp {
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

/// Compiled expressions that are kept a thread: charts use the same ones again and again.
const KEPT: usize = 64;

/// Bytes that one compiled expression may take.
const SIZE: usize = 1 << 20;

/// Expressions by their text: compiled, or Go's message without its head.
pub(crate) type Compiled = RefCell<HashMap<String, Result<Regexp, String>>>;

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
    let paid = exec.host::<Host>().map(|host| &host.compiled);
    if let Some(known) = paid.and_then(|paid| paid.borrow().get(pattern).cloned()) {
        return Ok(known);
    }
    exec.charge_bytes(pattern.len().saturating_mul(1024).saturating_add(4096))?;
    let translated = re2::translate(pattern);
    if translated.is_ok() {
        exec.charge(expansion(pattern).min(MAX_COST))?;
    }
    let compiled = compiled(pattern, translated);
    if let Some(paid) = paid {
        paid.borrow_mut()
            .insert(pattern.to_owned(), compiled.clone());
    }
    Ok(compiled)
}

fn compiled(pattern: &str, translated: Result<String, String>) -> Result<Regexp, String> {
    if let Some(known) = COMPILED.with_borrow(|all| all.get(pattern).cloned()) {
        return known;
    }
    let compiled = translated.and_then(|translated| {
        let built = RegexBuilder::new(&translated)
            .size_limit(SIZE)
            .nest_limit(1_000)
            .build();
        match built {
            Ok(regex) => Ok(Regexp {
                regex: Rc::new(regex),
                empty: pattern.is_empty(),
            }),
            Err(_) => Err("expression too large".to_owned()),
        }
    });
    COMPILED.with_borrow_mut(|all| {
        if all.len() >= KEPT {
            all.clear();
        }
        all.insert(pattern.to_owned(), compiled.clone());
    });
    compiled
}

/// Steps that compiling takes at most: an expression that is too large is given up.
const MAX_COST: u64 = 400_000;

/// How large an expression is when its counted repetitions are written out, if they all stand in each other.
fn expansion(pattern: &str) -> u64 {
    let counts = pattern.split('{').skip(1).filter_map(|rest| {
        let counts = rest.split('}').next()?.split(',');
        counts.filter_map(|n| n.parse::<u64>().ok()).max()
    });
    counts.fold(pattern.len() as u64, |size, count| {
        size.saturating_mul(count.max(1))
    })
}
