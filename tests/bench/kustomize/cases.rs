//! The kustomizations that are measured: the project's corpus, and the shared ones if they exist.

use driftless_harness::files::directories;
use driftless_harness::skip::has_material;
use driftless_harness::tools;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A directory to build, with all files.
pub struct Case {
    pub name: String,
    /// The directory on the disk that contains the directory to build.
    pub root: PathBuf,
    pub dir: String,
    /// The contents of all files, for the library.
    pub files: BTreeMap<String, String>,
    /// The same files, for the engine.
    pub tree: FileTree,
}

/// Returns all cases that render without flags.
pub fn all() -> Vec<Case> {
    let workspace = tools::workspace();
    let mut cases = Vec::new();
    for directory in directories(&workspace.join("tests/corpus/kustomize")) {
        if directory.join("want.yaml").exists() {
            let root = directory.join("in");
            let dir = if root.join("overlay").is_dir() {
                "overlay"
            } else {
                "."
            };
            cases.extend(Case::read(&directory, root, dir));
        }
    }
    let shared = workspace.join("../shared/conformance/kustomize/cases");
    if !has_material(&shared) {
        return cases;
    }
    for directory in directories(&shared) {
        let text = std::fs::read_to_string(directory.join("case.json")).unwrap_or_default();
        let case: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let options = case.get("options").and_then(|options| options.as_object());
        // Only the order of the output is an option that does not change the work.
        let plain = options.is_none_or(|options| options.keys().all(|key| key == "reorder"));
        if let (Some(dir), true, true) = (
            case.get("dir").and_then(|dir| dir.as_str()),
            plain,
            directory.join("want.yaml").exists(),
        ) {
            cases.extend(Case::read(&directory, directory.join("in"), dir));
        }
    }
    cases
}

impl Case {
    /// Reads a case; returns `None` if a file is not UTF-8, because it cannot be sent to the
    /// library.
    fn read(directory: &Path, root: PathBuf, dir: &str) -> Option<Self> {
        let mut files = BTreeMap::new();
        read(&root, "", &mut files)?;
        let mut tree = FileTree::new();
        for (path, text) in &files {
            let path = TreePath::new(path).ok()?;
            tree.insert(path, EntryKind::File, text.clone().into_bytes())
                .ok()?;
        }
        let name = directory.file_name()?.to_string_lossy().into_owned();
        let case = Self {
            name,
            root,
            dir: dir.to_owned(),
            files,
            tree,
        };
        case.render().is_ok().then_some(case)
    }

    /// Renders the case with the engine.
    pub fn render(&self) -> Result<String, driftless_kustomize::Error> {
        let dir = TreePath::new(&self.dir).map_err(driftless_manifest::ReadError::from)?;
        crate::measure::render(&self.tree, &dir)
    }
}

fn read(root: &Path, below: &str, files: &mut BTreeMap<String, String>) -> Option<()> {
    for entry in std::fs::read_dir(root.join(below)).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let path = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            read(root, &path, files)?;
        } else if kind.is_file() {
            files.insert(path, std::fs::read_to_string(entry.path()).ok()?);
        } else {
            return None;
        }
    }
    Some(())
}
