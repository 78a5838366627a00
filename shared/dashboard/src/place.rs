//! Finds the file and line that a failure comes from.
//!
//! A message of an engine has them: `apps/web.yaml:12: ...`. A message about an object does not:
//! `Deployment/apps/web dry-run failed: ...`. Then the file of the artifact is searched in which
//! the object is written. No content of a file leaves this module.

use crate::model::{Place, Row, Snapshot};
use driftless_flux::{ArtifactStatus, FluxKind};
use driftless_kernel::context::Context;
use driftless_kernel::hub;
use driftless_kernel::ports::Ports;
use driftless_manifest::yaml::{self, Limits, Node};
use driftless_manifest::{FileTree, TreePath};
use driftless_source::files;
use regex::Regex;
use std::sync::LazyLock;

/// The most bytes of a file that is parsed.
const MAX_FILE: usize = 1 << 20;
/// The most files that are parsed for one message.
const MAX_FILES: usize = 400;

/// `FILE:LINE` of a manifest in a message.
static FILE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:^|[\s'(\[`\x22])((?:[\w.@+-]+/)*[\w.@+-]+\.(?:ya?ml|json|tpl|txt|env|properties|toml))(?::(\d{1,7}))?(?::\d+)?\b").ok()
});
/// `Kind/namespace/name` or `Kind/name` in a message.
static OBJECT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b([A-Z][A-Za-z]+)/((?:[a-z0-9][a-z0-9.-]*/)?[a-z0-9][a-z0-9.:-]*)").ok()
});
/// A path of fields in a message.
static FIELD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b(?:spec|metadata|data|stringData|rules|subjects|roleRef)(?:\.[A-Za-z][\w-]*|\[\d+\])+|\.[A-Za-z]\w*\b").ok()
});

/// Returns the place that the failure of a row comes from.
pub async fn find(ports: &Ports, row: &Row, snapshot: &Snapshot) -> Option<Place> {
    if row.message.is_empty() {
        return None;
    }
    let (source, revision) = repository(row, snapshot)?;
    let link = |file: &str, line: Option<usize>| link(&source.url, revision, file, line);
    let named = in_message(&row.message);
    let tree = match &named {
        Some((_, Some(_))) => None,
        _ => tree(ports, row, source).await,
    };
    let (file, line) = match (named, tree) {
        (Some((file, Some(line))), _) => (file, Some(line)),
        (_, Some(tree)) => of_object(&tree, &row.path, &row.message)?,
        (named, None) => named?,
    };
    Some(Place {
        link: link(&file, line),
        file,
        line,
    })
}

/// Returns the first file of a message, and its line.
fn in_message(message: &str) -> Option<(String, Option<usize>)> {
    let found = FILE.as_ref()?.captures_iter(message);
    let mut all = found.filter_map(|found| {
        let path = TreePath::new(found.get(1)?.as_str()).ok()?;
        let line = found.get(2).and_then(|line| line.as_str().parse().ok());
        Some((path.as_str().to_owned(), line))
    });
    let first = all.next()?;
    match first.1 {
        Some(_) => Some(first),
        None => Some(all.find(|(_, line)| line.is_some()).unwrap_or(first)),
    }
}

/// Returns the source with the files of a row, and the revision that was attempted.
fn repository<'s>(row: &'s Row, snapshot: &'s Snapshot) -> Option<(&'s Row, &'s str)> {
    let source = snapshot.find(&row.hub, row.source.as_ref()?)?;
    let revision = match row.attempted.is_empty() {
        true => &source.revision,
        false => &row.attempted,
    };
    Some((source, revision))
}

/// Returns the files of the source's artifact, with the checks of a step that reads it.
async fn tree(ports: &Ports, row: &Row, source: &Row) -> Option<std::sync::Arc<FileTree>> {
    if row.id.kind != FluxKind::Kustomization || source.id.kind == FluxKind::ExternalArtifact {
        return None;
    }
    let hub = hub::connect(ports, &row.hub).await.ok()?;
    let object = hub.get(&source.id).await.ok()??;
    let status = object.pointer("/status/artifact")?.clone();
    let artifact: ArtifactStatus = serde_json::from_value(status).ok()?;
    let context = Context::rehearsal(ports, hub, row.id.clone());
    let loaded = files::load_of(&context, &source.id, &artifact).await;
    loaded
        .inspect_err(|error| tracing::debug!(%error, "artifact not read"))
        .ok()
}

/// Returns the place of the first object of a message that a file has: of the field that the
/// message is about, if the object has it.
fn of_object(tree: &FileTree, directory: &str, message: &str) -> Option<(String, Option<usize>)> {
    let directory = directory.trim_start_matches("./").trim_matches('/');
    let objects: Vec<(&str, &str)> = OBJECT
        .as_ref()?
        .captures_iter(message)
        .filter_map(|found| {
            let name = found.get(2)?.as_str();
            let name = name.rsplit('/').next().unwrap_or(name);
            Some((found.get(1)?.as_str(), name))
        })
        .collect();
    let mut best: Option<(usize, String, usize)> = None;
    let mut parsed = 0;
    for (path, _) in tree.index().iter() {
        let content = tree.content(path).filter(|_| is_manifest(path.as_str()));
        let Some(content) = content.filter(|content| content.len() <= MAX_FILE) else {
            continue;
        };
        let text = String::from_utf8_lossy(content);
        let is_named = |(kind, name): &&(&str, &str)| text.contains(*kind) && text.contains(*name);
        let Some(at) = objects.iter().position(|object| is_named(&object)) else {
            continue;
        };
        parsed += 1;
        if parsed > MAX_FILES {
            break;
        }
        let Ok(documents) = yaml::parse(content, path.as_str(), &Limits::default()) else {
            continue;
        };
        for (order, (kind, name)) in objects.iter().enumerate().skip(at) {
            let mut found = documents.iter().filter(|one| is_object(one, kind, name));
            let Some(document) = found.next() else {
                continue;
            };
            let is_below = directory.is_empty() || path.as_str().starts_with(directory);
            let rank = order * 2 + usize::from(!is_below);
            if best.as_ref().is_none_or(|(known, ..)| rank < *known) {
                let line = field_line(document, message).unwrap_or(document.line);
                best = Some((rank, path.as_str().to_owned(), line));
            }
        }
    }
    best.map(|(_, file, line)| (file, Some(line)))
}

