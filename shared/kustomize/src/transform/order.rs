//! The order of the output: `sortOptions`.

use crate::config::{FIRST, LAST};
use crate::error::{Error, ErrorKind};
use crate::kustomization::SortOptions;
use crate::resid::or;
use crate::resmap::ResMap;
use crate::resource::Resource;
use std::cmp::Ordering;
use std::collections::HashMap;

/// The order of the output.
pub(crate) enum Order {
    /// The order of reading.
    Fifo,
    /// By kind, with these kinds first and last.
    Legacy(HashMap<String, i64>),
}

impl Order {
    /// Returns kustomize's own order of kinds.
    pub fn legacy() -> Self {
        Self::of_kinds(FIRST.iter().copied(), LAST.iter().copied())
    }

    fn of_kinds<'k>(
        first: impl ExactSizeIterator<Item = &'k str>,
        last: impl Iterator<Item = &'k str>,
    ) -> Self {
        let count = first.len();
        let mut places = HashMap::new();
        for (at, kind) in first.enumerate() {
            places.insert(kind.to_owned(), at as i64 - count as i64);
        }
        for (at, kind) in last.enumerate() {
            places.insert(kind.to_owned(), at as i64 + 1);
        }
        Self::Legacy(places)
    }

    /// # Errors
    /// An unknown order, or options of another order.
    pub fn of_options(options: &SortOptions) -> Result<Self, Error> {
        let fault =
            |reason: &str| Err(ErrorKind::Kustomization(format!("sortOptions: {reason}")).into());
        match (options.order.as_str(), &options.legacy_sort_options) {
            ("fifo", None) => Ok(Self::Fifo),
            ("fifo", Some(_)) => fault("legacySortOptions is for order: legacy only"),
            ("legacy", None) => Ok(Self::legacy()),
            ("legacy", Some(kinds)) => Ok(Self::of_kinds(
                kinds.order_first.iter().map(String::as_str),
                kinds.order_last.iter().map(String::as_str),
            )),
            _ => fault("order must be legacy or fifo"),
        }
    }

    /// Sorts the objects.
    pub fn sort(&self, map: &mut ResMap) {
        let Self::Legacy(places) = self else { return };
        map.list_mut()
            .sort_by_cached_key(|resource| Key::new(resource, places));
    }
}

/// The sort key of an object.
#[derive(PartialEq, Eq)]
struct Key {
    place: i64,
    namespace_kind: bool,
    core: bool,
    gvk: String,
    id: String,
}

impl Key {
    fn new(resource: &Resource, places: &HashMap<String, i64>) -> Self {
        let gvk = resource.gvk();
        Self {
            place: places.get(gvk.kind).copied().unwrap_or(0),
            namespace_kind: gvk.kind == "Namespace",
            core: gvk.group.is_empty(),
            gvk: gvk.sort_key(),
            id: format!(
                "{gvk}|{}|{}",
                or(resource.namespace(), "~X"),
                or(resource.name(), "~N")
            ),
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_gvk = self.gvk.cmp(&other.gvk);
        // Namespaces of the core group come before those of any other.
        let turned = self.namespace_kind && other.namespace_kind && (self.core || other.core);
        self.place
            .cmp(&other.place)
            .then(if turned { by_gvk.reverse() } else { by_gvk })
            .then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
