//! Edits of the `resources` of a directory's kustomization, in place: comments, order and
//! formatting of everything else stay.

use super::checkout::Checkout;
use super::edit::{File, Lines};
use crate::error::Error;
use driftless_kustomize::{ErrorKind, FILE_NAMES};
use driftless_manifest::yaml::{Node, NodeKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The position of a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPosition {
    /// After all others, as with `kustomize edit add resource`.
    End,
    /// Sorted by name, after entries that lead out of the directory, as with
    /// `kustomize create --autodetect`.
    Name,
}

/// Returns the path of a directory's kustomization, under any of the three names.
///
/// # Errors
/// Fails if the directory has more than one.
pub fn file(checkout: &Checkout, directory: &str) -> Result<Option<String>, Error> {
    let is_there = |name: &&&str| checkout.has(&format!("{directory}/{name}"));
    let found: Vec<&str> = FILE_NAMES.iter().filter(is_there).copied().collect();
    match found.as_slice() {
        [] => Ok(None),
        [name] => Ok(Some(format!("{directory}/{name}"))),
        many => {
            let error = ErrorKind::ManyKustomizations(many.join(", "));
            Err(Error::new(format!("{directory}: {error}"))
                .next("merge them into one of these files, and delete the others"))
        }
    }
}

/// Creates the kustomization of a directory that has none.
///
/// # Errors
/// Fails if the directory has more than one.
pub fn create(checkout: &mut Checkout, directory: &str, text: String) -> Result<(), Error> {
    if file(checkout, directory)?.is_none() {
        checkout.put(format!("{directory}/{}", FILE_NAMES[0]), text);
    }
    Ok(())
}

/// Adds the directory of a remote cluster to the kustomization of its hub, at the end.
///
/// # Errors
/// Those of [`add`].
pub fn list_remote(checkout: &mut Checkout, hub: &str, remote: &str) -> Result<(), Error> {
    let directory = format!("clusters/{hub}");
    add(checkout, &directory, &[], remote, EntryPosition::End)
}

/// Adds an entry to the kustomization of a directory. Without a kustomization, and with `first`,
/// one is created that lists `first` and everything in the directory. With an empty `first` Flux
/// applies everything in the directory, including the entry, so no kustomization is created, unless
/// the directory has nothing else.
///
/// # Errors
/// Fails for a kustomization that cannot be parsed or whose `resources` is not a block list, and
/// for a directory with more than one.
pub fn add(
    checkout: &mut Checkout,
    directory: &str,
    first: &[&str],
    entry: &str,
    at: EntryPosition,
) -> Result<(), Error> {
    if let Some(path) = file(checkout, directory)? {
        let text = checkout.text(&path)?.unwrap_or_default();
        let text = with_entry(&text, &path, entry, at)?;
        checkout.put(path, text);
        return Ok(());
    }
    let mut all = detected(checkout, directory);
    let has_others = all.iter().any(|one| one != entry);
    if !first.is_empty() || !has_others {
        all.insert(entry.to_owned());
        let all = all.iter().map(String::as_str);
        let all = all.filter(|one| !first.contains(one));
        let entries: Vec<&str> = first.iter().copied().chain(all).collect();
        checkout.put(
            format!("{directory}/{}", FILE_NAMES[0]),
            kustomization(&entries),
        );
    }
    Ok(())
}

/// Returns what Flux applies from a directory without a kustomization: directories with a
/// kustomization, and all other manifests.
fn detected(checkout: &Checkout, directory: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in checkout.below(directory) {
        let directories = path.match_indices('/').map(|(at, _)| &path[..at]);
        let is_kustomized = |inner: &&str| {
            let own = |name: &&str| checkout.has(&format!("{directory}/{inner}/{name}"));
            FILE_NAMES.iter().any(own)
        };
        match directories.into_iter().find(is_kustomized) {
            Some(inner) => found.insert(inner.to_owned()),
            None if path.ends_with(".yaml") || path.ends_with(".yml") => {
                found.insert(path.to_owned())
            }
            None => false,
        };
    }
    found
}

/// Removes an entry from the kustomization of a directory. Returns whether it was there.
///
/// # Errors
/// Fails for a kustomization that cannot be parsed or edited, and for a directory with more than
/// one.
pub fn remove(checkout: &mut Checkout, directory: &str, entry: &str) -> Result<bool, Error> {
    let Some(path) = file(checkout, directory)? else {
        return Ok(false);
    };
    let text = checkout.text(&path)?.unwrap_or_default();
    let Some(text) = without_entry(&text, &path, entry)? else {
        return Ok(false);
    };
    checkout.put(path, text);
    Ok(true)
}

fn without_entry(text: &str, path: &str, entry: &str) -> Result<Option<String>, Error> {
    let file = File::read(path, text)?;
    let Some((key, items)) = file.documents.first().and_then(entries) else {
        return Ok(None);
    };
    let Some(at) = position(items, entry) else {
        return Ok(None);
    };
    let line = items[at].line;
    let mut lines = Lines::of(text);
    let is_item = lines
        .get(line)
        .is_some_and(|line| line.trim_start().starts_with("- "));
    let mut edited = None;
    if is_item {
        if items.len() == 1 {
            let end = key.column - 1 + RESOURCES.len() + 1;
            let start = lines.get(key.line).unwrap_or_default();
            let new = start.get(..end).zip(start.get(end..));
            let new = new.map(|(key, rest)| format!("{key} []{rest}"));
            lines.replace(key.line - 1..key.line, new.into_iter().collect());
        }
        lines.replace(line - 1..line, Vec::new());
        edited = Some(lines.into_text());
    }
    let mut want = file.values()?;
    if let Some(Value::Array(list)) = want.get_mut(0).map(|first| &mut first[RESOURCES]) {
        list.remove(at);
    }
    let action = format!("remove '{entry}' from resources");
    let file = file.without_comment(line);
    file.check_edit(edited, &want, line, &action).map(Some)
}

/// Returns a kustomization in the format of `kustomize create`.
pub fn kustomization(resources: &[&str]) -> String {
    let mut text = String::from(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:",
    );
    if resources.is_empty() {
        text.push_str(" []");
    }
    for resource in resources {
        text.push_str("\n- ");
        text.push_str(resource);
    }
    text + "\n"
}

const RESOURCES: &str = "resources";

/// Returns the node of the key `resources` and its items.
fn entries(document: &Node) -> Option<(&Node, &[Node])> {
    let NodeKind::Map(pairs) = &document.kind else {
        return None;
    };
    let (key, value) = pairs
        .iter()
        .find(|(key, _)| key.text() == Some(RESOURCES))?;
    match &value.kind {
        NodeKind::Seq(items) => Some((key, items)),
        _ if value.is_empty() => Some((key, &[])),
        _ => None,
    }
}

fn position(items: &[Node], entry: &str) -> Option<usize> {
    let is_same = |item: &Node| {
        item.text()
            .is_some_and(|text| normalize(text) == normalize(entry))
    };
    items.iter().position(is_same)
}

/// Normalizes an entry for a comparison.
fn normalize(entry: &str) -> &str {
    entry.trim_start_matches("./").trim_end_matches('/')
}

fn with_entry(text: &str, path: &str, entry: &str, at: EntryPosition) -> Result<String, Error> {
    let file = File::read(path, text)?;
    let refused = |line: usize, problem: &str| {
        Error::new(format!("{path}:{line}: {problem}"))
            .next(format!("add '{entry}' to resources by hand"))
    };
    let Some(document) = file.documents.first() else {
        return Err(refused(1, "expected a kustomization"));
    };
    let NodeKind::Map(pairs) = &document.kind else {
        return Err(refused(document.line, "expected a kustomization"));
    };
    let mut want = file.values()?;
    let mut lines = Lines::of(text);
    let Some((key, items)) = entries(document) else {
        if let Some((key, _)) = pairs.iter().find(|(key, _)| key.text() == Some(RESOURCES)) {
            return Err(refused(key.line, "resources is not a list"));
        }
        want[0][RESOURCES] = json!([entry]);
        let end = text.lines().count();
        lines.replace(
            end..end,
            vec![format!("{RESOURCES}:"), format!("- {entry}")],
        );
        let action = format!("add resources with '{entry}'");
        return file.check_edit(Some(lines.into_text()), &want, end, &action);
    };
    if position(items, entry).is_some() {
        return Ok(text.to_owned());
    }
    let action = format!("add '{entry}' to resources");
    let Some(first) = items.first() else {
        // `resources:` or `resources: []`
        want[0][RESOURCES] = json!([entry]);
        let line = lines.get(key.line).unwrap_or_default();
        let new = match line.split_once("[]") {
            Some((before, after)) => format!("{}{after}", before.trim_end()),
            None => line.to_owned(),
        };
        let indent = " ".repeat(key.column - 1);
        let new = vec![new, format!("{indent}- {entry}")];
        lines.replace(key.line - 1..key.line, new);
        return file.check_edit(Some(lines.into_text()), &want, key.line, &action);
    };
    let line = lines.get(first.line).unwrap_or_default();
    let indent = &line[..line.len() - line.trim_start().len()];
    if !line.trim_start().starts_with("- ") {
        return Err(refused(
            first.line,
            "resources is not a list in block style, with lines that begin with '- '",
        ));
    }
    let before = |item: &Node| {
        item.text()
            .is_some_and(|name| name.starts_with("../") || name < entry)
    };
    let after = match at {
        EntryPosition::End => Some(items.len() - 1),
        EntryPosition::Name => items.iter().rposition(before),
    };
    let line = after.map_or(first.line - 1, |at| items[at].line);
    let new = format!("{indent}- {entry}");
    if let Value::Array(list) = &mut want[0][RESOURCES] {
        list.insert(after.map_or(0, |at| at + 1), entry.into());
    }
    lines.replace(line..line, vec![new]);
    file.check_edit(Some(lines.into_text()), &want, first.line, &action)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, entry: &str, at: EntryPosition) -> Result<String, Error> {
        with_entry(text, "kustomization.yaml", entry, at)
    }

    #[test]
    fn entries_are_added_and_comments_stay() {
        let text = "# ours\nkind: Kustomization\nresources:\n  # the base\n  - ../../base/shop # first\n  - cart\n  - pay # last\nnamespace: x";
        for (entry, at, line) in [
            (
                "bank",
                EntryPosition::Name,
                "  - ../../base/shop # first\n  - bank\n  - cart\n",
            ),
            (
                "menu",
                EntryPosition::Name,
                "  - cart\n  - menu\n  - pay # last\n",
            ),
            (
                "zoo",
                EntryPosition::Name,
                "  - pay # last\n  - zoo\nnamespace: x\n",
            ),
            (
                "bank",
                EntryPosition::End,
                "  - pay # last\n  - bank\nnamespace: x\n",
            ),
        ] {
            let text = after(text, entry, at).unwrap();
            assert!(text.contains(line), "{text}");
            assert!(text.starts_with("# ours\n"), "{text}");
        }
        assert_eq!(after(text, "cart", EntryPosition::End).unwrap(), text);
    }

    #[test]
    fn empty_lists_are_filled_and_flow_lists_refused() {
        for text in [
            "kind: K\nresources: []\n",
            "kind: K\nresources:\n",
            "kind: K\n",
        ] {
            assert_eq!(
                after(text, "a", EntryPosition::End).unwrap(),
                "kind: K\nresources:\n- a\n"
            );
        }
        assert_eq!(
            after("resources: [b]\n", "a", EntryPosition::End)
                .unwrap_err()
                .message,
            "kustomization.yaml:1: resources is not a list in block style, with lines that begin with '- '"
        );
        assert!(after("resources: {}\n", "a", EntryPosition::End).is_err());
        assert!(after("- a\n", "a", EntryPosition::End).is_err());
    }

    #[test]
    fn comments_and_line_ends_stay() {
        for (text, want) in [
            ("resources: [] # none\n", "resources: # none\n- a\n"),
            ("resources: # none\n", "resources: # none\n- a\n"),
            (
                "kind: K\r\nresources:\r\n- b\r\n",
                "kind: K\r\nresources:\r\n- b\r\n- a\r\n",
            ),
            ("kind: K\r\n", "kind: K\r\nresources:\r\n- a\r\n"),
            ("resources: [./a/]\n", "resources: [./a/]\n"),
        ] {
            assert_eq!(after(text, "a", EntryPosition::End).unwrap(), want);
        }
        let folded = "resources:\n- >-\n  b\n- c\n";
        let message = after(folded, "bb", EntryPosition::Name)
            .unwrap_err()
            .message;
        assert!(
            message.contains(":2: cannot add 'bb' to resources"),
            "{message}"
        );
    }

    #[test]
    fn entries_are_removed_with_only_their_lines() {
        let without = |text: &str| {
            without_entry(text, "kustomization.yaml", "a").map_err(|error| error.message)
        };
        for (text, want) in [
            (
                "resources: # ours\n- a\nnamespace: x\n",
                "resources: [] # ours\nnamespace: x\n",
            ),
            (
                "resources:\r\n  - a # its own\r\n  - b # c\r\n",
                "resources:\r\n  - b # c\r\n",
            ),
        ] {
            assert_eq!(without(text).unwrap().unwrap(), want);
        }
        let message = without("resources: [a, b]\n").unwrap_err();
        assert!(
            message.contains(":1: cannot remove 'a' from resources"),
            "{message}"
        );
        assert_eq!(without("resources: [b]\n").unwrap(), None);
    }
}
