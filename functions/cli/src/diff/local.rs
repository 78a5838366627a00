//! The local side: the directory with its repository, and the build of its objects.

use crate::build::BuildRoot;
use crate::error::Error;
use driftless_adapters::git::DirectoryGit;
use driftless_core::kustomization::build::{self, BuildStop, Inputs};
use driftless_core::kustomization::inputs;
use driftless_fleet::hide_encrypted;
use driftless_flux::{FluxKind, Kustomization};
use driftless_fuel::Span;
use driftless_kernel::context::step_fuel;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::Hub;
use driftless_manifest::{FileTree, Object, TreePath, yaml};
use driftless_plans::apply::normalize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The address of the repository in the adapter that reads its files; it is not requested.
const PLACEHOLDER_URL: &str = "https://localhost/local/local";

/// A directory and the files that it may use: those of its Git work tree, or its own.
pub struct Place {
    root: PathBuf,
    directory: TreePath,
}

impl Place {
    /// Finds the directory.
    ///
    /// # Errors
    /// It does not exist.
    pub fn of(path: &Path) -> Result<Self, Error> {
        if !path.is_dir() {
            let shown = path.display();
            return Err(
                Error::usage(format!("--path: '{shown}' is not a directory"))
                    .next("give the local directory that is spec.path of the Kustomization"),
            );
        }
        let found = BuildRoot::of(path)?;
        let is_work_tree = found.root.join(".git").exists();
        match is_work_tree {
            true => Ok(Self {
                root: found.root,
                directory: found.dir,
            }),
            false => Ok(Self {
                root: found.root.join(found.dir.as_str()),
                directory: TreePath::root(),
            }),
        }
    }

    /// Returns the place of the directory that is `spec.path` of a Kustomization: outside a Git
    /// work tree, the root is above by as many directories, if they have the same names.
    fn below(&self, spec_path: &str) -> Self {
        let same = Self {
            root: self.root.clone(),
            directory: self.directory.clone(),
        };
        let Ok(wanted) = TreePath::secure_join(spec_path) else {
            return same;
        };
        if !self.directory.is_root() || wanted.is_root() || !self.root.ends_with(wanted.as_str()) {
            return same;
        }
        match self.root.ancestors().nth(wanted.parts().count()) {
            Some(root) => Self {
                root: root.to_owned(),
                directory: wanted,
            },
            None => same,
        }
    }

    /// Reads the files. Encrypted values become placeholders.
    fn tree(&self) -> Result<FileTree, Error> {
        let git = DirectoryGit::new(Duration::ZERO).with(PLACEHOLDER_URL, None, &self.root)?;
        let (_, mut tree) = git
            .all()?
            .pop()
            .ok_or_else(|| Error::new(format!("{}: no files were read", self.root.display())))?;
        hide_encrypted(&mut tree);
        Ok(tree)
    }
}

/// Reads a Kustomization from a file.
///
/// # Errors
/// The file has no Kustomization of this name and namespace.
pub fn kustomization(file: &Path, name: &str, namespace: &str) -> Result<Object, Error> {
    const FLAG: &str = "--kustomization-file";
    let shown = file.display().to_string();
    let content = std::fs::read(file).map_err(|error| Error::unreadable(FLAG, file, error))?;
    let limits = yaml::Limits::default();
    let documents = yaml::documents(&content, &shown, yaml::Dialect::V2, &limits);
    let documents = documents.map_err(|error| Error::caused_by(error).context(FLAG))?;
    let objects = documents
        .into_iter()
        .filter_map(|document| Object::new(document).ok());
    let is_wanted = |object: &Object| {
        let place = object.namespace();
        FluxKind::of(&object.gvk()) == Some(FluxKind::Kustomization)
            && object.name() == name
            && (place.is_empty() || place == namespace)
    };
    let mut found = objects.into_iter().find(is_wanted).ok_or_else(|| {
        Error::new(format!(
            "{FLAG}: {shown}: no Kustomization {namespace}/{name}"
        ))
        .next("give the name and -n NAMESPACE of a Kustomization in the file")
    })?;
    found.set_namespace(namespace);
    Ok(found)
}

/// Builds the objects as a reconciliation does.
///
/// # Errors
/// The build fails, or needs files of other hosts.
pub async fn build(
    hub: &Hub,
    place: &Place,
    owner: &Kustomization,
    is_strict: bool,
) -> Result<Vec<Object>, Error> {
    let place = place.below(&owner.spec.path);
    let tree = place.tree()?;
    let mut local = owner.clone();
    local.spec.path = place.directory.as_str().to_owned();
    let inputs = Inputs {
        variables: inputs::variables(hub, owner).await?,
        decryptor: None,
        lenient: !is_strict,
        fuel: step_fuel(),
    };
    let built = build::build(&tree, &local, &inputs, false);
    let built = built.map_err(|stop| match stop {
        BuildStop::Failed(failure) => {
            let span = span_of(&failure);
            let error = Error::from(failure).at_line(&place.root, span.as_ref());
            error.next(format!("correct the file in {}", place.root.display()))
        }
        BuildStop::NeedsFiles(_) | BuildStop::Needs(_) | BuildStop::NeedsKeys(_) => {
            Error::new(format!("{}: the build needs a remote base", owner.id))
                .next("a diff reads local files only: copy the base into the repository")
        }
    })?;
    let mut objects = built.objects;
    objects.iter_mut().for_each(normalize::object);
    Ok(objects)
}

/// Returns the place in a file that caused a failure.
fn span_of(failure: &Failure) -> Option<Span> {
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<driftless_kustomize::Error>() {
            return error.span();
        }
        cause = error.source();
    }
    None
}
