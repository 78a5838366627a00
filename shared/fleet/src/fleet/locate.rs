//! Finds the place in the files that a message is about.

use super::build_files::{self, Build};
use super::excerpt::excerpt;
use super::files::{Files, Location};
use driftless_fuel::Span;
use driftless_kustomize::FILE_NAMES;
use driftless_manifest::yaml::{Node, NodeKind};
use driftless_manifest::{ObjectId, TreePath};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The group of Flux's Kustomizations.
const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io/";

impl Files {
    /// Splits `FILE:LINE:COLUMN: MESSAGE` or `FILE: MESSAGE` into the place and the message.
    pub fn of_message<'m>(&self, message: &'m str) -> Option<(Location, &'m str)> {
        static FORM: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(r"(?s)^([^:\n]+?)(?::(\d+))?(?::(\d+))?: (.*)$").ok());
        let found = FORM.as_ref()?.captures(message)?;
        let path = TreePath::new(found.get(1)?.as_str()).ok()?;
        if self.tree.index().get(&path).is_none() && !self.tree.index().is_dir(&path) {
            return None;
        }
        let text = found.get(4)?.as_str();
        if let Some(patch) = self.of_patch(text) {
            return Some((patch, text));
        }
        let number = |at| found.get(at)?.as_str().parse().ok();
        let (line, column) = (number(2), number(3));
        let excerpt = line
            .zip(column)
            .and_then(|place| self.excerpt(&path, place));
        let line = line
            .or_else(|| self.line_of_quoted(&path, text))
            .or_else(|| self.line_of_key(&path, text));
        let place = self.place(&path, line);
        Some((Location { excerpt, ..place }, text))
    }

    /// Returns the excerpt of a file at a line and a column.
    fn excerpt(&self, path: &TreePath, (line, column): (usize, usize)) -> Option<String> {
        let file = self.root.join(path.as_str()).display().to_string();
        excerpt(self.tree.content(path)?, &Span::new(file, line, column))
    }

    /// Returns the namespace that the kustomization in a file's directory sets, or an empty string.
    fn namespace_of(&self, file: &TreePath) -> String {
        let namespace = FILE_NAMES.iter().find_map(|name| {
            let path = file.parent().join(name).ok()?;
            self.tree.index().get(&path)?;
            let documents = self.documents(&path);
            let namespace = documents.first()?.get("namespace")?.text()?.to_owned();
            Some(namespace)
        });
        namespace.unwrap_or_default()
    }

    /// Returns the place in a patch that a kustomization refuses: `patch: FILE: ...`, with
    /// `FILE:LINE:` in it for an invalid file.
    fn of_patch(&self, text: &str) -> Option<Location> {
        let rest = text.strip_prefix("patch: ")?;
        let file = rest.split([':', ' ']).next()?;
        let path = TreePath::new(file).ok()?;
        self.tree.index().get(&path)?;
        let line = rest.split(&format!("{file}:")).find_map(|after| {
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        });
        Some(self.place(&path, line.or(Some(1))))
    }

    /// Returns the place of the document that an object is made from: by its kind and name, or for
    /// a name with a prefix, suffix, hash or variable by the name in the file. Among several, such
    /// as an object and its patches, it prefers one that the build reads, in a file that contains
    /// what the message is about, and the one nearest to the build's directory.
    pub fn of_object(&self, build: &Build, id: &ObjectId, message: &str) -> Option<Location> {
        let read = build_files::files(self, self.tree.index(), build);
        let is_missing = message.contains("Required value");
        let words = match is_missing {
            true => BTreeSet::new(),
            false => words(message, id),
        };
        let mut best: Option<(Score, Location)> = None;
        for (path, _) in self.tree.index().iter() {
            let content = self
                .tree
                .content(path)
                .filter(|_| build_files::is_manifest(path));
            let Some(content) = content.filter(|content| mentions(content, &id.kind)) else {
                continue;
            };
            let content = String::from_utf8_lossy(content);
            let has = words.iter().filter(|word| content.contains(**word)).count();
            for document in self.documents(path).iter() {
                let Some(((named, in_namespace), line)) = fits(document, id) else {
                    continue;
                };
                let in_namespace = in_namespace || self.namespace_of(path) == id.namespace;
                // A missing field is missing in the object, not in its patch.
                let size = if is_missing { content.len() } else { 0 };
                let near = nearness(path, &build.directory);
                let score = (read.contains(path), named, in_namespace, has, size, near);
                if best.as_ref().is_none_or(|(known, _)| score > *known) {
                    best = Some((score, self.place(path, Some(line))));
                }
            }
        }
        best.map(|(_, place)| place)
    }

    /// Returns the place of the field that a message mentions (`.spec.replicas: expected ...`,
    /// `spec.selector: Required value`), as far as the object at a place has it; else the object's
    /// own place.
    pub fn of_field(&self, object: Location, message: &str) -> Location {
        static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(
                r"\b(?:spec|metadata|data|stringData|rules|subjects|roleRef)(?:\.[A-Za-z][A-Za-z0-9]*)+|\s\.[A-Za-z][A-Za-z0-9]*:",
            )
            .ok()
        });
        let found = FIELD.as_ref().and_then(|field| field.find(message));
        let path = found.map(|path| path.as_str().trim_start().trim_matches(['.', ':']));
        let line = path.and_then(|path| self.line_of_path(&object, path, message));
        Location {
            line: line.or(object.line),
            ..object
        }
    }

    /// Returns the line of the last key of a path that exists, or of the named list entry that the
    /// message mentions.
    fn line_of_path(&self, object: &Location, fields: &str, message: &str) -> Option<usize> {
        let path = object.file.strip_prefix(&self.root).ok()?.to_str()?;
        let documents = self.documents(&TreePath::new(path).ok()?);
        let mut documents = documents
            .iter()
            .filter(|document| Some(document.line) <= object.line);
        let (mut node, mut line) = (documents.next_back()?, None);
        for field in fields.split('.') {
            let NodeKind::Map(pairs) = &node.kind else {
                break;
            };
            let Some((key, value)) = pairs.iter().find(|(key, _)| key.text() == Some(field)) else {
                break;
            };
            (node, line) = (value, Some(key.line));
        }
        if let NodeKind::Seq(entries) = &node.kind {
            let is_named = |entry: &&Node| {
                let name = entry.get("name").and_then(Node::text);
                name.is_some_and(|name| message.contains(&format!("{name}'")))
            };
            line = entries
                .iter()
                .find(is_named)
                .map(|entry| entry.line)
                .or(line);
        }
        line
    }

    /// Returns the names of Flux Kustomizations, without names that have variables.
    pub fn kustomizations(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (path, _) in self.tree.index().iter() {
            let content = self
                .tree
                .content(path)
                .filter(|_| build_files::is_manifest(path));
            if !content.is_some_and(|content| mentions(content, KUSTOMIZE)) {
                continue;
            }
            for document in self.documents(path).iter() {
                let version = document.get("apiVersion").and_then(Node::text);
                let name = document
                    .get("metadata")
                    .and_then(|metadata| metadata.get("name"));
                let name = name.and_then(Node::text).filter(|name| !name.contains('$'));
                if let (true, Some(name)) = (
                    version.is_some_and(|text| text.starts_with(KUSTOMIZE)),
                    name,
                ) {
                    names.push(name.to_owned());
                }
            }
        }
        names
    }

    /// Checks whether a document contains an object of this kind and name.
    pub fn has(&self, id: &ObjectId) -> bool {
        self.tree.index().iter().any(|(path, _)| {
            let content = self
                .tree
                .content(path)
                .filter(|_| build_files::is_manifest(path));
            content.is_some_and(|content| mentions(content, &id.kind))
                && self.documents(path).iter().any(|document| {
                    let kind = document.get("kind").and_then(Node::text);
                    let name = document
                        .get("metadata")
                        .and_then(|metadata| metadata.get("name"));
                    let is_same = name.and_then(Node::text) == Some(&id.name);
                    kind == Some(&id.kind) && is_same
                })
        })
    }

    /// Returns a hint for a message about a missing file that the directory has, but its source
    /// excludes.
    pub fn left_out(&self, text: &str) -> String {
        let is_missing = text.contains("does not exist") || text.contains("is not there");
        let quoted = text.split('\'').nth(1).filter(|_| is_missing);
        let path = quoted.and_then(|quoted| TreePath::new(quoted).ok());
        let Some(path) = path.filter(|path| self.tree.index().get(path).is_none()) else {
            return String::new();
        };
        match self.root.join(path.as_str()).is_file() {
            true => "; the directory has the file, but a source excludes it by Flux's default exclusions (images, archives, .git and \
                     workflows) or a .sourceignore; a line such as !*.png in .sourceignore or spec.ignore includes it"
                .to_owned(),
            false => String::new(),
        }
    }

    /// Returns the first line with a string that the message quotes, such as the entry that names a
    /// missing file.
    fn line_of_quoted(&self, path: &TreePath, text: &str) -> Option<usize> {
        let content = std::str::from_utf8(self.tree.content(path)?).ok()?;
        let words = text
            .split(['\'', '"'])
            .skip(1)
            .step_by(2)
            .filter(|word| word.len() > 1);
        words.flat_map(tails).find_map(|word| {
            let at = content.lines().position(|line| line.contains(word))?;
            Some(at + 1)
        })
    }

    /// Returns the line of the field that the message begins with, such as
    /// `namespace: two objects ...` of a transformer.
    fn line_of_key(&self, path: &TreePath, text: &str) -> Option<usize> {
        let (field, _) = text.split_once(':')?;
        let fields: &[&str] = match field {
            "patch" => &["patches", "patchesStrategicMerge", "patchesJson6902"],
            _ => &[field],
        };
        let documents = self.documents(path);
        let found = documents.iter().find_map(|document| {
            let mut fields = fields.iter();
            fields.find_map(|field| document.get(field))
        });
        found.map(|node| node.line)
    }

    fn place(&self, path: &TreePath, line: Option<usize>) -> Location {
        Location {
            file: self.root.join(path.as_str()),
            line,
            excerpt: None,
        }
    }
}

