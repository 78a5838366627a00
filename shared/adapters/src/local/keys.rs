//! The secret store of one machine: given secrets, and files of a directory.

use async_trait::async_trait;
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret, SecretStore};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

/// The limit of a secret in bytes; AWS Secrets Manager allows 64 KiB.
const LIMIT: u64 = 1 << 20;

/// A secret store with given secrets by name, and a directory with a file for each other secret.
#[derive(Clone, Debug, Default)]
pub struct LocalSecrets {
    given: BTreeMap<String, Secret>,
    directory: Option<PathBuf>,
}

impl LocalSecrets {
    /// Creates a store. Given secrets take precedence over the directory's. The file of
    /// `hubs/staging` is `DIRECTORY/hubs/staging`.
    pub fn new(given: BTreeMap<String, Secret>, directory: Option<PathBuf>) -> Self {
        Self { given, directory }
    }
}

#[async_trait]
impl SecretStore for LocalSecrets {
    async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        if let Some(secret) = self.given.get(name) {
            return Ok(Some(secret.clone()));
        }
        let Some(directory) = &self.directory else {
            return Ok(None);
        };
        if !name.split('/').all(is_plain) {
            return Err(PortError::new(
                ErrorKind::Invalid,
                format!("'{name}' is not a valid secret name"),
            ));
        }
        match read(directory.join(name)) {
            Ok(secret) => Ok(Some(secret)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PortError::new(
                ErrorKind::Unreadable,
                format!("read the secret '{name}' from its file: {error}"),
            )),
        }
    }
}

/// Returns whether a part of a name is safe: it does not lead up and not to a hidden file.
fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && part
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':'))
}

fn read(file: PathBuf) -> io::Result<Secret> {
    let mut content = Vec::new();
    std::fs::File::open(file)?
        .take(LIMIT + 1)
        .read_to_end(&mut content)?;
    if content.len() as u64 > LIMIT {
        return Err(io::Error::other("the secret is larger than 1 MiB"));
    }
    Ok(Secret::new(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn secrets_are_read_from_files_and_flags() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("hubs")).unwrap();
        std::fs::write(directory.path().join("hubs/staging"), "from the file").unwrap();
        std::fs::write(directory.path().join("github.token"), "").unwrap();
        let given = BTreeMap::from([("github/token".to_owned(), Secret::new("given"))]);
        let keys = LocalSecrets::new(given, Some(directory.path().to_owned()));
        let text = |secret: Option<Secret>| secret.map(|s| s.expose_str().unwrap().to_owned());
        assert_eq!(
            text(keys.secret("github/token").await.unwrap()).as_deref(),
            Some("given")
        );
        assert_eq!(
            text(keys.secret("hubs/staging").await.unwrap()).as_deref(),
            Some("from the file")
        );
        assert_eq!(text(keys.secret("hubs/production").await.unwrap()), None);
        for bad in [
            "../x",
            "hubs/../../x",
            "/etc/passwd",
            "",
            "hubs//staging",
            ".hidden",
        ] {
            assert_eq!(
                keys.secret(bad).await.unwrap_err().kind,
                ErrorKind::Invalid,
                "{bad}"
            );
        }
        // A directory is not a missing secret.
        assert_eq!(
            keys.secret("hubs").await.unwrap_err().kind,
            ErrorKind::Unreadable
        );
    }
}
