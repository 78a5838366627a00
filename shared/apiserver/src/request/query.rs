//! The query of a URL, and the escapes of URLs.

use percent_encoding::percent_decode_str;

/// The parameters of a request, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query such as `a=b&c=d`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// Returns a parameter, or an empty string.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// Returns a parameter; `None` if it is absent.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns whether a parameter is set to another value than `0` and `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.find(name)
            .is_some_and(|value| !matches!(value, "0" | "false"))
    }
}

/// Decodes `%XX` and `+`.
pub(crate) fn decode(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}