/// Returns the words of a message that are not about the object's own name: what it quotes, and the
/// last part of the field.
fn words<'m>(message: &'m str, id: &ObjectId) -> BTreeSet<&'m str> {
    let quoted = message.split(['\'', '"']).skip(1).step_by(2);
    let field = message
        .split([' ', ':', ','])
        .filter(|word| word.contains('.'))
        .filter_map(|word| word.rsplit('.').next());
    quoted
        .chain(field)
        .filter(|word| word.len() > 1 && *word != id.name && *word != id.namespace)
        .collect()
}

/// Returns `a/b/c`, `b/c` and `c` for `a/b/c`.
fn tails(path: &str) -> impl Iterator<Item = &str> {
    let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    starts.map(|at| &path[at..]).filter(|tail| !tail.is_empty())
}

/// Checks whether a file may contain an object of a kind, without parsing it.
fn mentions(content: &[u8], kind: &str) -> bool {
    let text = String::from_utf8_lossy(content);
    text.contains(kind) || text.contains("Generator")
}

/// The rank of a document as the origin of an object: whether the build reads its file, how the
/// names compare, whether the namespaces are equal, how many words of the message the file
/// contains, its size if a field is missing, and its nearness to the build's directory.
type Score = (bool, Named, bool, usize, usize, usize);

