//! The files that a kustomization may read, relative to its directory.

use crate::budget::{Budget, EMBEDDED};
use crate::charts::Charts;
use crate::error::{Error, ErrorKind};
use crate::node::{self, Node};
use crate::options::{LoadRestrictor, Options};
use crate::remote::Remote;
use crate::remote_entry;
use crate::schema::Schema;
use crate::selector::Patterns;
use driftless_fuel::Span;
use driftless_manifest::yaml::{self, YamlError};
use driftless_manifest::{Kind, ReadError, Reader, TreePath};
use std::cell::RefCell;

/// The names of a kustomization file, in kustomize's order.
pub const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The state that all kustomizations of a build share: the tree, the options, the schema, the
/// budget.
pub(crate) struct Context<'b, 't> {
    pub reader: &'b Reader<'t>,
    pub options: &'b Options,
    /// The engine that renders charts.
    pub charts: Option<&'b dyn Charts>,
    pub schema: RefCell<Schema>,
    pub budget: Budget,
    pub patterns: Patterns,
}

impl<'b, 't> Context<'b, 't> {
    pub fn new(
        reader: &'b Reader<'t>,
        options: &'b Options,
        charts: Option<&'b dyn Charts>,
    ) -> Self {
        Self {
            reader,
            options,
            charts,
            schema: RefCell::new(Schema::new()),
            budget: Budget::new(options.limits.clone()),
            patterns: Patterns::default(),
        }
    }

    /// Parses YAML or JSON within a string; returns `None` if it is neither.
    ///
    /// # Errors
    /// Parsing costs more than is left of the budget.
    pub fn embedded(&self, text: &str) -> Result<Option<Node>, Error> {
        self.budget.spend_steps(1 + text.len())?;
        self.budget
            .reading(|fuel| node::first_document(text, &EMBEDDED, fuel))
    }
}

/// Reads the files that the kustomization of one directory names.
pub(crate) struct Loader<'c> {
    pub context: &'c Context<'c, 'c>,
    /// The path of the directory, with links followed.
    pub root: TreePath,
    parent: Option<&'c Loader<'c>>,
    depth: usize,
    /// The root of the fetched repository that contains the directory: nothing outside it is read.
    repository: Option<TreePath>,
}

/// A text file with its path.
pub(crate) struct Text {
    pub path: TreePath,
    pub text: String,
}

impl<'c> Loader<'c> {
    /// Creates a loader for the directory of the build.
    ///
    /// # Errors
    /// The directory does not exist.
    pub fn top(context: &'c Context<'c, 'c>, dir: &TreePath) -> Result<Self, Error> {
        Ok(Self {
            context,
            root: real_dir(context, dir)?,
            parent: None,
            depth: 0,
            repository: None,
        })
    }

    /// Creates a loader for a directory that this kustomization names.
    ///
    /// # Errors
    /// A remote entry, a missing directory, a directory that contains one on the way here, or too
    /// many levels.
    pub fn enter<'s>(&'s self, entry: &str, field: &'static str) -> Result<Loader<'s>, Error>
    where
        'c: 's,
    {
        if let Some(remote) = self.remote(Remote::of_entry, entry, field)? {
            return self.enter_repository(&remote);
        }
        if entry
            .split('/')
            .any(|part| part.contains("..") && part != "..")
        {
            return Err(ErrorKind::Kustomization(format!(
                "{field} entry '{entry}' has '..' within a name: check the indentation of the list"
            ))
            .into());
        }
        let root = real_dir(self.context, &self.join(entry)?)?;
        self.below(root, self.repository.clone())
    }

