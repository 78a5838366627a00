//! The `resources` of a kustomization.yaml, edited in place: comments, order and layout of everything else stay.

use super::checkout::Checkout;
use crate::error::Error;
use driftless_manifest::yaml::{self, Limits, Node, NodeKind};

/// Where an entry goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Behind all others, as `kustomize edit add resource` puts it.
    End,
    /// In order of name, behind entries that lead out of the folder, as `kustomize create --autodetect` puts it.
    Name,
}

/// Adds an entry to the kustomization of a folder, which is created with `first` before it where there is none.
///
/// # Errors
/// A kustomization that cannot be read, or whose `resources` is not a block list.
pub fn add(
    checkout: &mut Checkout,
    folder: &str,
    first: &[&str],
    entry: &str,
    at: At,
) -> Result<(), Error> {
    let path = format!("{folder}/kustomization.yaml");
    let text = match checkout.text(&path)? {
        Some(text) => inserted(&text, &path, entry, at)?,
        None => {
            let entries: Vec<&str> = first.iter().copied().chain([entry]).collect();
            kustomization(&entries)
        }
    };
    checkout.put(path, text);
    Ok(())
}

/// Removes an entry from the kustomization of a folder, where both exist.
///
/// # Errors
/// A kustomization that cannot be read.
pub fn remove(checkout: &mut Checkout, folder: &str, entry: &str) -> Result<(), Error> {
    let path = format!("{folder}/kustomization.yaml");
    let Some(text) = checkout.text(&path)? else {
        return Ok(());
    };
    let documents = yaml::parse(text.as_bytes(), &path, &Limits::default());
    let documents = documents.map_err(Error::new)?;
    let items = documents
        .first()
        .and_then(|document| document.get("resources"));
    let Some(Node {
        kind: NodeKind::Seq(items),
        ..
    }) = items
    else {
        return Ok(());
    };
    let Some(item) = items.iter().find(|item| item.text() == Some(entry)) else {
        return Ok(());
    };
    let mut lines: Vec<&str> = text.lines().collect();
    let line = lines
        .get(item.line - 1)
        .map_or("", |line| line.trim_start());
    if !line.starts_with("- ") {
        return Err(Error::new(format!(
            "{path}:{}: resources is not a list of lines that begin with '- '",
            item.line
        ))
        .next(format!("remove '{entry}' from resources by hand")));
    }
    lines.remove(item.line - 1);
    checkout.put(path, lines.join("\n") + "\n");
    Ok(())
}

/// A kustomization as `kustomize create` writes it.
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

fn inserted(text: &str, path: &str, entry: &str, at: At) -> Result<String, Error> {
    let documents = yaml::parse(text.as_bytes(), path, &Limits::default());
    let documents = documents.map_err(Error::new)?;
    let refused = |line: usize, what: &str| {
        Error::new(format!("{path}:{line}: {what}"))
            .next(format!("add '{entry}' to resources by hand"))
    };
    let Some(Node {
        kind: NodeKind::Map(pairs),
        ..
    }) = documents.first()
    else {
        return Err(refused(1, "expected a kustomization"));
    };
    let mut lines: Vec<&str> = text.lines().collect();
    let Some((key, value)) = pairs
        .iter()
        .find(|(key, _)| key.text() == Some("resources"))
    else {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{text}{end}resources:\n- {entry}\n"));
    };
    let items = match &value.kind {
        NodeKind::Seq(items) => items.as_slice(),
        _ if value.is_empty() => &[],
        _ => return Err(refused(key.line, "resources is not a list")),
    };
    if items.iter().any(|item| item.text() == Some(entry)) {
        return Ok(text.to_owned());
    }
    let Some(first) = items.first() else {
        // `resources:` or `resources: []`
        let line = format!("resources:\n- {entry}");
        let at = key.line - 1;
        lines[at] = &line;
        return Ok(lines.join("\n") + "\n");
    };
    let line = lines.get(first.line - 1).copied().unwrap_or_default();
    let indent = &line[..line.len() - line.trim_start().len()];
    if !line.trim_start().starts_with("- ") {
        return Err(refused(
            first.line,
            "resources is not a list of lines that begin with '- '",
        ));
    }
    let after = match at {
        At::End => items.last(),
        At::Name => {
            let before = |item: &&Node| {
                item.text()
                    .is_some_and(|name| name.starts_with("../") || name < entry)
            };
            items.iter().rev().find(before)
        }
    };
    let new = format!("{indent}- {entry}");
    lines.insert(after.map_or(first.line - 1, |item| item.line), &new);
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, entry: &str, at: At) -> Result<String, String> {
        inserted(text, "kustomization.yaml", entry, at).map_err(|error| error.message)
    }

    #[test]
    fn entries_go_to_their_place_and_comments_stay() {
        let text = "# ours\nkind: Kustomization\nresources:\n  # the base\n  - ../../base/shop # first\n  - cart\n  - pay # last\nnamespace: x";
        for (entry, at, line) in [
            (
                "bank",
                At::Name,
                "  - ../../base/shop # first\n  - bank\n  - cart\n",
            ),
            ("menu", At::Name, "  - cart\n  - menu\n  - pay # last\n"),
            ("zoo", At::Name, "  - pay # last\n  - zoo\nnamespace: x\n"),
            ("bank", At::End, "  - pay # last\n  - bank\nnamespace: x\n"),
        ] {
            let text = after(text, entry, at).unwrap();
            assert!(text.contains(line), "{text}");
            assert!(text.starts_with("# ours\n"), "{text}");
        }
        assert_eq!(after(text, "cart", At::End).unwrap(), text);
    }

    #[test]
    fn lists_that_are_empty_or_in_another_form() {
        for text in [
            "kind: K\nresources: []\n",
            "kind: K\nresources:\n",
            "kind: K\n",
        ] {
            assert_eq!(
                after(text, "a", At::End).unwrap(),
                "kind: K\nresources:\n- a\n"
            );
        }
        assert_eq!(
            after("resources: [b]\n", "a", At::End).unwrap_err(),
            "kustomization.yaml:1: resources is not a list of lines that begin with '- '"
        );
        assert!(after("resources: {}\n", "a", At::End).is_err());
        assert!(after("- a\n", "a", At::End).is_err());
    }
}
