//! The `patchesStrategicMerge` field, and what a strategic merge patch may change.

use crate::error::{Error, ErrorKind};
use crate::loader::{Context, Loader};
use crate::merge::merge;
use crate::node::Node;
use crate::resid::Id;
use crate::resmap::ResMap;
use crate::resource::{self, Resource};
use crate::schema::Schema;

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

/// The name of a patch without a file, in errors.
pub(super) const INLINE: &str = "inline patch";

fn fault(reason: String) -> Error {
    ErrorKind::Patch(reason).into()
}

/// Adds the file of a patch to its error.
pub(super) fn in_source(error: Error, source: &str) -> Error {
    match error.kind {
        ErrorKind::Patch(reason) => fault(format!("{source}: {reason}")),
        _ => error,
    }
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
            [] => Err(fault(missing(&id, self.patch.api_version(), map, schema))),
            many => Err(fault(format!(
                "{} objects match {id}: give the namespace, or use a target",
                many.len()
            ))),
        }
    }
}

/// Returns the message for a patch without an object. A patch of another API version than the
/// object is the most frequent mistake after an upgrade of Flux's API: the message names both
/// versions.
fn missing(id: &Id<'_>, api_version: &str, map: &ResMap, schema: &Schema) -> String {
    // The schema may know the scope of one version of a kind only.
    let place = |id: &Id<'_>| {
        let cluster = false;
        Id { cluster, ..*id }.effective_namespace().to_owned()
    };
    let wanted = place(id);
    let is_same = |other: Id<'_>| {
        other.gvk.kind == id.gvk.kind && other.name == id.name && place(&other) == wanted
    };
    let mut objects = map.list().iter().filter(|one| !one.node.is_empty());
    let found = objects.find(|one| is_same(one.id(schema)) || one.previous_ids().any(is_same));
    match found.map(Resource::api_version) {
        Some(newer) => format!(
            "no object {id} exists to patch, but one of apiVersion {newer}: change apiVersion {api_version} of the patch to {newer}"
        ),
        None => format!("no object {id} exists to patch"),
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
        resource.forget_history();
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

/// The patches of `patchesStrategicMerge`, each with the name of its file in errors.
pub(crate) struct Strategic(Vec<(String, SmPatch)>);

impl Strategic {
    /// Reads patches: each entry is a patch, or otherwise the path of one. `inline` holds further
    /// ones.
    ///
    /// # Errors
    /// A file that cannot be read, or no patch at all.
    pub fn new(entries: &[String], inline: &str, loader: &Loader<'_>) -> Result<Self, Error> {
        let budget = &loader.context.budget;
        let mut patches = Vec::new();
        let mut add = |source: &str, found: Vec<Resource>| {
            patches.extend(found.into_iter().map(|patch| {
                let flags = Flags::default();
                (source.to_owned(), SmPatch { patch, flags })
            }));
        };
        for entry in entries {
            match resource::parse(entry, INLINE, budget) {
                Ok(found) => add(INLINE, found),
                Err(error) if error.is_budget() => return Err(error),
                Err(_) => {
                    let file = loader.text(entry, "patchesStrategicMerge")?;
                    let path = file.path.as_str();
                    add(path, resource::parse(&file.text, path, budget)?);
                }
            }
        }
        if !inline.is_empty() {
            add(INLINE, resource::parse(inline, INLINE, budget)?);
        }
        if patches.is_empty() {
            return Err(fault("patchesStrategicMerge has no patch in it".to_owned()));
        }
        Ok(Self(patches))
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        for (source, patch) in &self.0 {
            let at = patch.target(map, context);
            let at = at.map_err(|error| in_source(error, source))?;
            apply_selected(map, &[at], patch, context)?;
        }
        Ok(())
    }
}