/// The match of a document with an object: by name, and whether the namespaces are equal.
type Fit = (Named, bool);

/// The match of the name in a document with the name of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    /// It is a part of the name: the rest is a prefix, a suffix or a hash.
    Part,
    /// It has variables, and its other parts are in the name.
    Template,
    /// It is the same name.
    Same,
}

fn named(pattern: &str, name: &str) -> Option<Named> {
    if pattern == name {
        return Some(Named::Same);
    }
    if !pattern.contains("${") {
        return name.contains(pattern).then_some(Named::Part);
    }
    let mut rest = name;
    for (at, piece) in pattern.split("${").enumerate() {
        let text = match at {
            0 => piece,
            _ => piece.split_once('}').map_or("", |(_, text)| text),
        };
        rest = &rest[rest.find(text)? + text.len()..];
    }
    Some(Named::Template)
}

/// Returns the match of a document with an object, and the line of the document.
fn fits(document: &Node, id: &ObjectId) -> Option<(Fit, usize)> {
    let text = |node: &Node, key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    if text(document, "kind").as_deref() != Some(&id.kind) {
        return generated(document, id);
    }
    let metadata = document.get("metadata")?;
    let name = text(metadata, "name")?;
    let group = text(document, "apiVersion").unwrap_or_default();
    let group = group.rsplit_once('/').map_or("", |(group, _)| group);
    let same_group = id.group.is_empty() || group == id.group;
    let namespace = text(metadata, "namespace").unwrap_or_default();
    let named = named(&name, &id.name)?;
    same_group.then_some(((named, namespace == id.namespace), document.line))
}

/// Returns the match of a kustomization's generator with a ConfigMap or Secret.
fn generated(document: &Node, id: &ObjectId) -> Option<(Fit, usize)> {
    let field = match id.kind.as_str() {
        "ConfigMap" => "configMapGenerator",
        "Secret" => "secretGenerator",
        _ => return None,
    };
    let NodeKind::Seq(entries) = &document.get(field)?.kind else {
        return None;
    };
    let names = entries.iter().filter_map(|entry| entry.get("name"));
    let found = names
        .into_iter()
        .find(|name| name.text().is_some_and(|name| id.name.contains(name)))?;
    Some(((Named::Part, true), found.line))
}