fn is_manifest(path: &str) -> bool {
    [".yaml", ".yml", ".json"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// Returns whether a document is an object of this kind and name.
fn is_object(document: &Node, kind: &str, name: &str) -> bool {
    let text = |node: Option<&Node>| node.and_then(Node::text).map(str::to_owned);
    let named = document.get("metadata").and_then(|meta| meta.get("name"));
    text(document.get("kind")).as_deref() == Some(kind) && text(named).as_deref() == Some(name)
}

/// Returns the line of the deepest field of a path in the message that the object has.
fn field_line(document: &Node, message: &str) -> Option<usize> {
    let mut paths = FIELD.as_ref()?.find_iter(message);
    paths.find_map(|path| {
        let mut node = document;
        let mut line = None;
        for key in path.as_str().trim_start_matches('.').split(['.', '[', ']']) {
            let Some(next) = node.get(key) else { break };
            node = next;
            line = Some(next.line);
        }
        line
    })
}

/// Returns the address of a line at the host of a repository, for hosts whose pages have a known
/// form.
fn link(url: &str, revision: &str, file: &str, line: Option<usize>) -> Option<String> {
    let commit = revision.rsplit([':', '@']).next()?;
    let is_commit = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address = url::Url::parse(url).ok().filter(|_| is_commit)?;
    let host = address.host_str()?;
    let repository = address.path().trim_matches('/').trim_end_matches(".git");
    let repository = repository.trim_start_matches("v3/");
    let (middle, anchor) = match host {
        "github.com" => ("blob", "#L"),
        "gitlab.com" => ("-/blob", "#L"),
        "codeberg.org" => ("src/commit", "#L"),
        "bitbucket.org" => ("src", "#lines-"),
        _ => return None,
    };
    let file: Vec<String> = file.split('/').map(crate::text::segment).collect();
    let anchor = line.map_or(String::new(), |line| format!("{anchor}{line}"));
    Some(format!(
        "https://{host}/{repository}/{middle}/{commit}/{}{anchor}",
        file.join("/")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::EntryKind;

    #[test]
    fn files_of_messages() {
        let place = |message: &str| in_message(message);
        assert_eq!(
            place("kustomize build failed: apps/web/deploy.yaml:12:3: mapping values"),
            Some(("apps/web/deploy.yaml".to_owned(), Some(12)))
        );
        assert_eq!(
            place("in 'kustomization.yaml': base/a.yml:7: no"),
            Some(("base/a.yml".to_owned(), Some(7)))
        );
        assert_eq!(
            place("apps/kustomization.yaml: file not found"),
            Some(("apps/kustomization.yaml".to_owned(), None))
        );
        assert_eq!(place("Deployment/apps/web dry-run failed"), None);
        assert_eq!(place("../../etc/x.yaml:3: no"), None);
    }

    #[test]
    fn objects_of_messages_are_found_in_their_files() {
        let files = [
            (
                "other/web.yaml",
                "kind: Deployment\nmetadata:\n  name: web\n",
            ),
            (
                "apps/all.yaml",
                "kind: Service\nmetadata:\n  name: web\n---\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: no\n",
            ),
            ("apps/broken.yaml", "kind: Deployment\nname: web\n  x: ["),
        ];
        let mut tree = FileTree::new();
        for (path, content) in files {
            let path = TreePath::new(path).unwrap();
            tree.insert(path, EntryKind::File, content.as_bytes().to_vec())
                .unwrap();
        }
        let found = |message: &str| of_object(&tree, "./apps", message);
        let at = |line| Some(("apps/all.yaml".to_owned(), Some(line)));
        assert_eq!(
            found("Deployment/apps/web dry-run failed (Invalid): spec.replicas: wrong"),
            at(9)
        );
        assert_eq!(
            found("Deployment/apps/web dry-run failed: .spec.replicas: wrong"),
            at(9)
        );
        assert_eq!(
            found("timeout waiting for: [Service/apps/web status: 'Failed']"),
            at(1)
        );
        assert_eq!(found("nothing"), None);
    }

    #[test]
    fn links_of_hosts() {
        let commit = "6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f";
        let revision = format!("main@sha1:{commit}");
        let link = |url: &str| link(url, &revision, "a b/c.yaml", Some(3));
        assert_eq!(
            link("https://github.com/acme/fleet.git"),
            Some(format!(
                "https://github.com/acme/fleet/blob/{commit}/a%20b/c.yaml#L3"
            ))
        );
        assert_eq!(
            link("ssh://git@gitlab.com/acme/web/fleet"),
            Some(format!(
                "https://gitlab.com/acme/web/fleet/-/blob/{commit}/a%20b/c.yaml#L3"
            ))
        );
        assert_eq!(link("https://git.acme.example/fleet"), None);
        assert_eq!(link("javascript:alert(1)"), None);
    }
}
