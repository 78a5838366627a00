//! The `patches` and `patchesJson6902` fields: strategic and JSON patches of selected objects.

use super::json_patch::JsonPatch;
use super::strategic::{Flags, INLINE, SmPatch, apply_selected, in_source};
use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::kustomization;
use crate::loader::{Context, Loader};
use crate::node::Node;
use crate::resmap::ResMap;
use crate::resource::{self, Resource};
use crate::selector::Selector;

/// An entry of `patches`: strategic or JSON, from a file or inline.
pub(crate) struct Patch {
    source: String,
    target: Option<Selector>,
    content: Content,
}

enum Content {
    /// Nothing but comments.
    Nothing,
    Strategic(Vec<SmPatch>),
    Json(JsonPatch),
}

fn fault(reason: String) -> Error {
    ErrorKind::Patch(reason).into()
}

/// Returns the content of an entry of `field`, and its name in errors.
fn text_of(
    inline: &str,
    path: &str,
    field: &'static str,
    loader: &Loader<'_>,
) -> Result<(String, String), Error> {
    match (inline, path) {
        ("", "") => Err(fault(format!(
            "an entry of {field} has neither path nor patch"
        ))),
        ("", path) => {
            let file = loader.text(path, field)?;
            Ok((file.text, file.path.to_string()))
        }
        (inline, "") => Ok((inline.to_owned(), INLINE.to_owned())),
        _ => Err(fault(format!(
            "an entry of {field} has both path and patch: keep one"
        ))),
    }
}

/// Separates the result of reading a patch as one kind from a used-up budget, which is always an
/// error.
fn unless_spent<T>(read: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match read {
        Err(error) if error.is_budget() => Err(error),
        other => Ok(other),
    }
}

impl Patch {
    /// Reads the patch.
    ///
    /// # Errors
    /// Both or neither of path and patch, a file that cannot be read, or an invalid patch.
    pub fn new(entry: &kustomization::Patch, loader: &Loader<'_>) -> Result<Self, Error> {
        let (text, source) = text_of(entry.patch.trim(), &entry.path, "patches", loader)?;
        let budget = &loader.context.budget;
        let strategic = resource::parse(&text, &source, budget);
        let json = JsonPatch::parse(&text, &source, budget);
        // A used-up budget does not make it a patch of another kind.
        let json = unless_spent(json)?;
        let strategic = unless_spent(strategic)?;
        let content = match (strategic, json) {
            (Ok(patches), Ok(json)) if !patches.is_empty() && !json.is_empty() => {
                return Err(fault(format!(
                    "{source} is both a strategic merge patch and a JSON patch"
                )));
            }
            (Ok(patches), _) if patches.is_empty() => Content::Nothing,
            (Ok(patches), _) => {
                let options = entry.options.unwrap_or_default();
                let flags = Flags {
                    rename: options.allow_name_change,
                    retype: options.allow_kind_change,
                };
                let patches = patches.into_iter().map(|mut patch| {
                    // kustomize keeps the options in the patch's annotations, which makes the other
                    // annotations strings.
                    if flags.rename || flags.retype {
                        let texts = patch.texts("annotations");
                        patch.set_texts("annotations", texts);
                    }
                    SmPatch { patch, flags }
                });
                Content::Strategic(patches.collect())
            }
            (Err(_), Ok(json)) => Content::Json(json),
            (Err(strategic), Err(json)) => {
                return Err(fault(format!(
                    "{source} is neither a strategic merge patch ({strategic}) nor a JSON patch ({json})"
                )));
            }
        };
        Ok(Self {
            source,
            target: entry.target.clone(),
            content,
        })
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        let result = match (&self.content, &self.target) {
            (Content::Nothing, _) => Ok(()),
            (Content::Strategic(patches), Some(target)) => match patches.as_slice() {
                [patch] => {
                    let selected = select(map, target, context)?;
                    apply_selected(map, &selected, patch, context)
                }
                _ => Err(fault(
                    "several patches share one target: give each its own entry".to_owned(),
                )),
            },
            (Content::Strategic(patches), None) => patches
                .iter()
                .try_for_each(|patch| patch.apply(map, context)),
            (Content::Json(_), None) => Err(fault("a JSON patch needs a target".to_owned())),
            (Content::Json(json), Some(target)) => apply_json(map, json, target, true, context),
        };
        result.map_err(|error| in_source(error, &self.source))
    }
}

/// Returns the indices of the objects that a selector matches.
pub(super) fn select(
    map: &ResMap,
    target: &Selector,
    context: &Context<'_, '_>,
) -> Result<Vec<usize>, Error> {
    let matcher = target.compile(&context.patterns, &context.budget)?;
    let schema = context.schema.borrow();
    let mut found = Vec::new();
    for (at, resource) in map.list().iter().enumerate() {
        matcher.spend(resource, &context.budget)?;
        if matcher.matches(resource, &schema) {
            found.push(at);
        }
    }
    Ok(found)
}

fn apply_json(
    map: &mut ResMap,
    patch: &JsonPatch,
    target: &Selector,
    remember: bool,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    for at in select(map, target, context)? {
        let resource = &mut map.list_mut()[at];
        if remember {
            resource.remember_id(&context.schema.borrow(), &context.budget)?;
        }
        let seen = with_history(resource, &context.budget)?;
        let patched = patch
            .apply(seen, &context.budget)
            .map_err(|error| match error.kind {
                ErrorKind::Patch(reason) => {
                    fault(format!("{} {}: {reason}", resource.kind(), resource.name()))
                }
                _ => error,
            })?;
        resource.node = patched;
        resource.shares.clear();
        drop_history(resource);
    }
    Ok(())
}

/// Returns the object as a JSON patch sees it: with kustomize's internal annotations, so that there
/// are annotations to add to even if the file has none.
fn with_history(resource: &Resource, budget: &Budget) -> Result<Node, Error> {
    budget.spend_steps(resource.node.size())?;
    let mut seen = Resource::new(resource.node.clone());
    let history = resource.history();
    let length: usize = history.iter().map(|(_, text)| text.len()).sum();
    budget.spend_steps(length)?;
    if let (false, Some(meta)) = (history.is_empty(), seen.meta_mut())
        && let Some(annotations) = meta.map_at("annotations")
    {
        for (key, text) in history {
            annotations.push(key, Node::str(text));
        }
    }
    Ok(seen.node)
}

/// Removes the internal annotations again. All other annotations have become strings.
fn drop_history(resource: &mut Resource) {
    let mut annotations = resource.texts("annotations");
    for (key, _) in resource.history() {
        annotations.remove(&key);
    }
    resource.set_texts("annotations", annotations);
}

/// The patch of an entry of `patchesJson6902`.
pub(crate) struct Json6902 {
    target: Selector,
    patch: JsonPatch,
}

impl Json6902 {
    /// Reads the patch.
    ///
    /// # Errors
    /// No target with a name, both or neither of path and patch, an empty patch.
    pub fn new(entry: &kustomization::Patch, loader: &Loader<'_>) -> Result<Self, Error> {
        let target = entry
            .target
            .clone()
            .filter(|target| !target.name.is_empty());
        let target = target.ok_or_else(|| {
            fault("an entry of patchesJson6902 needs a target with a name".to_owned())
        })?;
        let (text, source) = text_of(&entry.patch, &entry.path, "patchesJson6902", loader)?;
        let patch = JsonPatch::parse(&text, &source, &loader.context.budget)?;
        if patch.is_empty() {
            return Err(fault(format!("{source} is an empty patch")));
        }
        Ok(Self { target, patch })
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        apply_json(map, &self.patch, &self.target, false, context)
    }
}
