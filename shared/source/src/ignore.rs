//! `.sourceignore`: the files that are excluded from an artifact, as in source-controller 1.9.

use driftless_fuel::{Fuel, FuelLimits, OutOfFuel, Tank};
use driftless_manifest::{FileTree, TreePath};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The name of a file with patterns.
pub const FILE: &str = ".sourceignore";

/// The name of the object's own patterns in messages.
pub const SPEC: &str = "spec.ignore";

/// The default patterns, which later patterns can override (`sourceignore.VCSPatterns` and
/// `DefaultPatterns`).
const DEFAULTS: &[&str] = &[
    ".git/",
    ".gitignore",
    ".gitmodules",
    ".gitattributes",
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.png",
    "*.wmv",
    "*.flv",
    "*.tar.gz",
    "*.zip",
    ".github/",
    ".circleci/",
    ".travis.yml",
    ".gitlab-ci.yml",
    "appveyor.yml",
    ".drone.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
    "**/.goreleaser.yml",
    "**/.sops.yaml",
    "**/.flux.yaml",
];

/// Maximum number of patterns of one source.
const MAX_PATTERNS: usize = 2_000;

/// The ceilings of the patterns of one source.
const CEILINGS: FuelLimits = FuelLimits {
    steps: 60_000_000,
    ..FuelLimits::NONE
};

/// The steps of matching one directory or file of a path with one pattern.
const STEPS_PER_MATCH: usize = 2;

/// An error about the patterns of a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoreError {
    /// A pattern is not valid, or there are too many.
    #[error("{place}: '{pattern}' is not a valid ignore pattern: {reason}")]
    Pattern {
        /// The path of the file with the pattern, or `spec.ignore`.
        place: String,
        /// The line of the pattern.
        pattern: String,
        /// The reason why the pattern is not valid.
        reason: String,
    },
    /// Matching the patterns with the files needs too much work.
    #[error("matching the ignore patterns with the files needs {0}: use fewer patterns")]
    Fuel(#[from] OutOfFuel),
}

/// One pattern and the directory that it applies to.
struct Pattern {
    directory: TreePath,
    matcher: Gitignore,
}

/// The patterns of one source. As in go-git's matcher, the last pattern that matches a file or a
/// directory above it decides; so a file in an excluded directory can be included again.
#[derive(Default)]
pub struct Patterns(Vec<Pattern>);

/// Returns the fuel for the patterns of one source: see [`Patterns::excludes`].
pub fn fuel(step: &Tank) -> Fuel {
    step.part(CEILINGS)
}

impl Patterns {
    /// Adds the lines of a file, or of `spec.ignore`, for the paths below `directory`. `place` is
    /// their name in messages.
    ///
    /// # Errors
    /// A pattern is not valid, or there are too many.
    pub fn add<'a>(
        &mut self,
        directory: &TreePath,
        place: &str,
        lines: impl Iterator<Item = &'a str>,
    ) -> Result<(), IgnoreError> {
        for line in lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let bad = |reason: String| IgnoreError::Pattern {
                place: place.to_owned(),
                pattern: line.to_owned(),
                reason,
            };
            if self.0.len() >= MAX_PATTERNS {
                return Err(bad(format!(
                    "more than {MAX_PATTERNS} patterns in one source"
                )));
            }
            let mut builder = GitignoreBuilder::new("");
            builder
                .add_line(None, line)
                .map_err(|error| bad(error.to_string()))?;
            let matcher = builder.build().map_err(|error| bad(error.to_string()))?;
            self.0.push(Pattern {
                directory: directory.clone(),
                matcher,
            });
        }
        Ok(())
    }

    /// Returns whether a file is excluded.
    ///
    /// # Errors
    /// The fuel has run out.
    pub fn excludes(&self, path: &TreePath, fuel: &Fuel) -> Result<bool, OutOfFuel> {
        let steps = path.parts().count() * STEPS_PER_MATCH;
        for pattern in self.0.iter().rev() {
            fuel.steps(1)?;
            if !path.is_within(&pattern.directory) {
                continue;
            }
            fuel.steps(steps)?;
            let skip = if pattern.directory.is_root() {
                0
            } else {
                pattern.directory.as_str().len() + 1
            };
            let matched = pattern
                .matcher
                .matched_path_or_any_parents(&path.as_str()[skip..], false);
            if !matched.is_none() {
                return Ok(matched.is_ignore());
            }
        }
        Ok(false)
    }

    /// Removes the files that are excluded.
    ///
    /// # Errors
    /// The fuel has run out.
    fn remove_from(&self, tree: &mut FileTree, step: &Tank) -> Result<(), IgnoreError> {
        let fuel = fuel(step);
        let mut done = Ok(());
        tree.retain(|path| match self.excludes(path, &fuel) {
            Ok(is_excluded) => !is_excluded,
            Err(out) => {
                done = Err(out);
                true
            }
        });
        Ok(done?)
    }
}

