//! Apply options that an object sets by labels or annotations. Their values are case-insensitive.

use driftless_manifest::Object;

const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// The mode in which an object is applied (`kustomize.toolkit.fluxcd.io/ssa`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ssa {
    /// Takes over the fields of kubectl. The default.
    #[default]
    Override,
    /// Leaves fields of other managers to them.
    Merge,
    /// Only creates the object and never changes it.
    IfNotPresent,
    /// Does not create, change or delete the object.
    Ignore,
}

/// All apply options of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// The value of `ssa`.
    pub ssa: Ssa,
    /// True for `force: Enabled`: the object is recreated if an immutable field changes.
    pub force: bool,
    /// True for `prune: Disabled`: the object is never deleted.
    pub prune_disabled: bool,
    /// True for `reconcile: Disabled`: the object is not applied and not deleted, even if only the
    /// live object has the option.
    pub reconcile_disabled: bool,
}

/// The reason that an object is not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// `reconcile: Disabled` on the desired or the live object.
    Reconcile,
    /// `ssa: Ignore` on the desired or the live object.
    Ignore,
    /// `ssa: IfNotPresent`, and the object exists.
    Present,
}

impl Policy {
    /// Reads the options of a desired or live object. An unknown value counts as unset.
    pub fn of(object: &Object) -> Self {
        let has = |key: &str, value: &str| has(object, key, value);
        // A label and an annotation may differ: Flux checks for each value separately, and the more
        // cautious one wins.
        let ssa = if has("ssa", "Ignore") {
            Ssa::Ignore
        } else if has("ssa", "IfNotPresent") {
            Ssa::IfNotPresent
        } else if has("ssa", "Merge") {
            Ssa::Merge
        } else {
            Ssa::Override
        };
        Self {
            ssa,
            force: has("force", "Enabled"),
            prune_disabled: has("prune", "Disabled"),
            reconcile_disabled: has("reconcile", "Disabled"),
        }
    }

    /// Checks whether the live object must be read before the apply.
    pub fn needs_live(&self) -> bool {
        self.ssa != Ssa::Override
    }

    /// Returns why the object is not applied, or `None` if it is applied.
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

    /// Checks whether other managers' fields are taken over: not if the desired or the live object
    /// has `ssa: Merge`.
    pub fn takes_over(&self, live: &Object) -> bool {
        self.ssa != Ssa::Merge && Self::of(live).ssa != Ssa::Merge
    }

    /// Checks whether the object is recreated if an immutable field changes, in addition to the
    /// option of the Kustomization.
    pub fn recreates(&self, live: Option<&Object>) -> bool {
        self.force || live.is_some_and(|live| Self::of(live).force)
    }

    /// Checks whether a live object stays although it is no longer rendered.
    pub fn keeps(&self) -> bool {
        self.prune_disabled || self.reconcile_disabled || self.ssa == Ssa::Ignore
    }
}

fn has(object: &Object, key: &str, value: &str) -> bool {
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
    fn options_of_the_live_object_count() {
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
