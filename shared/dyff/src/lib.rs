//! The differences of two objects in the format that `flux diff kustomization` prints: dyff's
//! report for people (dyff 1.10 as flux 2.9 calls it).
//!
//! `compare` finds the differences, `print` writes them. `tests/corpus/dyff` has recorded
//! answers. The text differs from dyff's in these shapes only:
//!
//! - Certificates in PEM are compared as text, and not by their fields.
//! - In a list of more than three maps without a usual identifier (`name`, `key`, `id`, `manager`),
//!   dyff takes any field whose values differ in all entries, another one in each run; here it is
//!   the first of them.
//! - Maps of more than twelve keys among which is a usual identifier may have their keys in another
//!   order.

mod compare;
mod line_diff;
mod node;
mod print;
mod yaml;

use crate::compare::compare;
use crate::node::Node;
use serde_json::Value;

/// Returns the differences of two objects as a report for an output of this width, in columns.
pub fn report(before: &Value, after: &Value, width: usize) -> String {
    let differences = compare(&Node::from(before), &Node::from(after));
    print::print(&differences, width)
}
