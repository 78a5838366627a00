//! `--set` and the related flags.

use super::Table;
use crate::compat::Compat;
use crate::convert::floats;
use crate::error::HelmError;
use driftless_go::Error as GoError;
use driftless_go::quote::quote;
use serde_json::Value as Json;

/// The flag of an override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// `--set`: true, false, null and integers are typed.
    Typed,
    /// `--set-string`: every value is a string.
    Text,
    /// `--set-json`: every value is JSON.
    Json,
    /// `--set-literal`: the rest of the argument is one string.
    Literal,
    /// `--set-file`: the value is the path of a file, whose content is used.
    File,
}

const MAX_INDEX: usize = 65_536;
const MAX_NESTING: usize = 30;

/// The maximal elements with which one argument may fill lists, before those that it names.
const MAX_FILL: usize = 4 * MAX_INDEX;

impl SetKind {
    fn flag(self) -> &'static str {
        match self {
            SetKind::Typed => "--set",
            SetKind::Text => "--set-string",
            SetKind::Json => "--set-json",
            SetKind::Literal => "--set-literal",
            SetKind::File => "--set-file",
        }
    }
}

/// Applies one override to `values`. `file` reads a file for [`SetKind::File`].
///
/// # Errors
/// [`HelmError::Values`], with Helm's message.
pub fn set(
    values: &mut Table,
    kind: SetKind,
    argument: &str,
    compat: Compat,
    file: &dyn Fn(&str) -> Result<String, GoError>,
) -> Result<(), HelmError> {
    if kind == SetKind::Json && compat == Compat::Helm4 && argument.trim().starts_with('{') {
        let Ok(Json::Object(table)) = serde_json::from_str(argument.trim()) else {
            return Err(HelmError::Values(
                "failed parsing --set-json data: the value is not JSON".to_owned(),
            ));
        };
        let Json::Object(table) = floats(Json::Object(table)) else {
            return Ok(());
        };
        *values = super::merge(std::mem::take(values), table);
        return Ok(());
    }
    let mut parser = Parser {
        text: argument,
        kind,
        compat,
        file,
        fill: MAX_FILL,
    };
    loop {
        match parser.key(values, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Error(message)) => {
                return Err(HelmError::Values(format!(
                    "failed parsing {} data: {message}",
                    kind.flag()
                )));
            }
        }
    }
}

enum Stop {
    End,
    Error(String),
}

impl From<GoError> for Stop {
    fn from(error: GoError) -> Self {
        Stop::Error(error.into())
    }
}

impl From<&str> for Stop {
    fn from(message: &str) -> Self {
        Stop::Error(message.to_owned())
    }
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Stop::Error(message)
    }
}

type Step<T> = Result<T, Stop>;

struct Parser<'t> {
    text: &'t str,
    kind: SetKind,
    compat: Compat,
    file: &'t dyn Fn(&str) -> Result<String, GoError>,
    /// The elements with which lists may still be filled.
    fill: usize,
}

fn put(data: &mut Table, key: String, value: Json) {
    if !key.is_empty() {
        data.insert(key, value);
    }
}

fn check_index(index: usize) -> Step<()> {
    if index > MAX_INDEX {
        let message =
            format!("index of {index} is greater than maximum supported index of {MAX_INDEX}");
        return Err(message.into());
    }
    Ok(())
}

