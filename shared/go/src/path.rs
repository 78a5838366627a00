//! Cleaning of slash-separated paths.

/// Returns the shortest equal path: `.`, `..` and double slashes are resolved by their text. An
/// empty path becomes `.` (`path.Clean`, and `filepath.Clean` on Unix).
pub fn clean(path: &str) -> String {
    String::from_utf8_lossy(&clean_bytes(path.as_bytes())).into_owned()
}

/// Does the same as [`clean`] for a path that may not be UTF-8.
pub fn clean_bytes(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", &joined[..]].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn paths_are_cleaned_as_by_go() {
        for (path, want) in [
            ("./a.yaml", "a.yaml"),
            ("../a//b/./c", "../a/b/c"),
            ("a/../..", ".."),
            ("/../a/", "/a"),
            ("a/..", "."),
            ("/", "/"),
            ("a/../b//c/.", "b/c"),
            ("../x", "../x"),
        ] {
            assert_eq!(clean(path), want, "{path}");
        }
    }
}
