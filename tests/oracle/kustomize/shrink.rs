//! Makes a case smaller as long as a condition holds.

use crate::generate::{Case, File, Yaml};

/// Returns the smallest case for which `holds` returns true, found by removing files, documents,
/// fields and items one by one.
pub fn smallest(mut case: Case, mut holds: impl FnMut(&Case) -> bool) -> Case {
    loop {
        let before = case.clone();
        for path in case.files.keys().cloned().collect::<Vec<_>>() {
            let mut without = case.clone();
            without.files.remove(&path);
            if holds(&without) {
                case = without;
                continue;
            }
            let mut at = 0;
            while let Some(smaller) = without_part(&case, &path, at) {
                if holds(&smaller) {
                    case = smaller;
                } else {
                    at += 1;
                }
            }
        }
        if case == before {
            return case;
        }
    }
}

/// Returns the case without one part of a file; parts are counted from the outside in.
fn without_part(case: &Case, path: &str, mut at: usize) -> Option<Case> {
    let mut smaller = case.clone();
    let File::Documents(documents) = smaller.files.get_mut(path)? else {
        return None;
    };
    if at < documents.len() {
        documents.remove(at);
        return Some(smaller);
    }
    at -= documents.len();
    documents
        .iter_mut()
        .any(|document| remove(document, &mut at))
        .then_some(smaller)
}

/// Removes the part with this number from a node, or subtracts the number of the node's parts from
/// `at`.
fn remove(node: &mut Yaml, at: &mut usize) -> bool {
    match node {
        Yaml::Map(fields, _) => {
            if *at < fields.len() {
                fields.remove(*at);
                return true;
            }
            *at -= fields.len();
            fields.iter_mut().any(|(_, value)| remove(value, at))
        }
        Yaml::List(items, _) => {
            if *at < items.len() {
                items.remove(*at);
                return true;
            }
            *at -= items.len();
            items.iter_mut().any(|item| remove(item, at))
        }
        _ => false,
    }
}