/// Removes the files that are excluded by the defaults.
///
/// # Errors
/// The fuel of the step has run out.
pub fn apply_defaults(tree: &mut FileTree, step: &Tank) -> Result<(), IgnoreError> {
    defaults()?.remove_from(tree, step)
}

fn defaults() -> Result<Patterns, IgnoreError> {
    let mut patterns = Patterns::default();
    let lines = DEFAULTS.iter().copied();
    patterns.add(&TreePath::root(), "defaults", lines)?;
    Ok(patterns)
}

/// Removes the files that are excluded by the defaults, then every `.sourceignore` from the root
/// down, then `spec.ignore`.
///
/// # Errors
/// The same as [`Patterns::add`], and the fuel of the step has run out.
pub fn apply(
    tree: &mut FileTree,
    spec_ignore: Option<&str>,
    step: &Tank,
) -> Result<(), IgnoreError> {
    let mut patterns = defaults()?;
    let root = TreePath::root();
    let mut files: Vec<&TreePath> = tree
        .index()
        .iter()
        .map(|(path, _)| path)
        .filter(|path| path.file_name() == FILE)
        .collect();
    files.sort_by_key(|path| path.parts().count());
    for path in files {
        let content = tree
            .content(path)
            .map(|bytes| String::from_utf8_lossy(bytes))
            .unwrap_or_default();
        patterns.add(&path.parent(), path.as_str(), content.lines())?;
    }
    patterns.add(&root, SPEC, spec_ignore.unwrap_or_default().lines())?;
    patterns.remove_from(tree, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(files: &[(&str, &str)], spec: Option<&str>) -> Vec<String> {
        let mut tree = FileTree::from_files(files.iter().copied()).unwrap();
        apply(&mut tree, spec, &Tank::default()).unwrap();
        tree.index()
            .iter()
            .map(|(path, _)| path.as_str().to_owned())
            .collect()
    }

    #[test]
    fn defaults_files_and_the_object() {
        let files = [
            (".github/ci.yaml", ""),
            (".gitignore", ""),
            ("apps/a.yaml", ""),
            ("apps/logo.png", ""),
            ("docs/guide.md", ""),
            ("docs/keep.md", ""),
        ];
        assert_eq!(
            left(&files, None),
            ["apps/a.yaml", "docs/guide.md", "docs/keep.md"]
        );
        assert_eq!(
            left(&files, Some("/*\n!/apps")),
            ["apps/a.yaml", "apps/logo.png"]
        );
        assert_eq!(
            left(&files, Some("docs/\n!docs/keep.md")),
            ["apps/a.yaml", "docs/keep.md"]
        );
        assert_eq!(left(&files, Some("!docs/keep.md\ndocs/")), ["apps/a.yaml"]);
        let with_file = [
            &files[..],
            &[
                (".sourceignore", "docs/*\n!docs/keep.md\n"),
                ("apps/.sourceignore", "a.yaml"),
            ],
        ]
        .concat();
        assert_eq!(
            left(&with_file, None),
            [".sourceignore", "apps/.sourceignore", "docs/keep.md"]
        );
    }

    #[test]
    fn patterns_that_need_more_than_the_fuel_of_the_step_are_refused() {
        let files: Vec<(String, &str)> = (0..100).map(|n| (format!("a/b/{n}.yaml"), "")).collect();
        let patterns: String = (0..100).map(|n| format!("no-{n}\n")).collect();
        let tree = || {
            FileTree::from_files(files.iter().map(|(path, text)| (path.as_str(), *text))).unwrap()
        };
        let step = |steps| {
            Tank::new(FuelLimits {
                steps,
                ..FuelLimits::NONE
            })
        };
        let enough = step(200_000);
        apply(&mut tree(), Some(&patterns), &enough).unwrap();
        assert!(enough.left().steps > 0);
        let error = apply(&mut tree(), Some(&patterns), &step(10_000)).unwrap_err();
        assert!(matches!(error, IgnoreError::Fuel(_)), "{error}");
        assert!(
            error.to_string().contains("more than 10000 steps"),
            "{error}"
        );
    }
}
