//! Reads the submodules from `.gitmodules`: <https://git-scm.com/docs/gitmodules>.

use crate::commit_parts::CommitParts;
use crate::error::{Error, Result};
use crate::remote::{Auth, Remote};
use driftless_manifest::TreePath;
use gix_config::File;
use gix_hash::ObjectId;

/// A submodule to read.
pub(crate) struct Submodule {
    pub remote: Remote,
    /// The path below which its files are checked out.
    pub path: TreePath,
    pub commit: ObjectId,
}

/// Returns the submodules of a commit that are in its tree and in its `.gitmodules`.
pub(crate) fn named(parent: &Remote, found: &CommitParts) -> Result<Vec<Submodule>> {
    let mut submodules = Vec::new();
    let Some(modules) = found.modules.as_ref().filter(|_| !found.links.is_empty()) else {
        return Ok(submodules);
    };
    let invalid = |reason: &str| Error::Content(format!(".gitmodules in '{}' {reason}", found.at));
    let text = std::str::from_utf8(modules).map_err(|_| invalid("is not UTF-8"))?;
    let file = File::try_from(text).map_err(|_| invalid("is not valid"))?;
    for section in file.sections_by_name("submodule").into_iter().flatten() {
        let value = |key: &str| section.value(key).map(|value| value.to_string());
        let Some(path) = value("path") else {
            continue;
        };
        let path = found.at.join(&path);
        let path = path.map_err(|error| invalid(&format!("has an invalid path: {error}")))?;
        let Some(link) = found.links.iter().find(|link| link.path == path) else {
            continue;
        };
        let Some(url) = value("url") else {
            return Err(invalid(&format!("has no url for '{path}'")));
        };
        let url = parent.url.join(&url);
        let url = url.map_err(|error| invalid(&format!("for '{path}': {error}")))?;
        let auth = match parent.url.is_same_server(&url) {
            true => parent.auth.clone(),
            false => Auth::None,
        };
        submodules.push(Submodule {
            remote: Remote {
                url,
                auth,
                network: parent.network.clone(),
                limits: parent.limits.clone(),
                plain_login: parent.plain_login,
            },
            path,
            commit: link.commit,
        });
    }
    Ok(submodules)
}
