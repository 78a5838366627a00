//! The records and changes that are printed.

use driftless_flux::{FluxKind, Invalid, ObjectRef};
use driftless_kernel::audit::{Change, Record};

/// The Flux object of `--by`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluxObject(ObjectRef);

/// Parses `KIND/NAMESPACE/NAME`, with the kind in any case.
///
/// # Errors
/// The text has another form, or the kind is not one of Flux.
pub fn flux_object(text: &str) -> Result<FluxObject, Invalid> {
    let expected =
        || Invalid::from("expected KIND/NAMESPACE/NAME, such as Kustomization/team-a/apps");
    let parts: Vec<&str> = text.split('/').collect();
    let [kind, namespace, name] = parts[..] else {
        return Err(expected());
    };
    let mut kinds = FluxKind::ALL.into_iter();
    let kind = kinds.find(|known| known.as_str().eq_ignore_ascii_case(kind));
    let kind = kind.ok_or_else(expected)?;
    Ok(FluxObject(ObjectRef::new(kind, namespace, name)))
}

/// The flags that select records and changes. One that is absent selects all.
#[derive(Default)]
pub struct Filter {
    /// The cluster: a hub, or `[NAMESPACE/]NAME` of a kubeconfig.
    pub cluster: Option<String>,
    /// The kind of the changed object, in any case.
    pub kind: Option<String>,
    /// The namespace of the changed object.
    pub namespace: Option<String>,
    /// The name of the changed object.
    pub name: Option<String>,
    /// The Flux object that made the change.
    pub by: Option<FluxObject>,
    /// A part of the commit's author, in any case.
    pub author: Option<String>,
}

impl Filter {
    /// Removes the changes of a record that are not selected; returns whether one is left.
    pub fn keep(&self, record: &mut Record) -> bool {
        record.changes.retain(|change| self.has_change(change));
        self.has(record) && !record.changes.is_empty()
    }

    fn has(&self, record: &Record) -> bool {
        let is_cluster = |wanted: &String| {
            let name = record.cluster.rsplit('/').next();
            record.cluster == *wanted || name == Some(wanted)
        };
        let author = record.commit.as_ref().map(|commit| &commit.author);
        let author = author.map(|author| author.to_lowercase());
        let is_author = |part: &String| {
            let part = part.to_lowercase();
            author.as_ref().is_some_and(|author| author.contains(&part))
        };
        self.cluster.as_ref().is_none_or(is_cluster)
            && self.by.as_ref().is_none_or(|by| by.0 == record.by)
            && self.author.as_ref().is_none_or(is_author)
    }

    fn has_change(&self, change: &Change) -> bool {
        let is_kind = |kind: &String| kind.eq_ignore_ascii_case(&change.kind);
        let is_namespace = |namespace: &String| *namespace == change.namespace;
        self.kind.as_ref().is_none_or(is_kind)
            && self.namespace.as_ref().is_none_or(is_namespace)
            && self.name.as_ref().is_none_or(|name| *name == change.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> Record {
        let change = |kind: &str, namespace: &str, name: &str| json!({"kind": kind, "namespace": namespace, "name": name, "action": "created"});
        serde_json::from_value(json!({
            "time": "2026-01-31T12:00:00.000Z", "hub": "prod", "cluster": "team-a/eu-1",
            "by": {"kind": "Kustomization", "namespace": "team-a", "name": "apps"},
            "cause": "source", "revision": "main@sha1:1",
            "commit": {"sha": "1", "author": "Ada <ada@acme.example>"},
            "changes": [change("Deployment", "shop", "web"), change("Service", "shop", "web"), change("ConfigMap", "other", "c")],
        }))
        .unwrap()
    }

    /// Returns the number of changes that a filter leaves of the record; 0 if it is not kept.
    fn left(filter: Filter) -> usize {
        let mut record = record();
        match filter.keep(&mut record) {
            true => record.changes.len(),
            false => 0,
        }
    }

    #[test]
    fn each_flag_selects() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(left(Filter::default()), 3);
        for (kind, count) in [("deployment", 1), ("ConfigMap", 1), ("Secret", 0)] {
            let kind = some(kind);
            assert_eq!(
                left(Filter {
                    kind,
                    ..Filter::default()
                }),
                count
            );
        }
        for (namespace, count) in [("shop", 2), ("other", 1), ("team-a", 0)] {
            let namespace = some(namespace);
            assert_eq!(
                left(Filter {
                    namespace,
                    ..Filter::default()
                }),
                count
            );
        }
        for (name, count) in [("web", 2), ("we", 0)] {
            let name = some(name);
            assert_eq!(
                left(Filter {
                    name,
                    ..Filter::default()
                }),
                count
            );
        }
        for (cluster, count) in [
            ("eu-1", 3),
            ("team-a/eu-1", 3),
            ("team-b/eu-1", 0),
            ("prod", 0),
        ] {
            let cluster = some(cluster);
            assert_eq!(
                left(Filter {
                    cluster,
                    ..Filter::default()
                }),
                count
            );
        }
        for (author, count) in [("ADA@acme", 3), ("bob", 0)] {
            let author = some(author);
            assert_eq!(
                left(Filter {
                    author,
                    ..Filter::default()
                }),
                count
            );
        }
        for (by, count) in [
            ("kustomization/team-a/apps", 3),
            ("HelmRelease/team-a/apps", 0),
        ] {
            let by = Some(flux_object(by).unwrap());
            assert_eq!(
                left(Filter {
                    by,
                    ..Filter::default()
                }),
                count
            );
        }
        for wrong in ["", "apps", "Deployment/a/b", "kustomization/a"] {
            assert!(flux_object(wrong).is_err(), "{wrong}");
        }
    }
}