    fn enter_repository<'s>(&'s self, remote: &Remote) -> Result<Loader<'s>, Error>
    where
        'c: 's,
    {
        let top = self.fetched(remote)?;
        let Remote::Repository { path, .. } = remote else {
            return Err(ReadError::NotDir(top).into());
        };
        let root = real_dir(self.context, &top.join(path).map_err(ReadError::from)?)?;
        self.below(root, Some(top))
    }

    fn below<'s>(
        &'s self,
        root: TreePath,
        repository: Option<TreePath>,
    ) -> Result<Loader<'s>, Error>
    where
        'c: 's,
    {
        self.refuse_cycle(&root)?;
        stay_in(repository.as_ref(), &root)?;
        self.context.budget.check_depth(self.depth + 1)?;
        Ok(Loader {
            context: self.context,
            root,
            parent: Some(self),
            depth: self.depth + 1,
            repository,
        })
    }

    /// Returns the remote location that an entry names, if it names one and that is allowed.
    fn remote(
        &self,
        read: fn(&str, &'static str) -> Result<Option<Remote>, Error>,
        entry: &str,
        field: &'static str,
    ) -> Result<Option<Remote>, Error> {
        match read(entry, field) {
            Ok(None) => Ok(None),
            found if self.context.options.remote => found,
            _ => Err(remote_entry::refuse(entry, field)),
        }
    }

    /// Returns the place of a remote file or repository in the tree.
    fn fetched(&self, remote: &Remote) -> Result<TreePath, Error> {
        let place = remote.place();
        match self.context.reader.kind(&place)? {
            Some(_) => Ok(place),
            None => Err(ErrorKind::Needs(remote.clone()).into()),
        }
    }

    fn join(&self, entry: &str) -> Result<TreePath, Error> {
        if entry.is_empty() {
            return Err(ErrorKind::Kustomization(
                "an entry is empty: name a file or directory".to_owned(),
            )
            .into());
        }
        Ok(self.root.join(entry).map_err(ReadError::from)?)
    }

    fn refuse_cycle(&self, root: &TreePath) -> Result<(), Error> {
        let mut way = vec![root.clone()];
        let mut at = Some(self);
        while let Some(loader) = at {
            way.push(loader.root.clone());
            if loader.root.is_within(root) {
                way.reverse();
                return Err(ErrorKind::Cycle(way).into());
            }
            at = loader.parent;
        }
        Ok(())
    }

    /// Returns the kind of the node that an entry leads to.
    ///
    /// # Errors
    /// A path that leaves the tree.
    pub fn kind(&self, entry: &str) -> Result<Option<Kind>, Error> {
        let remote = match self.context.options.remote {
            true => Remote::of_entry(entry, "resources").ok().flatten(),
            false => None,
        };
        let path = match remote {
            Some(remote @ Remote::File { .. }) => remote.place(),
            _ => self.join(entry)?,
        };
        Ok(self.context.reader.kind(&path)?)
    }

    /// Returns the bytes of a file.
    ///
    /// # Errors
    /// A remote entry, a missing file, or a file that the load restrictor excludes.
    pub fn load(&self, entry: &str, field: &'static str) -> Result<(TreePath, Vec<u8>), Error> {
        let path = self.path_of(entry, field)?;
        let bytes = self.context.reader.read(&path)?;
        self.context.budget.spend_bytes(bytes.len())?;
        Ok((path, bytes.to_vec()))
    }

    fn path_of(&self, entry: &str, field: &'static str) -> Result<TreePath, Error> {
        if let Some(remote) = self.remote(Remote::of_file, entry, field)? {
            return self.fetched(&remote);
        }
        let path = self.join(entry)?;
        let Some(real) = self.context.reader.real_path(&path)? else {
            stay_in(self.repository.as_ref(), &path)?;
            return Ok(path);
        };
        stay_in(self.repository.as_ref(), &real)?;
        if self.context.options.load_restrictor == LoadRestrictor::RootOnly
            && !real.parent().is_within(&self.root)
        {
            return Err(ErrorKind::Restricted {
                file: path,
                root: self.root.clone(),
            }
            .into());
        }
        Ok(path)
    }

    /// Returns the content of a file as UTF-8.
    ///
    /// # Errors
    /// Like [`Loader::load`], or bytes that are not UTF-8.
    pub fn text(&self, entry: &str, field: &'static str) -> Result<Text, Error> {
        let (path, bytes) = self.load(entry, field)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let place = Span::new(path.as_str(), 1, 1);
            YamlError::new(yaml::YamlErrorKind::NotUtf8, place)
        })?;
        Ok(Text { path, text })
    }

    /// Returns the name and content of the directory's kustomization file.
    ///
    /// # Errors
    /// The file is missing, or there is more than one.
    pub fn kustomization(&self) -> Result<(&'static str, Text), Error> {
        match kustomization_file(self.context.reader, &self.root)? {
            Some(name) => Ok((name, self.text(name, "kustomization")?)),
            None => Err(Error::from(ErrorKind::NoKustomization).in_file(&self.root)),
        }
    }
}

/// Returns the name of a directory's kustomization file, if it has one.
///
/// # Errors
/// The directory has more than one.
pub(crate) fn kustomization_file(
    reader: &Reader<'_>,
    dir: &TreePath,
) -> Result<Option<&'static str>, Error> {
    let mut found = Vec::new();
    for name in FILE_NAMES {
        let path = dir.join(name).map_err(ReadError::from)?;
        if reader.kind(&path)? == Some(Kind::File) {
            found.push(name);
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        many => Err(Error::from(ErrorKind::ManyKustomizations(many.join(", "))).in_file(dir)),
    }
}

/// Fails if a path leads out of the fetched repository.
fn stay_in(repository: Option<&TreePath>, path: &TreePath) -> Result<(), Error> {
    match repository {
        Some(root) if !path.is_within(root) => Err(ErrorKind::Restricted {
            file: path.clone(),
            root: root.clone(),
        }
        .into()),
        _ => Ok(()),
    }
}

fn real_dir(context: &Context<'_, '_>, dir: &TreePath) -> Result<TreePath, Error> {
    match context.reader.kind(dir)? {
        Some(Kind::Dir) => Ok(context
            .reader
            .real_path(dir)?
            .unwrap_or_else(|| dir.clone())),
        Some(Kind::File) => Err(ReadError::NotDir(dir.clone()).into()),
        None => Err(ReadError::Missing(dir.clone()).into()),
    }
}
