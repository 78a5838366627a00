//! Clean relative paths inside a file tree.

use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;

/// A clean path inside a [`FileTree`](crate::FileTree): relative, `/`-separated, without `.`, `..`
/// or empty parts. The root is the empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TreePath(String);

/// The error of a path that is not valid inside a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path starts with `/`.
    #[error("path '{0}' is absolute: only paths inside the repository can be read")]
    Absolute(String),
    /// The path leaves the root by `..`.
    #[error("path '{0}' leaves the repository")]
    Escapes(String),
    /// The path has a NUL byte.
    #[error("path '{0}' has a NUL byte")]
    Nul(String),
    /// The path is longer than Linux's `PATH_MAX`.
    #[error("path '{0}' is longer than {MAX_PATH} bytes")]
    TooLong(String),
}

/// The most bytes of a path. Every directory on a path is looked up, so the cost grows with the
/// square of its length.
const MAX_PATH: usize = 4_096;

/// The most bytes of a path in an error.
const SHOWN: usize = 300;

/// Shortens a path for an error.
fn shorten(path: &str) -> String {
    match path.len() > SHOWN {
        true => format!("{}...", &path[..path.floor_char_boundary(SHOWN)]),
        false => path.to_owned(),
    }
}

impl TreePath {
    /// Returns the root of the tree.
    pub fn root() -> Self {
        Self::default()
    }

    /// Cleans `text` as a path from the root (`./a//b/../c` is `a/c`).
    ///
    /// # Errors
    /// The path is absolute, leaves the root, or is too long.
    pub fn new(text: &str) -> Result<Self, PathError> {
        Self::root().join(text)
    }

    /// Resolves `relative` against this directory.
    ///
    /// # Errors
    /// The path is absolute, leaves the root, or is too long.
    pub fn join(&self, relative: &str) -> Result<Self, PathError> {
        if relative.starts_with('/') {
            return Err(PathError::Absolute(shorten(relative)));
        }
        if relative.contains('\0') {
            return Err(PathError::Nul(shorten(relative).replace('\0', "\\0")));
        }
        let mut parts: Vec<&str> = self.parts().collect();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    if parts.pop().is_none() {
                        return Err(PathError::Escapes(shorten(relative)));
                    }
                }
                name => parts.push(name),
            }
        }
        Self::of(&parts)
    }

    /// Joins parts to a path.
    fn of(parts: &[&str]) -> Result<Self, PathError> {
        let path = parts.join("/");
        match path.len() > MAX_PATH {
            true => Err(PathError::TooLong(shorten(&path))),
            false => Ok(Self(path)),
        }
    }

    /// Cleans `text` as a path that cannot leave the root: a leading `/` is the root, and `..` of
    /// the root is the root, like in Flux's SecureJoin.
    ///
    /// # Errors
    /// The path has a NUL byte, or is too long.
    pub fn secure_join(text: &str) -> Result<Self, PathError> {
        if text.contains('\0') {
            return Err(PathError::Nul(shorten(text).replace('\0', "\\0")));
        }
        let mut parts = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        Self::of(&parts)
    }

    /// Returns the parent directory; that of the root is the root.
    pub fn parent(&self) -> Self {
        Self(
            self.0
                .rsplit_once('/')
                .map_or(String::new(), |(dir, _)| dir.to_owned()),
        )
    }

    /// Returns the last part; empty for the root.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the parts, from the root down.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// Returns whether the path is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the path is `directory` or is below it.
    pub fn is_within(&self, directory: &TreePath) -> bool {
        directory.is_root()
            || self.0 == directory.0
            || self
                .0
                .strip_prefix(&directory.0)
                .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the path as a string, without a leading `./`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Orders paths by their strings.
impl Borrow<str> for TreePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}

impl TryFrom<String> for TreePath {
    type Error = PathError;
    fn try_from(text: String) -> Result<Self, PathError> {
        Self::new(&text)
    }
}

impl From<TreePath> for String {
    fn from(path: TreePath) -> String {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joined_path_is_cleaned() {
        let base = TreePath::new("clusters/staging").unwrap();
        assert_eq!(
            base.join("../base/./x//y").unwrap().as_str(),
            "clusters/base/x/y"
        );
        assert_eq!(base.join("../..").unwrap(), TreePath::root());
        assert_eq!(base.join(".").unwrap(), base);
    }

    #[test]
    fn within_the_root() {
        for (text, path) in [
            ("", "."),
            ("/", "."),
            ("..", "."),
            ("/a/./b//c/", "a/b/c"),
            ("../../a/../b", "b"),
            ("a/../../../etc", "etc"),
        ] {
            assert_eq!(
                TreePath::secure_join(text).unwrap().to_string(),
                path,
                "{text}"
            );
        }
        assert!(TreePath::secure_join("a/\0").is_err());
    }

    /// Joining each part took time with the square of the length.
    #[test]
    fn long_paths_are_refused_in_linear_time() {
        let refused = PathError::TooLong(format!("{}...", "a/".repeat(150)));
        let deep = "a/".repeat(1 << 20);
        assert_eq!(TreePath::new(&deep), Err(refused.clone()));
        assert_eq!(TreePath::secure_join(&deep), Err(refused));
        // A path that is long only before it is cleaned is valid.
        let around = "a/../".repeat(1 << 20);
        assert_eq!(TreePath::new(&around), Ok(TreePath::root()));
        assert_eq!(TreePath::secure_join(&around), Ok(TreePath::root()));
        let longest = "a/".repeat(MAX_PATH / 2);
        assert_eq!(
            TreePath::new(&longest).unwrap().as_str().len(),
            MAX_PATH - 1
        );
        let climbs = format!("{}x", "../".repeat(1 << 20));
        let message = TreePath::new(&climbs).unwrap_err().to_string();
        assert!(message.len() < 400, "{message}");
    }

    #[test]
    fn a_joined_path_cannot_leave_the_root() {
        let base = TreePath::new("a").unwrap();
        assert_eq!(
            base.join("../../x"),
            Err(PathError::Escapes("../../x".into()))
        );
        assert_eq!(
            base.join("/etc/passwd"),
            Err(PathError::Absolute("/etc/passwd".into()))
        );
        assert!(!TreePath::new("ab").unwrap().is_within(&base));
        assert!(TreePath::new("a/b").unwrap().is_within(&base));
    }
}
