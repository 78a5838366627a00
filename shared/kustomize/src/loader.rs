use crate::charts::Charts;
use crate::error::{Error, ErrorKind};
use crate::options::{LoadRestrictor, Options};
use crate::schema::Schema;
use driftless_manifest::yaml::{self, YamlError};
use driftless_manifest::{Kind, Reader, TreePath};
use std::cell::{Cell, RefCell};

/// The names of a kustomization file, in kustomize's order.
pub(crate) const FILE_NAMES: [&str; 3] =
    ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What a build shares: the tree, the options, the schema, what has been spent.
pub(crate) struct Context<'b, 't> {
    pub reader: &'b Reader<'t>,
    pub options: &'b Options,
    /// What renders charts.
    pub charts: Option<&'b dyn Charts>,
    pub schema: RefCell<Schema>,
    bytes: Cell<usize>,
    nodes: Cell<usize>,
    kustomizations: Cell<usize>,
    /// Steps of patches and replacements that are left.
    steps: Cell<usize>,
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
            bytes: Cell::new(0),
            nodes: Cell::new(0),
            kustomizations: Cell::new(0),
            steps: Cell::new(options.limits.steps),
        }
    }

    /// What one YAML text may still cost.
    pub fn yaml_limits(&self) -> yaml::Limits {
        yaml::Limits {
            nodes: self.options.limits.nodes.saturating_sub(self.nodes.get()),
            ..yaml::Limits::default()
        }
    }

    /// Counts bytes that were read.
    pub fn spend_bytes(&self, bytes: usize) -> Result<(), Error> {
        spend(&self.bytes, bytes, self.options.limits.bytes, "bytes")
    }

    /// Counts values that were read.
    pub fn spend_nodes(&self, nodes: usize) -> Result<(), Error> {
        spend(&self.nodes, nodes, self.options.limits.nodes, "values")
    }

    /// Counts the text of a value that was written: long texts count as several values.
    pub fn spend_text(&self, text: &str) -> Result<(), Error> {
        self.spend_nodes(text.len() / crate::node::TEXT_PER_VALUE)
    }

    /// Counts steps of work.
    pub fn spend_steps(&self, steps: usize) -> Result<(), Error> {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.ok_or(ErrorKind::Budget {
            what: "steps",
            limit: self.options.limits.steps,
        })?);
        Ok(())
    }

    /// Counts a kustomization.
    pub fn spend_kustomization(&self) -> Result<(), Error> {
        spend(
            &self.kustomizations,
            1,
            self.options.limits.kustomizations,
            "kustomizations",
        )
    }
}

fn spend(
    counter: &Cell<usize>,
    more: usize,
    limit: usize,
    what: &'static str,
) -> Result<(), Error> {
    counter.set(counter.get().saturating_add(more));
    if counter.get() > limit {
        return Err(ErrorKind::Budget { what, limit }.into());
    }
    Ok(())
}

/// Reads the files that the kustomization of one folder names.
pub(crate) struct Loader<'c> {
    pub context: &'c Context<'c, 'c>,
    /// The folder, with links followed.
    pub root: TreePath,
    parent: Option<&'c Loader<'c>>,
    depth: usize,
}

/// A text file.
pub(crate) struct Text {
    pub path: TreePath,
    pub text: String,
}

impl<'c> Loader<'c> {
    /// A loader for the folder where the build starts.
    ///
    /// # Errors
    /// No folder.
    pub fn top(context: &'c Context<'c, 'c>, dir: &TreePath) -> Result<Self, Error> {
        Ok(Self {
            context,
            root: real_dir(context, dir)?,
            parent: None,
            depth: 0,
        })
    }

    /// A loader for a folder that this kustomization names.
    ///
    /// # Errors
    /// A remote entry, no folder, a folder that contains one on the way here, or too many levels.
    pub fn enter<'s>(&'s self, entry: &str, field: &'static str) -> Result<Loader<'s>, Error>
    where
        'c: 's,
    {
        refuse_remote(entry, field)?;
        if entry
            .split('/')
            .any(|part| part.contains("..") && part != "..")
        {
            return Err(ErrorKind::Kustomization(format!(
                "{field} entry '{entry}' has '..' inside of a name: check the indentation of the list"
            ))
            .into());
        }
        let root = real_dir(self.context, &self.join(entry)?)?;
        self.refuse_cycle(&root)?;
        let limit = self.context.options.limits.depth;
        if self.depth + 1 > limit {
            return Err(ErrorKind::Budget {
                what: "levels of kustomizations",
                limit,
            }
            .into());
        }
        Ok(Loader {
            context: self.context,
            root,
            parent: Some(self),
            depth: self.depth + 1,
        })
    }

