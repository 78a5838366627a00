//! Patterns of files as Go's `fs.Glob` and `path.Match` match them: `**` is the same as `*`.

use super::{Budget, Source};
use driftless_flux::Invalid;
use driftless_go::glob::{Glob, has_meta};

/// The message of Go for a pattern that is not valid.
pub const BAD_PATTERN: &str = "syntax error in pattern";

/// Returns whether a pattern of `from` is more than one path.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', ']'])
}

/// Returns the paths that match, in the order of directories and names.
///
/// # Errors
/// The pattern is not valid, or the budget is used up.
pub fn glob(source: &Source, pattern: &str, budget: &mut Budget) -> Result<Vec<String>, Invalid> {
    parse(pattern)?;
    if !has_meta(pattern) {
        let found = source.kind(pattern).map(|_| pattern.to_owned());
        return Ok(found.into_iter().collect());
    }
    let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
    let directories = match has_meta(directory) {
        true => glob(source, directory, budget)?,
        false => vec![directory.to_owned()],
    };
    let name = parse(name)?;
    let mut found = Vec::new();
    for directory in directories {
        for child in source.children(&directory) {
            budget.spend(1)?;
            if name.matches_within(child, || budget.spend(1))? {
                found.push(match directory.as_str() {
                    "." => child.clone(),
                    directory => format!("{directory}/{child}"),
                });
            }
        }
    }
    Ok(found)
}

fn parse(pattern: &str) -> Result<Glob, Invalid> {
    Glob::new(pattern).ok_or_else(|| BAD_PATTERN.into())
}
