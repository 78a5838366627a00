//! The budget of a build: charged where memory is allocated and where work is done, so that no
//! input costs more than allowed.

use crate::error::{Error, ErrorKind};
use crate::node::Node;
use crate::options::Limits;
use driftless_fuel::{Fuel, FuelKind, FuelLimits, OutOfFuel, text_nodes};
use driftless_manifest::{JsonPatch, JsonPatchError, check_depth, yaml};
use serde_json::Value;
use std::cell::Cell;

/// The maximal nodes of one kustomization file: in memory it is several times as large as an object
/// of that size.
const KUSTOMIZATION_NODES: usize = 250_000;

/// The limits of a kustomization or of a file of configuration.
pub(crate) const KUSTOMIZATION: yaml::Limits = yaml::Limits {
    bytes: 16 << 20,
    depth: 1_000,
    nodes: KUSTOMIZATION_NODES,
    documents: 50_000,
};

/// The limits of YAML or JSON within a value: no cluster accepts an object with more of it.
pub(crate) const EMBEDDED: yaml::Limits = yaml::Limits {
    bytes: 4 << 20,
    depth: 1_000,
    nodes: KUSTOMIZATION_NODES,
    documents: 10_000,
};

/// The scope of the limits of a build.
const ONE_BUILD: &str = "one build";
/// The scope of the limits of a tank, from which other work takes its fuel as well.
const ONE_STEP: &str = "all work of one step";

/// The maximal nesting of maps and lists: as much as a YAML document may have.
const MAX_LEVELS: usize = 1_000;

/// The part of its [`Limits`] that a build has spent.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    fuel: Fuel,
    kustomizations: Cell<usize>,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self {
            fuel: limits.fuel.part(FuelLimits {
                steps: limits.steps,
                bytes: limits.bytes,
                nodes: limits.nodes,
                depth: MAX_LEVELS,
            }),
            limits,
            kustomizations: Cell::new(0),
        }
    }

    /// Reads YAML: everything read is charged, and the memory that it took is given back, because
    /// its result is charged separately.
    pub fn reading<T>(&self, read: impl FnOnce(&Fuel) -> T) -> T {
        let before = self.fuel.nodes_spent();
        let done = read(&self.fuel);
        let nodes = self.fuel.nodes_spent().saturating_sub(before);
        self.fuel.give_back(nodes, 0);
        done
    }

    /// Returns the limits of an OpenAPI document: that of a whole cluster is larger than any other
    /// document.
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

    /// Counts values that are read or created.
    pub fn spend_nodes(&self, nodes: usize) -> Result<(), Error> {
        Ok(self.fuel.nodes(nodes)?)
    }

    /// Counts a tree that was read, and the work of reading it.
    pub fn spend_tree(&self, tree: &Node) -> Result<(), Error> {
        let size = tree.size();
        self.spend_steps(size)?;
        self.spend_nodes(size)
    }

    /// Counts a string that is about to be created: a long one counts as several values.
    pub fn spend_text(&self, length: usize) -> Result<(), Error> {
        self.spend_nodes(text_nodes(length))
    }

    /// Counts a field that is about to be created.
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

    /// Fails for a value that would count as more values than are left, before it is created.
    pub fn check_room(&self, nodes: usize) -> Result<(), Error> {
        Ok(self.fuel.room_for_nodes(nodes)?)
    }

    /// Fails for a value that is nested too deeply at its destination.
    pub fn check_levels(&self, above: usize, value: &Value) -> Result<(), Error> {
        Ok(check_depth(&self.fuel, above, value)?)
    }

    /// Applies a JSON patch.
    pub fn patch(&self, patch: &JsonPatch, document: &mut Value) -> Result<(), JsonPatchError> {
        patch.apply(document, &self.fuel)
    }

    /// Fails for a tree that is nested too deeply at its destination.
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

    /// Fails for a path that would make an object too deep.
    pub fn check_path(&self, parts: usize) -> Result<(), Error> {
        check(parts, MAX_LEVELS, "levels in a field path")
    }

    /// Like [`Budget::check_path`], for a path with slashes between its parts.
    pub fn check_path_length(&self, path: &str) -> Result<(), Error> {
        match path.len() > MAX_LEVELS {
            true => self.check_path(path.matches('/').count()),
            false => Ok(()),
        }
    }

    /// Fails for more objects than allowed at one time.
    pub fn check_objects(&self, objects: usize) -> Result<(), Error> {
        check(objects, self.limits.resources, "objects")
    }

    /// Fails for more levels of kustomizations than allowed.
    pub fn check_depth(&self, depth: usize) -> Result<(), Error> {
        check(depth, self.limits.depth, "levels of kustomizations")
    }

    /// Fails for an output that is larger than allowed.
    pub fn check_output(&self, bytes: usize) -> Result<(), Error> {
        check(bytes, self.limits.output, "bytes of output")
    }
}

fn check(count: usize, limit: usize, unit: &'static str) -> Result<(), Error> {
    if count > limit {
        let scope = ONE_BUILD;
        return Err(ErrorKind::Budget { unit, limit, scope }.into());
    }
    Ok(())
}

impl From<OutOfFuel> for Error {
    fn from(out: OutOfFuel) -> Self {
        let unit = match out.which {
            FuelKind::Steps => "steps",
            FuelKind::Bytes => "bytes",
            FuelKind::Nodes => "values",
            FuelKind::Depth => "levels of nesting in an object",
        };
        let limit = out.limit;
        let scope = match out.of_tank {
            true => ONE_STEP,
            false => ONE_BUILD,
        };
        ErrorKind::Budget { unit, limit, scope }.into()
    }
}
