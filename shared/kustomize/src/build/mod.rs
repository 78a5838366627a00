//! The build of a directory: reading files, transforming objects in kustomize's order, and the
//! output.

mod accumulate;
mod finish;
mod origin;
mod plugins;

pub(crate) use accumulate::{Accumulator, Step, Target};
pub(crate) use finish::finish;
pub(crate) use origin::Origin;

use crate::charts::Charts;
use crate::error::{Error, InFile as _};
use crate::kustomization::{self, Kustomization, Source};
use crate::loader::{Context, Loader};
use crate::options::Options;
use crate::stack::on_large_stack;
use driftless_manifest::{Reader, TreePath};
use serde_json::Value;

/// Renders a directory; `replaced` is used instead of its kustomization file.
pub(crate) fn build(
    reader: &Reader<'_>,
    dir: &TreePath,
    replaced: Option<&Value>,
    options: &Options,
    charts: Option<&dyn Charts>,
) -> Result<Vec<Value>, Error> {
    on_large_stack(|| {
        let context = Context::new(reader, options, charts);
        let loader = Loader::top(&context, dir)?;
        let (file_name, kustomization) = match replaced {
            Some(value) => {
                let parsed = kustomization::parse(&Source::Value(value), &context.budget);
                ("kustomization.yaml", parsed.in_file(&loader.root)?)
            }
            None => load(&loader)?,
        };
        let tracked = !kustomization.build_metadata.is_empty();
        let top = Target {
            loader: &loader,
            kustomization: &kustomization,
            file_name,
            origin: tracked.then(Origin::default),
        };
        choose_schema(&top, true)?;
        let done = top.accumulate(Accumulator::default())?;
        finish(done, &top)
    })
}

/// Loads the kustomization of a loader's directory.
pub(crate) fn load(loader: &Loader<'_>) -> Result<(&'static str, Kustomization), Error> {
    loader.context.budget.spend_kustomization()?;
    let (name, file) = loader.kustomization()?;
    let source = Source::File(&file.text, file.path.as_str());
    let parsed = kustomization::parse(&source, &loader.context.budget).in_file(&file.path)?;
    Ok((name, parsed))
}

/// Applies the kustomization's `openapi` field. The first one of a build counts, and the top one in
/// any case.
fn choose_schema(target: &Target<'_>, top: bool) -> Result<(), Error> {
    let Some(openapi) = &target.kustomization.openapi else {
        return Ok(());
    };
    let loader = target.loader;
    let document = openapi
        .get("path")
        .map(|path| loader.text(path, "openapi"))
        .transpose()
        .in_file(&target.file())?;
    let document = document
        .as_ref()
        .map(|file| (file.text.as_str(), file.path.as_str()));
    let version = openapi.get("version").map(String::as_str);
    let context = loader.context;
    let keep = context.options.keep_builtin_schema;
    context
        .schema
        .borrow_mut()
        .choose(version, document, keep, top, &context.budget)
        .in_file(&target.file())
}