    fn join(&self, entry: &str) -> Result<TreePath, Error> {
        if entry.is_empty() {
            return Err(ErrorKind::Kustomization(
                "an entry is empty: name a file or folder".to_owned(),
            )
            .into());
        }
        Ok(self
            .root
            .join(entry)
            .map_err(driftless_manifest::ReadError::from)?)
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

    /// What an entry leads to.
    ///
    /// # Errors
    /// A path that leaves the tree.
    pub fn kind(&self, entry: &str) -> Result<Option<Kind>, Error> {
        Ok(self.context.reader.kind(&self.join(entry)?)?)
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// A remote entry, no file, or one that the load restrictor keeps out.
    pub fn load(&self, entry: &str, field: &'static str) -> Result<(TreePath, Vec<u8>), Error> {
        let path = self.path_of(entry, field)?;
        let bytes = self.context.reader.read(&path)?;
        self.context.spend_bytes(bytes.len())?;
        Ok((path, bytes.to_vec()))
    }

    fn path_of(&self, entry: &str, field: &'static str) -> Result<TreePath, Error> {
        let is_url = ["http://", "https://"]
            .iter()
            .any(|scheme| entry.starts_with(scheme));
        if is_url {
            refuse_remote(entry, field)?;
        }
        let path = self.join(entry)?;
        if self.context.options.load_restrictor == LoadRestrictor::RootOnly
            && let Some(real) = self.context.reader.real_path(&path)?
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

    /// The text of a file.
    ///
    /// # Errors
    /// As [`Loader::load`], or bytes that are no UTF-8.
    pub fn text(&self, entry: &str, field: &'static str) -> Result<Text, Error> {
        let (path, bytes) = self.load(entry, field)?;
        let text = String::from_utf8(bytes).map_err(|_| YamlError {
            file: path.to_string(),
            line: 1,
            column: 1,
            kind: yaml::YamlErrorKind::NotUtf8,
        })?;
        Ok(Text { path, text })
    }

    /// The kustomization file of the folder: its name and text.
    ///
    /// # Errors
    /// None, or more than one.
    pub fn kustomization(&self) -> Result<(&'static str, Text), Error> {
        let mut found = Vec::new();
        for name in FILE_NAMES {
            if self.kind(name)? == Some(Kind::File) {
                found.push(name);
            }
        }
        match found.as_slice() {
            [] => Err(Error::from(ErrorKind::NoKustomization).in_file(&self.root)),
            [name] => Ok((name, self.text(name, "kustomization")?)),
            many => {
                Err(Error::from(ErrorKind::ManyKustomizations(many.join(", "))).in_file(&self.root))
            }
        }
    }
}

fn real_dir(context: &Context<'_, '_>, dir: &TreePath) -> Result<TreePath, Error> {
    match context.reader.kind(dir)? {
        Some(Kind::Dir) => Ok(context
            .reader
            .real_path(dir)?
            .unwrap_or_else(|| dir.clone())),
        Some(Kind::File) => Err(driftless_manifest::ReadError::NotDir(dir.clone()).into()),
        None => Err(driftless_manifest::ReadError::Missing(dir.clone()).into()),
    }
}

/// Refuses an entry that kustomize would fetch: an URL, or a host with a user before it.
fn refuse_remote(entry: &str, field: &'static str) -> Result<(), Error> {
    let lower = entry.to_ascii_lowercase();
    let bare = lower.strip_prefix("git::").unwrap_or(&lower);
    let user = bare.split_once('@').map_or("", |(user, _)| user);
    let has_user = user
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && bare.contains(['/', ':']);
    let has_scheme = ["http://", "https://", "ssh://", "file://"]
        .iter()
        .any(|scheme| bare.starts_with(scheme));
    let is_github = bare.starts_with("github.com/") || bare.starts_with("github.com:");
    if !(has_user || has_scheme || is_github || bare.len() < lower.len()) {
        return Ok(());
    }
    Err(ErrorKind::Remote {
        field,
        entry: without_credentials(entry),
    }
    .into())
}

fn without_credentials(entry: &str) -> String {
    let entry = entry.split(['?', '#']).next().unwrap_or_default();
    match entry.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let rest = host.rfind('@').map_or(rest, |at| &rest[at + 1..]);
            format!("{scheme}://{rest}")
        }
        None => entry.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_remote_entries() {
        for (entry, remote) in [
            ("https://github.com/a/b//c?ref=v1", true),
            ("github.com/a/b", true),
            ("git@host:a/b", true),
            ("git::https://x/y", true),
            ("ssh://git@host/a", true),
            ("../base", false),
            ("a@b.yaml", false),
            ("./github.com/x", false),
        ] {
            assert_eq!(
                refuse_remote(entry, "resources").is_err(),
                remote,
                "{entry}"
            );
        }
        assert_eq!(
            without_credentials("https://user:secret@host/a?token=x"),
            "https://host/a"
        );
    }
}
