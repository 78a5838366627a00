//! Dotenv files: encrypted values, and metadata that is flattened to keys like
//! `sops_age__list_0__map_enc`.

use std::collections::BTreeMap;

use driftless_fuel::Fuel;

use crate::SopsError;
use crate::tree::Tree;

/// Parses lines of `KEY=value`, with line breaks written as `\n`, and comments.
pub(crate) fn parse(bytes: &[u8], file: &str, fuel: &Fuel) -> Result<Tree, SopsError> {
    let fault = |line, problem| SopsError::syntax(file, line, problem);
    let text = std::str::from_utf8(bytes).map_err(|_| fault(1, "the file is not UTF-8 text"))?;
    let mut entries = Vec::new();
    for (i, line) in text
        .split('\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        fuel.nodes(1).map_err(|out| SopsError::Fuel {
            file: file.to_owned(),
            out,
        })?;
        entries.push(match (line.strip_prefix('#'), line.split_once('=')) {
            (Some(comment), _) => (String::new(), Tree::Comment(comment.to_owned())),
            (None, Some((key, value))) => (key.to_owned(), Tree::Text(value.replace("\\n", "\n"))),
            (None, None) => return Err(fault(i + 1, "expected KEY=value")),
        });
    }
    Ok(Tree::Map(entries))
}

/// Removes the `sops_` entries from the file and returns them as a tree.
pub(crate) fn take_metadata(branches: &mut [Tree], file: &str) -> Result<Option<Tree>, SopsError> {
    let Some(Tree::Map(entries)) = branches.first_mut() else {
        return Ok(None);
    };
    let mut flat = Vec::new();
    let mut kept = Vec::with_capacity(entries.len());
    for (key, value) in entries.drain(..) {
        match key.strip_prefix("sops_") {
            Some(path) => flat.push((path.to_owned(), value)),
            None => kept.push((key, value)),
        }
    }
    *entries = kept;
    match flat.is_empty() {
        true => Ok(None),
        false => unflatten(flat, file).map(Some),
    }
}

/// Builds a tree from flattened keys.
pub(crate) fn unflatten(
    entries: impl IntoIterator<Item = (String, Tree)>,
    file: &str,
) -> Result<Tree, SopsError> {
    let mut root = Part::Branch(BTreeMap::new());
    for (key, value) in entries {
        place(&mut root, &key, value).ok_or_else(|| SopsError::Metadata {
            file: file.to_owned(),
            problem: format!("the key {key} contradicts another one"),
        })?;
    }
    Ok(root.into_tree())
}

/// A tree that is built from its flattened keys.
enum Part {
    Leaf(Tree),
    Branch(BTreeMap<Step, Part>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Index(usize),
    Key(String),
}

/// The most levels, more than the metadata of sops has.
const DEPTH: usize = 16;

fn place(root: &mut Part, path: &str, value: Tree) -> Option<()> {
    let steps = steps(path)?;
    let (last, parents) = steps.split_last()?;
    let mut at = root;
    for step in parents {
        let Part::Branch(parts) = at else {
            return None;
        };
        at = parts
            .entry(step.clone())
            .or_insert_with(|| Part::Branch(BTreeMap::new()));
    }
    let Part::Branch(parts) = at else {
        return None;
    };
    parts
        .insert(last.clone(), Part::Leaf(value))
        .is_none()
        .then_some(())
}

/// Splits a key into its parts: `a__list_0__map_b` is a, 0, b.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for (i, keys) in path.split("__map_").enumerate() {
        for (j, step) in keys.split("__list_").enumerate() {
            steps.push(match (i, j) {
                (_, 0) => Step::Key(step.to_owned()),
                _ => Step::Index(step.parse().ok()?),
            });
        }
    }
    (steps.len() <= DEPTH).then_some(steps)
}

impl Part {
    fn into_tree(self) -> Tree {
        let parts = match self {
            Part::Leaf(tree) => return tree,
            Part::Branch(parts) => parts,
        };
        if parts.keys().all(|step| matches!(step, Step::Index(_))) {
            return Tree::List(parts.into_values().map(Part::into_tree).collect());
        }
        let name = |step| match step {
            Step::Key(key) => key,
            Step::Index(index) => index.to_string(),
        };
        Tree::Map(
            parts
                .into_iter()
                .map(|(step, part)| (name(step), part.into_tree()))
                .collect(),
        )
    }
}
