//! Loads the files that a build will read: the one that it asked for, and what its kustomizations
//! refer to. Without it, a build would run again for each directory.
//!
//! Nothing depends on the result: a build that needs another file asks for it.

use driftless_kernel::context::Context;
use driftless_kernel::ports::Result;
use driftless_kustomize::FILE_NAMES;
use driftless_manifest::{EntryKind, TreeIndex, TreePath};
use driftless_source::files::Files;
use std::collections::BTreeSet;

/// Loads files, and those that they lead to.
///
/// # Errors
/// Those of [`Files::load_for`].
pub async fn load(context: &Context<'_>, files: &mut Files, wanted: Vec<TreePath>) -> Result<()> {
    let mut next: BTreeSet<TreePath> = BTreeSet::new();
    for path in wanted {
        if !is_kustomization(&path) {
            next.extend(below_plain(files.index(), &path.parent()));
        }
        next.insert(path);
    }
    let mut seen = BTreeSet::new();
    while !next.is_empty() {
        files.load_for(context, &next).await?;
        let mut found = BTreeSet::new();
        for path in &next {
            let leads = files.tree().content(path);
            let leads = leads.map(|content| leads_to(files.index(), path, content));
            found.extend(leads.unwrap_or_default());
        }
        seen.append(&mut next);
        next = found.difference(&seen).cloned().collect();
    }
    Ok(())
}

/// Returns the files that a file leads to: those that a kustomization refers to, or the target of a
/// link.
fn leads_to(tree: &TreeIndex, path: &TreePath, content: &[u8]) -> Vec<TreePath> {
    let text = String::from_utf8_lossy(content);
    let directory = path.parent();
    let is_link = tree
        .get(path)
        .is_some_and(|entry| entry.kind == EntryKind::Link);
    let references: Vec<&str> = match is_link {
        true => vec![&text],
        false if is_kustomization(path) => references(&text).collect(),
        false => Vec::new(),
    };
    let places = references
        .into_iter()
        .filter_map(|reference| directory.join(reference).ok());
    places
        .filter(|place| !directory.is_within(place))
        .flat_map(|place| match tree.get(&place) {
            Some(_) => vec![place],
            None => of_directory(tree, &place),
        })
        .collect()
}

/// Returns the words of a kustomization that may be paths.
fn references(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |letter: char| letter.is_whitespace() || "[]{},\"'=".contains(letter);
    text.split(is_between).filter(|word| !word.is_empty())
}

/// Returns the files with which a build of a directory begins: its kustomization, or all files.
fn of_directory(tree: &TreeIndex, directory: &TreePath) -> Vec<TreePath> {
    match kustomization_of(tree, directory) {
        Some(file) => vec![file],
        None => below(tree, directory),
    }
}

/// Returns the files below a directory without a kustomization.
fn below_plain(tree: &TreeIndex, directory: &TreePath) -> Vec<TreePath> {
    match kustomization_of(tree, directory) {
        Some(_) => Vec::new(),
        None => below(tree, directory),
    }
}

fn below(tree: &TreeIndex, directory: &TreePath) -> Vec<TreePath> {
    tree.below(directory)
        .map(|(path, _)| path.clone())
        .collect()
}

fn kustomization_of(tree: &TreeIndex, directory: &TreePath) -> Option<TreePath> {
    let places = FILE_NAMES
        .iter()
        .filter_map(|name| directory.join(name).ok());
    places.into_iter().find(|place| tree.get(place).is_some())
}

fn is_kustomization(path: &TreePath) -> bool {
    FILE_NAMES.contains(&path.file_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::FileTree;

    fn leads(tree: &FileTree, at: &str) -> Vec<String> {
        let path = TreePath::new(at).unwrap();
        let content = tree.content(&path).unwrap();
        let found = leads_to(tree.index(), &path, content);
        found.iter().map(TreePath::to_string).collect()
    }

    #[test]
    fn a_kustomization_leads_to_what_it_names() {
        let text = "resources:\n- ../base\n- plain\n- 'a.yaml'\n- https://example.com/x\n\
                    components: [../parts/one]\nconfigMapGenerator:\n- files: [key=conf/x.txt]\n\
                    patches: [{path: patch.yaml}, {path: ../../../escape}]\n";
        let mut tree = FileTree::from_files([
            ("app/over/kustomization.yaml", text),
            ("app/over/a.yaml", ""),
            ("app/over/b.yaml", ""),
            ("app/over/conf/x.txt", ""),
            ("app/over/patch.yaml", ""),
            ("app/over/plain/deep/c.yaml", ""),
            ("app/over/resources/d.yaml", ""),
            ("app/base/kustomization.yml", ""),
            ("app/base/d.yaml", ""),
            ("app/parts/one/Kustomization", ""),
        ])
        .unwrap();
        let expected = [
            "app/base/kustomization.yml",
            "app/over/plain/deep/c.yaml",
            "app/over/a.yaml",
            "app/parts/one/Kustomization",
            "app/over/conf/x.txt",
            "app/over/patch.yaml",
        ];
        assert_eq!(leads(&tree, "app/over/kustomization.yaml"), expected);
        assert!(leads(&tree, "app/over/a.yaml").is_empty());
        let link = TreePath::new("app/link").unwrap();
        tree.insert(link, EntryKind::Link, "over").unwrap();
        assert_eq!(leads(&tree, "app/link"), ["app/over/kustomization.yaml"]);
        // A kustomization that names its own directory or one above does not load everything.
        let dots = "resources: [., .., ../..]\n";
        let tree = FileTree::from_files([("a/b/kustomization.yaml", dots), ("c", "")]).unwrap();
        assert!(leads(&tree, "a/b/kustomization.yaml").is_empty());
    }
}
