//! What a build has spent: charged where memory is made and where work is done, so that no input costs more than it may.

use crate::error::{Error, ErrorKind};
use crate::node::Node;
use crate::options::Limits;
use driftless_manifest::fuel::text_nodes;
use driftless_manifest::{Fuel, FuelKind, FuelLimits, JsonPatch, JsonPatchError, OutOfFuel, yaml};
use serde_json::Value;
use std::cell::Cell;

/// The nodes of one kustomization file: what it becomes in memory is several times as large as an object of that size.
const KUSTOMIZATION_NODES: usize = 250_000;

/// The text of a kustomization, or of a file of configuration.
pub(crate) const KUSTOMIZATION: yaml::Limits = yaml::Limits {
    bytes: 16 << 20,
    depth: 1_000,
    nodes: KUSTOMIZATION_NODES,
    documents: 50_000,
};

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
    fuel: Fuel,
    kustomizations: Cell<usize>,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            fuel: Fuel::new(FuelLimits {
                steps: limits.steps,
                bytes: limits.bytes,
                nodes: limits.nodes,
                depth: MAX_LEVELS,
            }),
            kustomizations: Cell::new(0),
        }
    }

    /// Reads YAML: all that is read is charged, and what it takes in memory is given back, because what becomes of it is
    /// charged by itself.
    pub fn reading<T>(&self, read: impl FnOnce(&Fuel) -> T) -> T {
        let before = self.fuel.nodes_spent();
        let done = read(&self.fuel);
        let nodes = self.fuel.nodes_spent().saturating_sub(before);
        self.fuel.give_back(nodes, 0);
        done
    }

    /// The limits of an OpenAPI document: that of a whole cluster is larger than any other text.
    pub fn schema_limits(&self) -> yaml::Limits {
        yaml::Limits {
            nodes: self.limits.nodes,
            ..yaml::Limits::default()
        }
    }

    /// Counts bytes that were read.
    pub fn spend_bytes(&self, bytes: usize) -> Result<(), Error> {
        Ok(self.fuel.bytes(bytes)?)
    }

    /// Counts values that are read or made.
    pub fn spend_nodes(&self, nodes: usize) -> Result<(), Error> {
        Ok(self.fuel.nodes(nodes)?)
    }

    /// Counts a tree that was read, and the work of it.
    pub fn spend_tree(&self, tree: &Node) -> Result<(), Error> {
        let size = tree.size();
        self.spend_steps(size)?;
        self.spend_nodes(size)
    }

    /// Counts a text that is about to be made: a long one is several values.
    pub fn spend_text(&self, length: usize) -> Result<(), Error> {
        self.spend_nodes(text_nodes(length))
    }

    /// Counts a field that is about to be made.
    pub fn spend_field(&self, key: &str, text: &str) -> Result<(), Error> {
        self.spend_steps(1)?;
        self.spend_text(key.len().saturating_add(text.len()))
    }

    /// Counts steps of work.
    pub fn spend_steps(&self, steps: usize) -> Result<(), Error> {
        Ok(self.fuel.steps(steps)?)
    }

    /// Counts a kustomization.
    pub fn spend_kustomization(&self) -> Result<(), Error> {
        self.kustomizations
            .set(self.kustomizations.get().saturating_add(1));
        let limit = self.limits.kustomizations;
        check(self.kustomizations.get(), limit, "kustomizations")
    }

    /// Refuses what would count as more values than are left, before it is made.
    pub fn check_room(&self, nodes: usize) -> Result<(), Error> {
        Ok(self.fuel.room_for_nodes(nodes)?)
    }

    /// Refuses a value that is nested too deeply where it goes.
    pub fn check_levels(&self, above: usize, value: &Value) -> Result<(), Error> {
        Ok(self.fuel.depth_of(above, value)?)
    }

    /// Applies a JSON patch.
    pub fn patch(&self, patch: &JsonPatch, document: &mut Value) -> Result<(), JsonPatchError> {
        patch.apply(document, &self.fuel)
    }

    /// Refuses a tree that is nested too deeply where it goes.
    pub fn check_node_levels(&self, above: usize, node: &Node) -> Result<(), Error> {
        self.fuel.depth(above)?;
        match node {
            Node::Scalar(_) => Ok(()),
            Node::Seq(items) => items
                .iter()
                .try_for_each(|item| self.check_node_levels(above + 1, item)),
            Node::Map(map) => map
                .fields()
                .iter()
                .try_for_each(|(_, value)| self.check_node_levels(above + 1, value)),
        }
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

fn check(count: usize, limit: usize, what: &'static str) -> Result<(), Error> {
    if count > limit {
        return Err(ErrorKind::Budget { what, limit }.into());
    }
    Ok(())
}

impl From<OutOfFuel> for Error {
    fn from(out: OutOfFuel) -> Self {
        let what = match out.which {
            FuelKind::Steps => "steps",
            FuelKind::Bytes => "bytes",
            FuelKind::Nodes => "values",
            FuelKind::Depth => "levels of nesting in an object",
        };
        let limit = out.limit;
        ErrorKind::Budget { what, limit }.into()
    }
}
