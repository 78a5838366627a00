//! The records and changes that are printed.

use driftless_flux::{FluxKind, Invalid, ObjectRef};
use driftless_kernel::audit::{Change, Record};

/// Parses `KIND/NAMESPACE/NAME`, with the kind in any case.
///
/// # Errors
/// The text has another form, or the kind is not one of Flux.
fn flux_object(text: &str) -> Result<ObjectRef, Invalid> {
    let expected =
        || Invalid::from("expected KIND/NAMESPACE/NAME, such as Kustomization/team-a/apps");
    let parts: Vec<&str> = text.split('/').collect();
    let [kind, namespace, name] = parts[..] else {
        return Err(expected());
    };
    let mut kinds = FluxKind::ALL.into_iter();
    let kind = kinds.find(|known| known.as_str().eq_ignore_ascii_case(kind));
    let kind = kind.ok_or_else(expected)?;
    Ok(ObjectRef::new(kind, namespace, name))
}

/// The flags that select records and changes. One that is absent selects all.
#[derive(Default, clap::Args)]
pub struct Filter {
    /// Only changes on this cluster: a hub, or [NAMESPACE/]NAME of the kubeconfig of a remote one
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only changes of objects of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only changes of objects in this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only changes of objects with this name
    #[arg(long)]
    name: Option<String>,
    /// Only changes by this Flux object
    #[arg(long, value_name = "KIND/NAMESPACE/NAME", value_parser = flux_object)]
    by: Option<ObjectRef>,
    /// Only changes of commits whose author contains this text, in any case
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
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
            && self.by.as_ref().is_none_or(|by| *by == record.by)
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

    /// Checks how many changes each value of a flag leaves.
    fn check<const N: usize>(set: fn(&mut Filter, &str), expected: [(&str, usize); N]) {
        for (value, count) in expected {
            let mut filter = Filter::default();
            set(&mut filter, value);
            assert_eq!(left(filter), count, "{value}");
        }
    }

    #[test]
    fn each_flag_selects() {
        assert_eq!(left(Filter::default()), 3);
        check(
            |filter, kind| filter.kind = Some(kind.to_owned()),
            [("deployment", 1), ("ConfigMap", 1), ("Secret", 0)],
        );
        check(
            |filter, namespace| filter.namespace = Some(namespace.to_owned()),
            [("shop", 2), ("other", 1), ("team-a", 0)],
        );
        check(
            |filter, name| filter.name = Some(name.to_owned()),
            [("web", 2), ("we", 0)],
        );
        check(
            |filter, cluster| filter.cluster = Some(cluster.to_owned()),
            [
                ("eu-1", 3),
                ("team-a/eu-1", 3),
                ("team-b/eu-1", 0),
                ("prod", 0),
            ],
        );
        check(
            |filter, author| filter.author = Some(author.to_owned()),
            [("ADA@acme", 3), ("bob", 0)],
        );
        check(
            |filter, by| filter.by = Some(flux_object(by).unwrap()),
            [
                ("kustomization/team-a/apps", 3),
                ("HelmRelease/team-a/apps", 0),
            ],
        );
        for wrong in ["", "apps", "Deployment/a/b", "kustomization/a"] {
            assert!(flux_object(wrong).is_err(), "{wrong}");
        }
    }
}
