//! Evaluates the expansions of a substitution.

use super::budget::{Budget, EvalError};
use super::glob::trim_prefix;
use super::parse::{Expansion, Piece};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that are read or copied per step.
const BYTES_PER_STEP: usize = 16;

/// The variables, and the treatment of missing ones.
pub(super) struct Scope<'v> {
    pub vars: &'v BTreeMap<String, String>,
    pub strict: bool,
    /// True if line breaks in values are removed.
    pub one_line: bool,
}

impl Scope<'_> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.vars.get(name)?;
        Some(match self.one_line && value.contains('\n') {
            true => Cow::Owned(value.replace('\n', "")),
            false => Cow::Borrowed(value),
        })
    }
}

/// Evaluates pieces to a string. An error has its line.
pub(super) fn pieces(
    pieces: &[Piece],
    scope: &Scope,
    budget: &Budget<'_>,
) -> Result<String, (EvalError, usize)> {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                budget.write(text.len()).map_err(|error| (error, 1))?;
                out.push_str(text);
            }
            Piece::Expansion(expansion) => {
                out.push_str(
                    &value(expansion, scope, budget).map_err(|error| (error, expansion.line))?,
                );
            }
        }
    }
    Ok(out)
}

fn value(expansion: &Expansion, scope: &Scope, budget: &Budget<'_>) -> Result<String, EvalError> {
    // Arguments first, even if unused: a missing variable in an unused default is also an error.
    let mut args = Vec::with_capacity(expansion.args.len());
    for arg in &expansion.args {
        args.push(match arg {
            Piece::Text(text) => text.clone(),
            Piece::Expansion(inner) => value(inner, scope, budget)?,
        });
    }
    let read = scope.vars.get(&expansion.name).map_or(0, String::len);
    let read = args
        .iter()
        .map(String::len)
        .fold(read, usize::saturating_add);
    budget.step(read / BYTES_PER_STEP)?;
    let set = scope.get(&expansion.name);
    if set.is_none() && scope.strict && !gives_default(&expansion.operator) {
        return Err(EvalError::NotSet(expansion.name.clone()));
    }
    let result = apply(expansion, set.as_deref().unwrap_or_default(), &args, budget)?;
    budget.write(result.len())?;
    Ok(result)
}

/// Adds the variables without a value and without a default.
pub(super) fn unset(
    pieces: &[Piece],
    vars: &BTreeMap<String, String>,
    into: &mut BTreeSet<String>,
) {
    for piece in pieces {
        if let Piece::Expansion(expansion) = piece {
            if !vars.contains_key(&expansion.name) && !gives_default(&expansion.operator) {
                into.insert(expansion.name.clone());
            }
            unset(&expansion.args, vars, into);
        }
    }
}

/// Checks whether an operator defines the value of an unset variable.
fn gives_default(operator: &str) -> bool {
    matches!(operator, "=" | ":-" | ":+" | ":=" | ":?")
}

fn apply(
    expansion: &Expansion,
    value: &str,
    args: &[String],
    budget: &Budget<'_>,
) -> Result<String, EvalError> {
    let first = args.first().map_or("", String::as_str);
    let second = args.get(1).map(String::as_str);
    Ok(match expansion.operator.as_str() {
        "," => change_first(value, lower),
        ",," => value.chars().map(lower).collect(),
        "^" => change_first(value, upper),
        "^^" => value.chars().map(upper).collect(),
        "#" if args.is_empty() => value.len().to_string(),
        "#" | "##" => {
            let rest = trim_prefix(
                value.as_bytes(),
                first.as_bytes(),
                expansion.operator == "##",
                budget,
            )?;
            whole(rest, expansion)?
        }
        "%" | "%%" => {
            let (value, pattern) = (reverse(value), reverse(first));
            let rest = trim_prefix(
                value.as_bytes(),
                pattern.as_bytes(),
                expansion.operator == "%%",
                budget,
            )?;
            reverse(&whole(rest, expansion)?)
        }
        ":" => substring(expansion, value, first, second)?,
        "/" => value.replacen(first, second.unwrap_or_default(), 1),
        "//" => replace_all(value, first, second.unwrap_or_default(), budget)?,
        "/#" => match (value.strip_prefix(first), second) {
            (Some(rest), Some(new)) => format!("{new}{rest}"),
            _ => value.to_owned(),
        },
        "/%" => match (value.strip_suffix(first), second) {
            (Some(rest), Some(new)) => format!("{rest}{new}"),
            _ => value.to_owned(),
        },
        // In Flux, every default operator, including `:+` and `:?`, acts like `:-`, and so does an
        // expansion without operator.
        _ if value.is_empty() => args.concat(),
        _ => value.to_owned(),
    })
}

fn replace_all(
    value: &str,
    old: &str,
    new: &str,
    budget: &Budget<'_>,
) -> Result<String, EvalError> {
    // Every byte may be a match.
    budget.step(value.len() / 2)?;
    let hits = value.matches(old).count();
    budget.own.room_for_bytes(hits.saturating_mul(new.len()))?;
    Ok(value.replace(old, new))
}

/// Returns at most `length` bytes from a position; a negative one counts from the end. If an
/// argument is not a number, the value stays unchanged.
fn substring(
    expansion: &Expansion,
    value: &str,
    position: &str,
    length: Option<&str>,
) -> Result<String, EvalError> {
    let Ok(position) = position.parse::<i64>() else {
        return Ok(value.to_owned());
    };
    let size = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let from = if position < 0 {
        size.saturating_add(position).max(0)
    } else {
        position
    };
    let to = match length.map(str::parse::<i64>) {
        None => size,
        Some(Err(_)) => return Ok(value.to_owned()),
        Some(Ok(length)) => from
            .checked_add(length)
            .ok_or_else(|| EvalError::Substring(expansion.name.clone()))?
            .min(size),
    };
    if to == size && from >= size {
        return Ok(String::new());
    }
    match (usize::try_from(from), usize::try_from(to)) {
        (Ok(from), Ok(to)) if from <= to => whole(&value.as_bytes()[from..to], expansion),
        _ => Err(EvalError::Substring(expansion.name.clone())),
    }
}

fn whole(bytes: &[u8], expansion: &Expansion) -> Result<String, EvalError> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| EvalError::BrokenCharacter(expansion.name.clone()))
}

fn reverse(text: &str) -> String {
    text.chars().rev().collect()
}

fn change_first(text: &str, change: impl Fn(char) -> char) -> String {
    let mut chars = text.chars();
    match chars.next() {
        None => String::new(),
        Some(first) => std::iter::once(change(first)).chain(chars).collect(),
    }
}

/// Converts like Go's `unicode.ToUpper`: one character to one character, so `ß` stays.
fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        _ => match c as u32 {
            code @ (0x1F80..=0x1F87 | 0x1F90..=0x1F97 | 0x1FA0..=0x1FA7) => {
                char::from_u32(code + 8).unwrap_or(c)
            }
            code @ (0x1FB3 | 0x1FC3 | 0x1FF3) => char::from_u32(code + 9).unwrap_or(c),
            _ => c,
        },
    }
}

/// Converts like Go's `unicode.ToLower`: `İ` becomes `i`.
fn lower(c: char) -> char {
    let mut all = c.to_lowercase();
    match (all.next(), all.next()) {
        (Some(one), None) => one,
        (Some(first), Some(_)) if c == 'İ' => first,
        _ => c,
    }
}
