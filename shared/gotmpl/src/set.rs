//! Sets of templates that know each other.

use crate::Table;
use crate::error::{Error, ErrorKind};
use crate::exec::{Exec, Limits};
use crate::function::Functions;
use crate::parse::{self, Tree};
use crate::value::Value;
use std::any::Any;
use std::sync::Arc;

/// What a missing key of a map gives.
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

/// Templates by name, parsed once. A clone is cheap and shares the trees; what is parsed into one is not seen by the other.
#[derive(Clone, Debug)]
pub struct Templates(Arc<Layer>);

#[derive(Debug)]
struct Layer {
    functions: Arc<Functions>,
    missing_key: MissingKey,
    below: Option<Arc<Layer>>,
    trees: Table<Arc<str>, Arc<Tree>>,
    /// Tokens of all texts that were parsed, and what their texts count as.
    tokens: usize,
}

/// Tokens that the texts of one set may have, all together, with what the texts themselves take: some 75 MiB of trees. The
/// largest public charts have a fifth.
const MAX_TOKENS: usize = 600_000;

impl Templates {
    /// An empty set with these functions.
    pub fn new(functions: impl Into<Arc<Functions>>) -> Self {
        Templates(Arc::new(Layer {
            functions: functions.into(),
            missing_key: MissingKey::Default,
            below: None,
            trees: Table::default(),
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
                tokens: self.0.tokens,
            });
        }
        // The layer is not shared: it was looked at, or made, above.
        Arc::make_mut(&mut self.0)
    }

    /// Sets what a missing key gives.
    pub fn missing_key(mut self, option: MissingKey) -> Self {
        self.own().missing_key = option;
        self
    }

    pub(crate) fn missing(&self) -> MissingKey {
        self.0.missing_key
    }

    /// Parses a text as the template `name`, with what it defines. A template that has only white space and comments
    /// does not replace one that is there.
    ///
    /// # Errors
    /// [`ErrorKind::Parse`], worded as Go's; [`ErrorKind::Budget`] for texts that are larger than any set of templates.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<(), Error> {
        // The trees keep the text.
        let kept = text.len() / parse::TOKEN_BYTES;
        let left = MAX_TOKENS.saturating_sub(self.0.tokens.saturating_add(kept));
        let parsed = parse::parse(name, text, &self.0.functions, left)?;
        self.own().tokens += kept + parsed.tokens;
        self.add(&parsed.trees);
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

    /// Whether there is a template of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.tree(name).is_some()
    }

    /// Executes the template `name` on `data`. `host` is what functions get from [`Exec::host`].
    ///
    /// # Errors
    /// [`ErrorKind::Exec`], [`ErrorKind::Budget`] or [`ErrorKind::NoTemplate`].
    pub fn execute(
        &self,
        name: &str,
        data: Value,
        host: &dyn Any,
        limits: Limits,
    ) -> Result<Vec<u8>, Error> {
        Exec::new(self.clone(), host, limits).execute(name, data)
    }
}

impl Clone for Layer {
    fn clone(&self) -> Self {
        Layer {
            functions: self.functions.clone(),
            missing_key: self.missing_key,
            below: self.below.clone(),
            trees: self.trees.clone(),
            tokens: self.tokens,
        }
    }
}

pub(crate) fn no_template(name: &str) -> Error {
    let quoted = driftless_go::quote::quote(name.as_bytes());
    Error {
        kind: ErrorKind::NoTemplate,
        message: format!("template: no template {quoted} associated with template \"gotpl\""),
        template: name.to_owned(),
        line: 0,
    }
}
