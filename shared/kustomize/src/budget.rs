//! What a build has spent: charged where memory is made and where work is done, so that no input costs more than it may.

use crate::error::{Error, ErrorKind};
use crate::node::{Node, text_size};
use crate::options::Limits;
use driftless_manifest::yaml;
use serde_json::Value;
use std::cell::Cell;

/// The nodes of one kustomization file: what it becomes in memory is several times as large as an object of that size.
const KUSTOMIZATION_NODES: usize = 250_000;

/// YAML or JSON inside of a value: no cluster takes an object with more of it.
pub(crate) const EMBEDDED: yaml::Limits = yaml::Limits {
    bytes: 4 << 20,
    depth: 1_000,
    nodes: KUSTOMIZATION_NODES,
    documents: 10_000,
};

/// Maps and lists in each other: as many as a YAML text may have.
const MAX_LEVELS: usize = 1_000;

/// How much of its [`Limits`] a build has spent.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    bytes: Cell<usize>,
    nodes: Cell<usize>,
    kustomizations: Cell<usize>,
    steps: Cell<usize>,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            bytes: Cell::new(0),
            nodes: Cell::new(0),
            kustomizations: Cell::new(0),
            steps: Cell::new(0),
        }
    }

    fn nodes_left(&self) -> usize {
        self.limits.nodes.saturating_sub(self.nodes.get())
    }

    /// What one YAML text of objects or patches may still cost.
    pub fn yaml_limits(&self) -> yaml::Limits {
        let limits = yaml::Limits::default();
        yaml::Limits {
            nodes: limits.nodes.min(self.nodes_left()),
            ..limits
        }
    }

    /// What an OpenAPI document may still cost: that of a whole cluster is larger than any other text.
    pub fn schema_limits(&self) -> yaml::Limits {
        yaml::Limits {
            nodes: self.nodes_left(),
            ..yaml::Limits::default()
        }
    }

    /// What the text of a kustomization, or of a file of configuration, may still cost.
    pub fn kustomization_limits(&self) -> yaml::Limits {
        let limits = self.yaml_limits();
        yaml::Limits {
            nodes: limits.nodes.min(KUSTOMIZATION_NODES),
            ..limits
        }
    }

    /// Counts bytes that were read.
    pub fn spend_bytes(&self, bytes: usize) -> Result<(), Error> {
        spend(&self.bytes, bytes, self.limits.bytes, "bytes")
    }

    /// Counts values that are read or made.
    pub fn spend_nodes(&self, nodes: usize) -> Result<(), Error> {
        spend(&self.nodes, nodes, self.limits.nodes, "values")
    }

    /// Counts a tree that was read, and the work of it.
    pub fn spend_tree(&self, tree: &Node) -> Result<(), Error> {
        let size = tree.size();
        self.spend_steps(size)?;
        self.spend_nodes(size)
    }

    /// Counts a text that is about to be made: a long one is several values.
    pub fn spend_text(&self, length: usize) -> Result<(), Error> {
        self.spend_nodes(text_size(length))
    }

    /// Counts a field that is about to be made.
    pub fn spend_field(&self, key: &str, text: &str) -> Result<(), Error> {
        self.spend_steps(1)?;
        self.spend_text(key.len().saturating_add(text.len()))
    }

    /// Counts steps of work.
    pub fn spend_steps(&self, steps: usize) -> Result<(), Error> {
        spend(&self.steps, steps, self.limits.steps, "steps")
    }

    /// Counts a kustomization.
    pub fn spend_kustomization(&self) -> Result<(), Error> {
        let limit = self.limits.kustomizations;
        spend(&self.kustomizations, 1, limit, "kustomizations")
    }

    /// Refuses what would count as more values than are left, before it is made.
    pub fn check_room(&self, nodes: usize) -> Result<(), Error> {
        let all = self.nodes.get().saturating_add(nodes);
        check(all, self.limits.nodes, "values")
    }

    /// Refuses a value that is nested too deeply where it goes.
    pub fn check_levels(&self, above: usize, value: &Value) -> Result<(), Error> {
        let left = MAX_LEVELS.checked_sub(above);
        if left.is_some_and(|left| has_at_most(left, value)) {
            return Ok(());
        }
        let (what, limit) = ("levels of nesting in an object", MAX_LEVELS);
        Err(ErrorKind::Budget { what, limit }.into())
    }

    /// Refuses a path that would make an object too deep.
    pub fn check_path(&self, parts: usize) -> Result<(), Error> {
        check(parts, MAX_LEVELS, "levels in a field path")
    }

    /// As [`Budget::check_path`], of a path with slashes between its parts.
    pub fn check_path_length(&self, path: &str) -> Result<(), Error> {
        match path.len() > MAX_LEVELS {
            true => self.check_path(path.matches('/').count()),
            false => Ok(()),
        }
    }

    /// Refuses more objects than there may be at one time.
    pub fn check_objects(&self, objects: usize) -> Result<(), Error> {
        check(objects, self.limits.resources, "objects")
    }

    /// Refuses more levels of kustomizations than there may be.
    pub fn check_depth(&self, depth: usize) -> Result<(), Error> {
        check(depth, self.limits.depth, "levels of kustomizations")
    }

    /// Refuses an output that is larger than it may be.
    pub fn check_output(&self, bytes: usize) -> Result<(), Error> {
        check(bytes, self.limits.output, "bytes of output")
    }
}

/// Whether a value has no more levels than these.
fn has_at_most(levels: usize, value: &Value) -> bool {
    let fits = |value| levels > 0 && has_at_most(levels - 1, value);
    match value {
        Value::Array(items) => items.iter().all(fits),
        Value::Object(map) => map.values().all(fits),
        _ => true,
    }
}

fn spend(
    counter: &Cell<usize>,
    more: usize,
    limit: usize,
    what: &'static str,
) -> Result<(), Error> {
    counter.set(counter.get().saturating_add(more));
    check(counter.get(), limit, what)
}

fn check(count: usize, limit: usize, what: &'static str) -> Result<(), Error> {
    if count > limit {
        return Err(ErrorKind::Budget { what, limit }.into());
    }
    Ok(())
}
