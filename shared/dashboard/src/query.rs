//! The queries of pages: filters in links that can be shared.

use crate::model::{Row, Snapshot, State};
use percent_encoding::percent_decode_str;

/// The rows of a page.
pub const PAGE: usize = 100;

/// Decodes a part of a path; `None` if it is not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// Returns the fields of a form or query.
pub fn fields(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}

/// Returns a field of a form or query; an empty string if it is missing.
pub fn field(text: &str, name: &str) -> String {
    let mut fields = fields(text).into_iter();
    fields
        .find_map(|(key, value)| (key == name).then_some(value))
        .unwrap_or_default()
}

/// The filter of the list of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Words that must all be in the hub, the cluster, the name, the revision or the message.
    pub text: String,
    /// The states; all if empty.
    pub states: Vec<State>,
    /// The hub; all if empty.
    pub hub: String,
    /// The cluster; all if empty.
    pub cluster: String,
    /// The namespace; all if empty.
    pub namespace: String,
    /// The kind; all if empty.
    pub kind: String,
    /// The order: `state`, `name` or `age`.
    pub sort: Sort,
    /// The number of the page, from 1.
    pub page: usize,
}

/// The order of the list of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The most urgent state first.
    #[default]
    State,
    /// The order of hub, namespace, kind and name.
    Name,
    /// The youngest change first.
    Age,
}

impl Sort {
    /// All orders of a list.
    pub const ALL: [Self; 3] = [Self::State, Self::Name, Self::Age];

    /// Returns the name in queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Name => "name",
            Self::Age => "age",
        }
    }
}

impl Filter {
    /// Reads a filter from a query. What is not valid is left out.
    pub fn parse(query: &str) -> Self {
        let mut filter = Self {
            page: 1,
            ..Self::default()
        };
        for (key, value) in fields(query) {
            match key.as_str() {
                "q" => filter.text = value.chars().take(200).collect(),
                "state" => filter.states.extend(State::parse(&value)),
                "hub" => filter.hub = value,
                "cluster" => filter.cluster = value,
                "namespace" => filter.namespace = value,
                "kind" => filter.kind = value,
                "sort" => {
                    let mut all = Sort::ALL.into_iter();
                    let known = all.find(|sort| sort.as_str() == value);
                    filter.sort = known.unwrap_or_default();
                }
                "page" => filter.page = value.parse().unwrap_or(1).max(1),
                _ => {}
            }
        }
        filter
    }

    /// Renders the query; empty for the filter without conditions.
    pub fn query(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (key, value) in [
            ("q", &self.text),
            ("hub", &self.hub),
            ("cluster", &self.cluster),
            ("namespace", &self.namespace),
            ("kind", &self.kind),
        ] {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        for state in &self.states {
            query.append_pair("state", state.as_str());
        }
        if self.sort != Sort::default() {
            query.append_pair("sort", self.sort.as_str());
        }
        if self.page > 1 {
            query.append_pair("page", &self.page.to_string());
        }
        query.finish()
    }

    /// Returns the link to a page with this filter.
    pub fn href(&self, path: &str) -> String {
        match self.query() {
            query if query.is_empty() => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    /// Returns whether any condition is set.
    pub fn is_set(&self) -> bool {
        let without = Self {
            sort: Sort::default(),
            page: 1,
            ..self.clone()
        };
        !without.query().is_empty()
    }

    /// Returns the filter of the first page, for the links that change another part.
    #[must_use]
    pub fn first(&self) -> Self {
        Self {
            page: 1,
            ..self.clone()
        }
    }

    /// Returns whether a row passes, whatever its state.
    fn passes(&self, row: &Row, words: &[String]) -> bool {
        let is = |wanted: &str, value: &str| wanted.is_empty() || wanted == value;
        is(&self.hub, &row.hub)
            && is(&self.cluster, &row.cluster)
            && is(&self.namespace, &row.id.namespace)
            && is(&self.kind, row.id.kind.as_str())
            && (words.is_empty() || {
                let text = format!(
                    "{} {} {} {} {}",
                    row.hub, row.cluster, row.id, row.revision, row.message
                );
                let text = text.to_lowercase();
                words.iter().all(|word| text.contains(word.as_str()))
            })
    }

    /// Returns the rows that pass, in order, and how many of each state pass without the condition
    /// on states.
    pub fn apply<'s>(&self, snapshot: &'s Snapshot) -> (Vec<&'s Row>, Vec<(State, usize)>) {
        let words: Vec<String> = self
            .text
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let rows = snapshot.objects.iter();
        let all: Vec<&Row> = rows.filter(|row| self.passes(row, &words)).collect();
        let count = |state: State| all.iter().filter(|row| row.state == state).count();
        let counts = State::ALL.map(|state| (state, count(state)));
        let is_wanted = |row: &&Row| self.states.is_empty() || self.states.contains(&row.state);
        let mut rows: Vec<&Row> = all.into_iter().filter(is_wanted).collect();
        match self.sort {
            Sort::State => rows.sort_by_key(|row| row.state),
            Sort::Name => {}
            Sort::Age => rows.sort_by_key(|row| std::cmp::Reverse(row.since)),
        }
        (rows, counts.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_survive_their_links() {
        let query = "q=web+%26&hub=eu&state=failed&state=ready&sort=age&page=3&nothing=1";
        let filter = Filter::parse(query);
        assert_eq!(filter.text, "web &");
        assert_eq!(Filter::parse(&filter.query()), filter);
        assert!(filter.is_set() && !Filter::parse("sort=age&page=2").is_set());
        assert_eq!(Filter::parse("").href("/objects"), "/objects");
        assert_eq!(crate::text::segment("a/b c"), "a%2Fb%20c");
        assert_eq!(decode("a%2Fb%20c").as_deref(), Some("a/b c"));
        assert_eq!(decode("%ff"), None);
    }
}
