//! The `patchesStrategicMerge` field, and what a strategic merge patch may change.

use crate::error::{Error, ErrorKind};
use crate::loader::{Context, Loader};
use crate::merge::merge;
use crate::node::Node;
use crate::resmap::ResMap;
use crate::resource::{self, Resource};

/// A strategic merge patch and its options.
#[derive(Clone, Debug)]
pub(crate) struct SmPatch {
    pub patch: Resource,
    pub flags: Flags,
}

/// The parts of an object's identity that a patch may change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub rename: bool,
    pub retype: bool,
}

fn fault(reason: String) -> Error {
    ErrorKind::Patch(reason).into()
}

impl SmPatch {
    /// Patches the one object that has, or had, the patch's id.
    ///
    /// # Errors
    /// No such object, or more than one.
    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        let at = self.target(map, context)?;
        context.budget.spend_steps(self.patch.node.size())?;
        patch_resource(
            &mut map.list_mut()[at],
            self.patch.node.clone(),
            self.flags,
            context,
        )
    }

    fn target(&self, map: &ResMap, context: &Context<'_, '_>) -> Result<usize, Error> {
        context.budget.spend_steps(map.list().len())?;
        let schema = &context.schema.borrow();
        let id = self.patch.original_id(schema);
        match map.with_any_id(&id, schema).as_slice() {
            [at] => Ok(*at),
            [] => Err(fault(format!("no object {id} exists to patch"))),
            many => Err(fault(format!(
                "{} objects match {id}: give the namespace, or use a target",
                many.len()
            ))),
        }
    }
}

/// Patches objects by index; each gets a separate copy, which takes group and version from the
/// object.
pub(super) fn apply_selected(
    map: &mut ResMap,
    selected: &[usize],
    patch: &SmPatch,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    for at in selected {
        let resource = &mut map.list_mut()[*at];
        context.budget.spend_steps(patch.patch.node.size())?;
        let mut copy = patch.patch.clone();
        for field in ["labels", "annotations"] {
            let texts = copy.texts(field);
            let length = texts.values().map(String::len).sum();
            context.budget.spend_steps(length)?;
            copy.set_texts(field, texts);
        }
        let name = copy.name().to_owned();
        copy.set_name(&name);
        let namespace = copy.namespace().to_owned();
        copy.set_namespace(&namespace);
        copy.set_api_version(resource.api_version());
        patch_resource(resource, copy.node, patch.flags, context)?;
    }
    map.drop_empty();
    context.budget.spend_steps(map.list().len())?;
    map.check_ids(&context.schema.borrow())
}

fn patch_resource(
    resource: &mut Resource,
    patch: Node,
    flags: Flags,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    let schema = context.schema.borrow();
    let (name, namespace, kind) = (
        resource.name().to_owned(),
        resource.namespace().to_owned(),
        resource.kind().to_owned(),
    );
    if flags.rename || flags.retype {
        resource.remember_id(&schema, &context.budget)?;
    }
    let wiped = wipes_annotations(&patch);
    let before = resource.node.size();
    context.budget.spend_steps(before)?;
    let object = std::mem::replace(&mut resource.node, Node::null());
    let merged =
        merge(object, patch, &schema, &context.budget).map_err(|error| match error.kind {
            ErrorKind::Patch(reason) => fault(format!("{kind} {name}: {reason}")),
            _ => error,
        })?;
    let Some(merged) = merged else { return Ok(()) };
    context
        .budget
        .spend_nodes(merged.size().saturating_sub(before))?;
    resource.node = merged;
    if resource.node.is_empty() {
        return Ok(());
    }
    if wiped {
        forget(resource);
    }
    if !flags.retype {
        resource.set_kind(&kind);
    }
    if !flags.rename {
        resource.set_name(&name);
    }
    resource.set_namespace(&namespace);
    resource.shares.sync(&mut resource.node, &context.budget)
}

/// Checks whether a patch removes or replaces all annotations. kustomize keeps an object's history
/// there, and then loses it.
fn wipes_annotations(patch: &Node) -> bool {
    let replaces = |node: &Node| {
        node.get("$patch")
            .is_some_and(|text| text.text() == "replace")
    };
    let Some(metadata) = patch.get("metadata") else {
        return replaces(patch);
    };
    let annotations = metadata.get("annotations");
    let wiped = |node: &Node| {
        node.is_null()
            || node
                .get("$patch")
                .is_some_and(|text| text.text() != "merge")
    };
    replaces(patch) || replaces(metadata) || annotations.is_some_and(wiped)
}

fn forget(resource: &mut Resource) {
    let forgotten = Resource::new(Node::null());
    resource.previous = forgotten.previous;
    resource.prefixes = forgotten.prefixes;
    resource.suffixes = forgotten.suffixes;
    resource.behavior = forgotten.behavior;
    resource.generated = false;
    resource.needs_hash = false;
}

/// The patches of `patchesStrategicMerge`.
pub(crate) struct Strategic(Vec<SmPatch>);

impl Strategic {
    /// Reads patches: each entry is a patch, or otherwise the path of one. `inline` holds further
    /// ones.
    ///
    /// # Errors
    /// A file that cannot be read, or no patch at all.
    pub fn new(entries: &[String], inline: &str, loader: &Loader<'_>) -> Result<Self, Error> {
        let budget = &loader.context.budget;
        let mut patches = Vec::new();
        for entry in entries {
            match resource::parse(entry, "inline patch", budget) {
                Ok(found) => patches.extend(found),
                Err(error) if error.is_budget() => return Err(error),
                Err(_) => {
                    let file = loader.text(entry, "patchesStrategicMerge")?;
                    patches.extend(resource::parse(&file.text, file.path.as_str(), budget)?);
                }
            }
        }
        if !inline.is_empty() {
            patches.extend(resource::parse(inline, "inline patch", budget)?);
        }
        if patches.is_empty() {
            return Err(fault("patchesStrategicMerge has no patch in it".to_owned()));
        }
        Ok(Self(
            patches
                .into_iter()
                .map(|patch| SmPatch {
                    patch,
                    flags: Flags::default(),
                })
                .collect(),
        ))
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        for patch in &self.0 {
            let at = patch.target(map, context)?;
            apply_selected(map, &[at], patch, context)?;
        }
        Ok(())
    }
}