fn not_a(kind: &str) -> Stop {
    Stop::Error(format!(
        "unable to parse key: the existing value is not a {kind}"
    ))
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.text.chars().next()?;
        self.text = &self.text[c.len_utf8()..];
        Some(c)
    }

    /// Returns the input up to one of the stops, and that stop if there is one.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut out = String::new();
        while let Some(c) = self.next() {
            if stops.contains(&c) {
                return (out, Some(c));
            }
            if c == '\\' && self.kind != SetKind::Literal {
                match self.next() {
                    Some(next) => out.push(next),
                    None => break,
                }
            } else {
                out.push(c);
            }
        }
        (out, None)
    }

    fn key(&mut self, data: &mut Table, depth: usize) -> Step<()> {
        let stops: &[char] = if self.kind == SetKind::Literal {
            &['=', '[', '.']
        } else {
            &['=', '[', ',', '.']
        };
        let (key, stop) = self.until(stops);
        let quoted = || quote(key.as_bytes());
        match stop {
            None if key.is_empty() => Err(Stop::End),
            None => Err(format!("key {} has no value", quoted()).into()),
            Some('[') => {
                let index = self.index()?;
                let mut list = match data.get_mut(&key) {
                    None => Vec::new(),
                    Some(Json::Array(list)) => std::mem::take(list),
                    Some(_) => return Err(not_a("list")),
                };
                let done = self.item(&mut list, index, depth);
                // An index without a value still creates the list.
                put(data, key, Json::Array(list));
                done
            }
            Some('=') => self.assign(data, key),
            Some('.') => {
                if depth + 1 > MAX_NESTING {
                    return Err(format!("value name nested level is greater than maximum supported nested level of {MAX_NESTING}").into());
                }
                let mut inner = match data.get_mut(&key) {
                    None => Table::new(),
                    Some(Json::Object(table)) => std::mem::take(table),
                    Some(_) => return Err(not_a("table")),
                };
                let result = self.key(&mut inner, depth + 1);
                if result.is_ok() && inner.is_empty() {
                    return Err(format!("key map {} has no value", quoted()).into());
                }
                if !inner.is_empty() {
                    put(data, key, Json::Object(inner));
                }
                result
            }
            Some(_) => Err(format!("key {} has no value (cannot end with ,)", quoted()).into()),
        }
    }

    fn assign(&mut self, data: &mut Table, key: String) -> Step<()> {
        let value = match self.kind {
            SetKind::Json => self.json()?,
            SetKind::Literal => Json::String(self.rest()),
            _ => match self.list() {
                Ok(Some(list)) => Json::Array(list),
                Ok(None) => self.value()?,
                Err(Stop::End) => {
                    put(data, key, Json::String(String::new()));
                    return Err(Stop::End);
                }
                Err(stop) => return Err(stop),
            },
        };
        put(data, key, value);
        Ok(())
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.text).to_owned()
    }

    fn value(&mut self) -> Step<Json> {
        let (text, _) = self.until(&[',']);
        self.typed(text)
    }

    fn typed(&self, text: String) -> Step<Json> {
        if self.kind == SetKind::File {
            return Ok(Json::String((self.file)(&text)?));
        }
        if self.kind != SetKind::Typed {
            return Ok(Json::String(text));
        }
        if text.eq_ignore_ascii_case("true") {
            return Ok(Json::Bool(true));
        }
        if text.eq_ignore_ascii_case("false") {
            return Ok(Json::Bool(false));
        }
        if text.eq_ignore_ascii_case("null") {
            return Ok(Json::Null);
        }
        if text == "0" {
            return Ok(Json::Number(0.into()));
        }
        if !text.starts_with('0')
            && let Ok(i) = text.parse::<i64>()
        {
            return Ok(Json::Number(i.into()));
        }
        Ok(Json::String(text))
    }

    fn index(&mut self) -> Step<usize> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Err(match self.compat {
                Compat::Helm3 => "error parsing index: EOF".into(),
                // Helm 4 treats this as the end of the argument.
                Compat::Helm4 => Stop::End,
            });
        }
        let index: i64 = text.parse().map_err(|_| {
            format!(
                "error parsing index: {} is not a number",
                quote(text.as_bytes())
            )
        })?;
        usize::try_from(index)
            .map_err(|_| Stop::Error(format!("negative {index} index not allowed")))
    }

    fn item(&mut self, list: &mut Vec<Json>, index: usize, depth: usize) -> Step<()> {
        let (text, stop) = self.until(&['[', '.', '=']);
        if !text.is_empty() {
            let quoted = quote(text.as_bytes());
            return Err(format!("unexpected data at end of array index: {quoted}").into());
        }
        check_index(index)?;
        let value = match stop {
            None => return Err(Stop::End),
            Some('=') => match self.kind {
                SetKind::Json => self.json()?,
                SetKind::Literal => Json::String(self.rest()),
                _ => match self.list() {
                    Ok(Some(inner)) => Json::Array(inner),
                    Ok(None) => self.value()?,
                    Err(Stop::End) => Json::String(String::new()),
                    Err(stop) => return Err(stop),
                },
            },
            Some('[') => {
                let next = self.index()?;
                if depth + 1 > MAX_NESTING {
                    return Err(not_a("list so deep"));
                }
                let mut inner = match list.get_mut(index) {
                    None | Some(Json::Null) => Vec::new(),
                    Some(Json::Array(inner)) => std::mem::take(inner),
                    Some(_) => return Err(not_a("list")),
                };
                let done = self.item(&mut inner, next, depth + 1);
                if let (Err(_), Some(Json::Array(old))) = (&done, list.get_mut(index)) {
                    *old = std::mem::take(&mut inner);
                }
                done?;
                Json::Array(inner)
            }
            Some(_) => {
                let mut inner = match list.get_mut(index) {
                    Some(Json::Object(table)) => std::mem::take(table),
                    _ => Table::new(),
                };
                if depth + 1 > MAX_NESTING {
                    return Err(not_a("table so deep"));
                }
                let known = index < list.len();
                match self.key(&mut inner, depth + 1) {
                    Ok(()) => {}
                    // `a[0].b=` at the end: Helm fills existing elements, and forgets missing ones.
                    Err(Stop::End) if known => {}
                    Err(stop) => return Err(stop),
                }
                Json::Object(inner)
            }
        };
        self.put_at(list, index, value)
    }

    fn put_at(&mut self, list: &mut Vec<Json>, index: usize, value: Json) -> Step<()> {
        let more = (index + 1).saturating_sub(list.len());
        match self.fill.checked_sub(more) {
            Some(left) => self.fill = left,
            None => return Err(format!("the lists have more than {MAX_FILL} elements").into()),
        }
        if more > 0 {
            list.resize(index + 1, Json::Null);
        }
        list[index] = value;
        Ok(())
    }

    /// Reads `{a,b}`; `None` if the value does not start with a brace.
    fn list(&mut self) -> Step<Option<Vec<Json>>> {
        match self.text.chars().next() {
            None => return Err(Stop::End),
            Some('{') => self.next(),
            Some(_) => return Ok(None),
        };
        let mut list = Vec::new();
        loop {
            let (text, stop) = self.until(&[',', '}']);
            match stop {
                None => return Err("list must terminate with '}'".into()),
                Some(stop) => {
                    list.push(self.typed(text)?);
                    if stop == '}' {
                        if self.text.starts_with(',') {
                            self.next();
                        }
                        return Ok(Some(list));
                    }
                }
            }
        }
    }

    /// Skips white space; returns whether the value ends there.
    fn empty(&mut self) -> bool {
        loop {
            match self.text.chars().next() {
                None => return true,
                Some(',') => {
                    self.next();
                    return true;
                }
                Some(c) if c.is_whitespace() => {
                    self.next();
                }
                Some(_) => return false,
            }
        }
    }

    fn json(&mut self) -> Step<Json> {
        if self.empty() {
            return Ok(Json::Null);
        }
        let mut stream = serde_json::Deserializer::from_str(self.text).into_iter::<Json>();
        let value = match stream.next() {
            Some(Ok(value)) => value,
            _ => return Err("the value is not JSON".into()),
        };
        let used = stream.byte_offset();
        self.text = &self.text[used..];
        self.empty();
        Ok(floats(value))
    }
}
