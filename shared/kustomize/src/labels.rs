//! Label selectors: `a=b, c!=d, e in (f, g), h notin (i), j, !k, l > 1`, as Kubernetes reads them.

use crate::error::{Error, ErrorKind};
use crate::selector::shortened;

/// What every label set must fulfil.
#[derive(Debug, Default)]
pub(crate) struct Selector(Vec<Requirement>);

#[derive(Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Selector {
    /// # Errors
    /// Text that is no selector.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fault = |reason: String| ErrorKind::Selector {
            selector: shortened(text),
            reason,
        };
        let tokens = tokens(text).map_err(fault)?;
        let mut parser = Parser { tokens, at: 0 };
        parser
            .requirements()
            .map(Self)
            .map_err(|reason| fault(reason).into())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels, which `get` finds, are as it says.
    pub fn matches<'l>(&self, get: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.test.holds(get(&requirement.key)))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Test::In(values), Some(value)) => values.iter().any(|one| one == value),
            (Test::NotIn(values), Some(value)) => !values.iter().any(|one| one == value),
            (Test::NotIn(_) | Test::Absent, None) | (Test::Exists, Some(_)) => true,
            (Test::Above(limit), Some(value)) => {
                value.parse().is_ok_and(|value: i64| value > *limit)
            }
            (Test::Below(limit), Some(value)) => {
                value.parse().is_ok_and(|value: i64| value < *limit)
            }
            _ => false,
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    const SYMBOLS: [&str; 8] = ["==", "!=", "=", "!", "(", ")", ",", ">"];
    let special = |c: char| "=!(),><".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n']);
    while let Some(first) = rest.chars().next() {
        if special(first) {
            let symbol = SYMBOLS
                .iter()
                .chain(&["<"])
                .find(|symbol| rest.starts_with(**symbol));
            let symbol = symbol.ok_or_else(|| format!("'{first}' is not an operator"))?;
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest
                .find(|c: char| special(c) || " \t\r\n".contains(c))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }
    tokens.push(Token::End);
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if *self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => {}
                _ => return Err("expected ',' or the end".to_owned()),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = *self.peek() == Token::Symbol("!");
        if negated {
            self.next();
        }
        let Token::Word(key) = self.next() else {
            return Err("expected a label's name".to_owned());
        };
        check_key(&key)?;
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            let test = if negated { Test::Absent } else { Test::Exists };
            return Ok(Requirement { key, test });
        }
        if negated {
            return Err("expected ',' or the end after '!' and a name".to_owned());
        }
        let test = self.test()?;
        Ok(Requirement { key, test })
    }

    fn test(&mut self) -> Result<Test, String> {
        let test = match self.next() {
            Token::Symbol("=" | "==") => Test::In(vec![self.value()?]),
            Token::Symbol("!=") => Test::NotIn(vec![self.value()?]),
            Token::Symbol(">") => Test::Above(self.number()?),
            Token::Symbol("<") => Test::Below(self.number()?),
            Token::Word(word) if word == "in" => Test::In(self.values()?),
            Token::Word(word) if word == "notin" => Test::NotIn(self.values()?),
            _ => return Err("expected =, ==, !=, in, notin, < or >".to_owned()),
        };
        if let Test::In(values) | Test::NotIn(values) = &test {
            values.iter().try_for_each(|value| check_value(value))?;
        }
        Ok(test)
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek().clone() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            Token::Symbol(_) => Err("expected a value".to_owned()),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        self.value()?
            .parse()
            .map_err(|_| "'<' and '>' need a whole number".to_owned())
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        if self.next() != Token::Symbol("(") {
            return Err("expected '('".to_owned());
        }
        let mut values = vec![String::new()];
        loop {
            match self.next() {
                Token::Symbol(")") => return Ok(values),
                Token::Symbol(",") => values.push(String::new()),
                Token::Word(word) => match values.last_mut() {
                    Some(last) if last.is_empty() => *last = word,
                    _ => return Err("expected ',' or ')'".to_owned()),
                },
                _ => return Err("expected ')'".to_owned()),
            }
        }
    }
}

/// A name of up to 63 characters, with a DNS prefix before a slash or without.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let dns = |prefix: &str| {
        !prefix.is_empty()
            && prefix.len() <= 253
            && prefix.split('.').all(|part| {
                part.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                    && part.bytes().next().is_some_and(|byte| byte != b'-')
                    && !part.ends_with('-')
            })
    };
    if name.is_empty() || !is_name(name) || !prefix.is_none_or(dns) {
        return Err(format!("'{key}' is not a valid label name"));
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_name(value) {
        Ok(())
    } else {
        Err(format!("'{value}' is not a valid label value"))
    }
}

fn is_name(name: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.len() <= 63
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && edge(name.bytes().next())
        && edge(name.bytes().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects() {
        let labels = |key: &str| match key {
            "app" => Some("web"),
            "size" => Some("3"),
            _ => None,
        };
        for (selector, want) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!none", true),
            ("app=web,size==3", true),
            ("app != web", false),
            ("none!=x", true),
            ("app in (api, web)", true),
            ("app notin (api,web)", false),
            ("size > 2, size<4", true),
            ("in in (in)", false),
            ("app in (,web)", true),
        ] {
            assert_eq!(
                Selector::parse(selector).unwrap().matches(labels),
                want,
                "{selector}"
            );
        }
        for bad in [
            "app=",
            "a b",
            "app in web",
            "app,",
            "-x=1",
            "app in (a b)",
            "a/b/c",
            "app=a b",
            "size>x",
        ] {
            let parsed = Selector::parse(bad);
            assert_eq!(parsed.is_ok(), bad == "app=", "{bad}");
        }
    }
}
