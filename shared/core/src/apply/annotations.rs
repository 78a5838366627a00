//! What an object wishes for itself. Each wish may be a label or an annotation, and its value in any case.

use driftless_manifest::Object;

const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// How an object is applied (`kustomize.toolkit.fluxcd.io/ssa`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ssa {
    /// Fields of kubectl are taken over. The default.
    #[default]
    Override,
    /// Fields of others stay theirs.
    Merge,
    /// Only created, never changed.
    IfNotPresent,
    /// Neither created, changed nor deleted.
    Ignore,
}

/// All wishes of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// `ssa`.
    pub ssa: Ssa,
    /// `force: Enabled`: recreated when a field cannot be changed.
    pub force: bool,
    /// `prune: Disabled`: never deleted.
    pub prune_disabled: bool,
    /// `reconcile: Disabled`: neither applied nor deleted, also when it stands only on the live object.
    pub reconcile_disabled: bool,
}

/// Why an object is not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// `reconcile: Disabled`, here or on the live object.
    Reconcile,
    /// `ssa: Ignore`, here or on the live object.
    Ignore,
    /// `ssa: IfNotPresent`, and it is present.
    Present,
}

impl Policy {
    /// Reads the wishes of an object, desired or live. An unknown value counts as none.
    pub fn of(object: &Object) -> Self {
        let says = |key: &str, value: &str| says(object, key, value);
        // A label and an annotation may differ: Flux asks for each value on its own, and leaving alone wins.
        let ssa = if says("ssa", "Ignore") {
            Ssa::Ignore
        } else if says("ssa", "IfNotPresent") {
            Ssa::IfNotPresent
        } else if says("ssa", "Merge") {
            Ssa::Merge
        } else {
            Ssa::Override
        };
        Self {
            ssa,
            force: says("force", "Enabled"),
            prune_disabled: says("prune", "Disabled"),
            reconcile_disabled: says("reconcile", "Disabled"),
        }
    }

    /// Whether the live object must be known before anything is sent.
    pub fn needs_live(&self) -> bool {
        self.ssa != Ssa::Override
    }

    /// Why the object is not applied, if it is not.
    pub fn skip(&self, live: Option<&Object>) -> Option<Skip> {
        let there = live.map(Self::of);
        if self.reconcile_disabled || there.is_some_and(|live| live.reconcile_disabled) {
            Some(Skip::Reconcile)
        } else if self.ssa == Ssa::Ignore || there.is_some_and(|live| live.ssa == Ssa::Ignore) {
            Some(Skip::Ignore)
        } else if self.ssa == Ssa::IfNotPresent && live.is_some() {
            Some(Skip::Present)
        } else {
            None
        }
    }

    /// Whether other managers' fields are taken over: not when the object or the live one says `ssa: Merge`.
    pub fn takes_over(&self, live: &Object) -> bool {
        self.ssa != Ssa::Merge && Self::of(live).ssa != Ssa::Merge
    }

    /// Whether an unchangeable field makes a new object, if the Kustomization itself does not say so.
    pub fn recreates(&self, live: Option<&Object>) -> bool {
        self.force || live.is_some_and(|live| Self::of(live).force)
    }

    /// For a live object: whether it stays although nothing renders it any more.
    pub fn keeps(&self) -> bool {
        self.prune_disabled || self.reconcile_disabled || self.ssa == Ssa::Ignore
    }
}

fn says(object: &Object, key: &str, value: &str) -> bool {
    let key = format!("{GROUP}/{key}");
    [object.label(&key), object.annotation(&key)]
        .into_iter()
        .flatten()
        .any(|found| found.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(field: &str, key: &str, value: &str) -> Object {
        let key = format!("{GROUP}/{key}");
        Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", field: {key: value}}})).unwrap()
    }

    #[test]
    fn labels_and_annotations_in_any_case() {
        for (field, value, expected) in [
            ("labels", "ignore", Ssa::Ignore),
            ("annotations", "IGNORE", Ssa::Ignore),
            ("annotations", "ifnotpresent", Ssa::IfNotPresent),
            ("labels", "Merge", Ssa::Merge),
            ("annotations", "Override", Ssa::Override),
            ("annotations", "nonsense", Ssa::Override),
        ] {
            assert_eq!(
                Policy::of(&object(field, "ssa", value)).ssa,
                expected,
                "{field} {value}"
            );
        }
        assert!(Policy::of(&object("labels", "prune", "disabled")).keeps());
        assert!(Policy::of(&object("annotations", "reconcile", "disabled")).keeps());
        assert!(Policy::of(&object("annotations", "ssa", "ignore")).keeps());
        assert!(!Policy::of(&object("annotations", "prune", "enabled")).keeps());
    }

    #[test]
    fn the_live_object_has_a_say() {
        let plain = object("labels", "x", "y");
        let skip = |desired: &Object, live: Option<&Object>| Policy::of(desired).skip(live);
        assert_eq!(skip(&plain, Some(&plain)), None);
        assert_eq!(
            skip(
                &plain,
                Some(&object("annotations", "reconcile", "disabled"))
            ),
            Some(Skip::Reconcile)
        );
        assert_eq!(
            skip(&plain, Some(&object("labels", "ssa", "Ignore"))),
            Some(Skip::Ignore)
        );
        let once = object("annotations", "ssa", "IfNotPresent");
        assert_eq!(skip(&once, None), None);
        assert_eq!(skip(&once, Some(&plain)), Some(Skip::Present));
        assert_eq!(skip(&plain, Some(&once)), None);
        assert!(!Policy::of(&plain).takes_over(&object("annotations", "ssa", "merge")));
        assert!(Policy::of(&plain).recreates(Some(&object("annotations", "force", "enabled"))));
    }
}
