//! Makes a case smaller as long as a condition holds.

use crate::generate::Case;

/// Returns the smallest case for which `holds` returns true, found by removing files, flags and
/// lines: many at first, then one by one.
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
            let text = case.files[&path].clone();
            let smaller = lines(&text, |text| {
                let mut with = case.clone();
                with.files.insert(path.clone(), text.to_owned());
                holds(&with)
            });
            case.files.insert(path, smaller);
        }
        for at in (0..case.set.len()).rev() {
            let mut without = case.clone();
            without.set.remove(at);
            if holds(&without) {
                case = without;
            }
        }
        for at in (0..case.values.len()).rev() {
            let mut without = case.clone();
            without.values.remove(at);
            if holds(&without) {
                case = without;
                continue;
            }
            let text = case.values[at].clone();
            case.values[at] = lines(&text, |text| {
                let mut with = case.clone();
                with.values[at] = text.to_owned();
                holds(&with)
            });
        }
        if case == before {
            return case;
        }
    }
}

/// Removes the lines that are not needed from a file.
fn lines(text: &str, mut holds: impl FnMut(&str) -> bool) -> String {
    let mut kept: Vec<&str> = text.split_inclusive('\n').collect();
    let mut size = kept.len();
    while size > 0 {
        let mut at = 0;
        while at < kept.len() {
            let mut without = kept.clone();
            without.drain(at..kept.len().min(at + size));
            if holds(&without.concat()) {
                kept = without;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    kept.concat()
}
