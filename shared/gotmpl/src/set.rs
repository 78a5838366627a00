//! Sets of templates that can call each other.

use crate::Table;
use crate::error::{Error, ErrorKind};
use crate::function::Functions;
use crate::parse::{self, Parsed, Tree};
use driftless_fuel::Span;
use std::sync::Arc;

/// The result of a missing key of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value (`missingkey=default`).
    #[default]
    Default,
    /// The zero value of the map's elements (`missingkey=zero`).
    Zero,
    /// An error (`missingkey=error`).
    Error,
}

/// Templates by name, parsed once. A clone is cheap and shares the trees; later additions to one
/// are not visible in the other.
#[derive(Clone, Debug)]
pub struct Templates(Arc<Layer>);

#[derive(Debug)]
struct Layer {
    functions: Arc<Functions>,
    missing_key: MissingKey,
    below: Option<Arc<Layer>>,
    trees: Table<Arc<str>, Arc<Tree>>,
    /// The results of parsing sources, by their text: a chart may contain a library repeatedly.
    sources: Table<Arc<str>, Arc<Parsed>>,
    /// The tokens of all texts that were parsed, and the share for the texts themselves.
    tokens: usize,
}

/// The maximal tokens of all texts of one set, with the share for the texts themselves: about 75
/// MiB of trees. The largest public charts have a fifth of that.
const MAX_TOKENS: usize = 600_000;

impl Templates {
    /// Creates an empty set with these functions.
    pub fn new(functions: impl Into<Arc<Functions>>) -> Self {
        Templates(Arc::new(Layer {
            functions: functions.into(),
            missing_key: MissingKey::Default,
            below: None,
            trees: Table::default(),
            sources: Table::default(),
            tokens: 0,
        }))
    }

    fn own(&mut self) -> &mut Layer {
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::new(Layer {
                functions: self.0.functions.clone(),
                missing_key: self.0.missing_key,
                below: Some(self.0.clone()),
                trees: Table::default(),
                sources: Table::default(),
                tokens: self.0.tokens,
            });
        }
        // The layer is not shared: it was checked, or created, above.
        Arc::make_mut(&mut self.0)
    }

    /// Sets the result of a missing key.
    pub fn missing_key(mut self, option: MissingKey) -> Self {
        self.own().missing_key = option;
        self
    }

    pub(crate) fn missing(&self) -> MissingKey {
        self.0.missing_key
    }

    /// Parses a source as the template `name`, with the templates that it defines. A template that
    /// has only white space and comments does not replace an existing one.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`], with Go's message; [`ErrorKind::Budget`] for texts that are larger
    /// than any set of templates.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<(), Error> {
        // The trees keep the source in memory.
        let text_tokens = text.len() / parse::TOKEN_BYTES;
        let left = MAX_TOKENS.saturating_sub(self.0.tokens.saturating_add(text_tokens));
        let known = self.0.sources.get(text);
        let parsed = match known.and_then(|known| known.of_source(name, left)) {
            Some(parsed) => parsed,
            None => parse::parse(name, text, &self.0.functions, left)?,
        };
        self.own().tokens += text_tokens + parsed.tokens;
        self.add(&parsed.trees);
        if let Some(text) = parsed.trees.first().map(|tree| tree.text.clone()) {
            self.own().sources.insert(text, Arc::new(parsed));
        }
        Ok(())
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.0.functions
    }

    pub(crate) fn add(&mut self, trees: &[Arc<Tree>]) {
        for tree in trees {
            if tree.is_empty() && self.tree(&tree.name).is_some() {
                continue;
            }
            self.own().trees.insert(tree.name.clone(), tree.clone());
        }
    }

    pub(crate) fn tree(&self, name: &str) -> Option<Arc<Tree>> {
        let mut layer = &self.0;
        loop {
            if let Some(tree) = layer.trees.get(name) {
                return Some(tree.clone());
            }
            layer = layer.below.as_ref()?;
        }
    }

    /// Checks whether there is a template of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.tree(name).is_some()
    }
}

impl Clone for Layer {
    fn clone(&self) -> Self {
        Layer {
            functions: self.functions.clone(),
            missing_key: self.missing_key,
            below: self.below.clone(),
            trees: self.trees.clone(),
            sources: self.sources.clone(),
            tokens: self.tokens,
        }
    }
}

pub(crate) fn no_template(name: &str) -> Error {
    let quoted = driftless_go::quote::quote(name.as_bytes());
    Error::new(
        ErrorKind::NoTemplate,
        format!("template: no template {quoted} associated with template \"gotpl\""),
        Span::new(name, 0, 0),
    )
}
