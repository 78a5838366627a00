//! The URL that a clone was made from.

use driftless_source::index;
use std::path::Path;

/// Returns the URL of the remote `origin` in the directory's `.git/config`, in the form of a
/// GitRepository.
pub fn of(dir: &Path) -> Option<String> {
    let config = std::fs::read_to_string(dir.join(".git/config")).ok()?;
    let url = url(&config)?;
    index::repository(&url).is_some().then_some(url)
}

fn url(config: &str) -> Option<String> {
    let mut is_origin = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_origin = line == "[remote \"origin\"]";
        } else if let Some(("url", value)) = line
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()))
            && is_origin
        {
            return Some(with_scheme(value));
        }
    }
    None
}

/// Converts the short form of SSH, `git@HOST:PATH`, to a URL.
fn with_scheme(address: &str) -> String {
    match address.split_once(':') {
        Some((host, path)) if !address.contains("://") && !host.contains('/') => {
            format!("ssh://{host}/{}", path.trim_start_matches('/'))
        }
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_origins() {
        let config = |address: &str| {
            format!(
                "[core]\n\tbare = false\n[remote \"up\"]\n\turl = x\n[remote \"origin\"]\n\turl = {address}\n\tfetch = y\n"
            )
        };
        for (address, expected) in [
            (
                "https://github.com/acme/fleet",
                "https://github.com/acme/fleet",
            ),
            (
                "git@github.com:acme/fleet.git",
                "ssh://git@github.com/acme/fleet.git",
            ),
            (
                "ssh://git@github.com/acme/fleet",
                "ssh://git@github.com/acme/fleet",
            ),
        ] {
            assert_eq!(url(&config(address)).as_deref(), Some(expected));
        }
        assert_eq!(url("[core]\n\turl = x\n"), None);
    }
}