/// Returns the number of leading directories that two paths share.
fn nearness(path: &TreePath, near: &TreePath) -> usize {
    let common = path
        .parts()
        .zip(near.parts())
        .take_while(|(a, b)| a == b)
        .count();
    common.min(99)
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::FileTree;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    fn files() -> Files {
        let tree = FileTree::from_files([
            (
                "a/kustomization.yaml",
                "resources:\n- web.yaml\n- ../base/gone.yaml\nconfigMapGenerator:\n- name: settings\n",
            ),
            (
                "a/web.yaml",
                "kind: Service\nmetadata: {name: web}\n---\n\nkind: Deployment\napiVersion: apps/v1\nmetadata:\n  name: web\nspec:\n  replicas: 1\n",
            ),
            (
                "b/web.yaml",
                "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: web}\n",
            ),
            ("broken.yaml", "kind: Deployment\na: [\n"),
            (
                "apps/c/kustomization.yaml",
                "components: [../../components/scale]\nresources: [web.yaml]\n",
            ),
            ("apps/c/web.yaml", "kind: Service\nmetadata: {name: web}\n"),
            (
                "apps/d/scaler.yaml",
                "kind: Scaler\nmetadata: {name: web}\n",
            ),
            (
                "components/scale/kustomization.yaml",
                "kind: Component\nresources: [scaler.yaml]\n",
            ),
            (
                "components/scale/scaler.yaml",
                "kind: Scaler\nmetadata: {name: 'x-${APP}'}\n---\nkind: Scaler\nmetadata: {name: '${APP}'}\n",
            ),
        ]);
        Files::new(Path::new("/fleet"), Arc::new(tree.unwrap()))
    }

    fn object(kind: &str, group: &str, name: &str, near: &str) -> Option<String> {
        let id = ObjectId {
            kind: kind.into(),
            group: group.into(),
            name: name.into(),
            namespace: String::new(),
        };
        let place = files().of_object(&Build::of(near), &id, "")?;
        Some(place.to_string())
    }

    #[test]
    fn messages() {
        for (message, place, text) in [
            (
                "a/web.yaml:3:7: not valid",
                "/fleet/a/web.yaml:3",
                "not valid",
            ),
            (
                "a/web.yaml:3: not valid",
                "/fleet/a/web.yaml:3",
                "not valid",
            ),
            (
                "a/kustomization.yaml: resources: two of them",
                "/fleet/a/kustomization.yaml:2",
                "resources: two of them",
            ),
            (
                "a: the directory has none",
                "/fleet/a",
                "the directory has none",
            ),
            (
                "a/kustomization.yaml: the file 'base/gone.yaml' is not there",
                "/fleet/a/kustomization.yaml:3",
                "the file 'base/gone.yaml' is not there",
            ),
        ] {
            let files = files();
            let (found, rest) = files.of_message(message).unwrap();
            assert_eq!((found.to_string().as_str(), rest), (place, text));
        }
        for other in ["dependency 'a' is not ready", "nothing.yaml:1: no", ""] {
            assert!(files().of_message(other).is_none(), "{other}");
        }
    }

    #[test]
    fn objects() {
        let web = |near| object("Deployment", "apps", "web", near).unwrap();
        assert_eq!(
            (web("a"), web("b")),
            ("/fleet/a/web.yaml:5".into(), "/fleet/b/web.yaml:1".into())
        );
        assert_eq!(
            object("Deployment", "apps", "prod-web-5", "a").unwrap(),
            "/fleet/a/web.yaml:5"
        );
        assert_eq!(
            object("ConfigMap", "", "settings-abc", "b").unwrap(),
            "/fleet/a/kustomization.yaml:5"
        );
        let scaler = |near| object("Scaler", "", "web", near).unwrap();
        assert_eq!(scaler("apps/c"), "/fleet/components/scale/scaler.yaml:4");
        assert_eq!(scaler("apps/d"), "/fleet/apps/d/scaler.yaml:1");
        let field = |message: &str| {
            let object = Location {
                file: PathBuf::from("/fleet/a/web.yaml"),
                line: Some(5),
                excerpt: None,
            };
            files().of_field(object, message).line
        };
        assert_eq!(field(".spec.replicas: expected numeric"), Some(10));
        assert_eq!(field("spec.selector: Required value"), Some(9));
        assert_eq!(field("no field at all"), Some(5));
        assert!(object("Deployment", "apps", "api", "a").is_none());
        assert!(object("Job", "batch", "web", "a").is_none());
    }
}
