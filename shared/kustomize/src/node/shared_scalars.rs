//! Scalars that are one node in kustomize.
//!
//! When labels or annotations are added, kustomize puts one node into all the places of an object
//! that lack the key. A later change of the value in one of them, by a label of an overlay or a
//! patch, changes all of them: a label that `labels` sets without selectors reaches the selectors
//! that `commonLabels` of the base has filled.

use super::{Node, Scalar};
use crate::budget::Budget;
use crate::error::Error;
use std::collections::BTreeMap;

/// The marks and values of an object's shared scalars.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedScalars {
    last: u32,
    values: BTreeMap<u32, Scalar>,
}

impl SharedScalars {
    /// Reserves marks for new scalars; the caller passes those that are used in several places to
    /// [`SharedScalars::keep`].
    pub fn reserve(&mut self, count: usize) -> impl Iterator<Item = u32> + use<> {
        let first = self.last + 1;
        self.last = self
            .last
            .saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        first..=self.last
    }

    /// Records a mark and the value of its scalars.
    pub fn keep(&mut self, mark: u32, value: Scalar) {
        self.values.insert(mark, value);
    }

    /// Removes all marks: the object was written and read again.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// Sets all scalars of a mark to the value that one of them has received.
    ///
    /// # Errors
    /// More steps than are left.
    pub fn sync(&mut self, node: &mut Node, budget: &Budget) -> Result<(), Error> {
        if self.values.is_empty() {
            return Ok(());
        }
        budget.spend_steps(node.size())?;
        let mut changed = BTreeMap::new();
        self.find(node, &mut changed);
        if !changed.is_empty() {
            write(node, &changed, budget)?;
            self.values.extend(changed);
        }
        Ok(())
    }

    /// Collects the new values of scalars that have changed, when the changes are made one after
    /// the other, in kustomize's order. Where a patch only visited a scalar, it added quotes to the
    /// existing value and did not set a new one.
    fn find(&self, node: &Node, changed: &mut BTreeMap<u32, Scalar>) {
        match node {
            Node::Scalar(scalar) => {
                let Some(before) = self.values.get(&scalar.share) else {
                    return;
                };
                if before.is_like(scalar) {
                    return;
                }
                let now = changed
                    .entry(scalar.share)
                    .or_insert_with(|| before.clone());
                if (before.tag, &before.text) != (scalar.tag, &scalar.text) {
                    let kept = (before.style == scalar.style).then_some(now.style);
                    now.clone_from(scalar);
                    now.style = kept.unwrap_or(scalar.style);
                } else if (now.tag, &now.text) == (before.tag, &before.text) {
                    now.style = scalar.style;
                } else {
                    now.quote_if_ambiguous();
                }
            }
            Node::Seq(items) => items.iter().for_each(|item| self.find(item, changed)),
            Node::Map(map) => {
                let mut fields: Vec<_> = map.fields().iter().collect();
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                fields
                    .into_iter()
                    .for_each(|(_, value)| self.find(value, changed));
            }
        }
    }
}

fn write(node: &mut Node, changed: &BTreeMap<u32, Scalar>, budget: &Budget) -> Result<(), Error> {
    match node {
        Node::Scalar(scalar) => {
            if let Some(value) = changed.get(&scalar.share) {
                budget.spend_text(value.text.len().saturating_sub(scalar.text.len()))?;
                scalar.clone_from(value);
            }
            Ok(())
        }
        Node::Seq(items) => items
            .iter_mut()
            .try_for_each(|item| write(item, changed, budget)),
        Node::Map(map) => map
            .values_mut()
            .try_for_each(|value| write(value, changed, budget)),
    }
}

/// Removes the marks from a value that is copied to another object.
pub(crate) fn unshare(node: &mut Node) {
    match node {
        Node::Scalar(scalar) => scalar.share = 0,
        Node::Seq(items) => items.iter_mut().for_each(unshare),
        Node::Map(map) => map.values_mut().for_each(unshare),
    }
}
