//! The sample fleet of tests/fleet/, compiled into the binary: the demo runs in any directory, also
//! from an installed binary.

use crate::error::Error;
use std::fs;
use std::path::Path;

macro_rules! sample {
    ($($file:literal),* $(,)?) => {
        [$(($file, include_str!(concat!("../../../../tests/fleet/", $file)))),*]
    };
}

/// The path and content of each file.
const FILES: [(&str, &str); 37] = sample![
    "README.md",
    "age.agekey",
    "platform/clusters/demo/factory.yaml",
    "platform/clusters/demo/kustomization.yaml",
    "platform/clusters/production/infrastructure.yaml",
    "platform/clusters/production/tenants.yaml",
    "platform/clusters/staging/edge.yaml",
    "platform/clusters/staging/infrastructure.yaml",
    "platform/clusters/staging/tenants.yaml",
    "platform/edge/agent.yaml",
    "platform/edge/kustomization.yaml",
    "platform/edge/namespace.yaml",
    "platform/infrastructure/kustomization.yaml",
    "platform/infrastructure/priority.yaml",
    "platform/infrastructure/shared.yaml",
    "platform/infrastructure/widgets.yaml",
    "platform/tenants/base/team-a/kustomization.yaml",
    "platform/tenants/base/team-a/rbac.yaml",
    "platform/tenants/base/team-a/sync.yaml",
    "platform/tenants/base/team-b/kustomization.yaml",
    "platform/tenants/base/team-b/rbac.yaml",
    "platform/tenants/base/team-b/sync.yaml",
    "platform/tenants/production/kustomization.yaml",
    "platform/tenants/production/team-a.yaml",
    "platform/tenants/production/team-b.yaml",
    "platform/tenants/staging/kustomization.yaml",
    "platform/tenants/staging/team-a.yaml",
    "platform/tenants/staging/team-b.yaml",
    "team-a/base/kustomization.yaml",
    "team-a/base/motd.yaml",
    "team-a/base/web.yaml",
    "team-a/production/kustomization.yaml",
    "team-a/staging/database.yaml",
    "team-a/staging/kustomization.yaml",
    "team-b/README.md",
    "team-b/apps/api.yaml",
    "team-b/apps/rules/limits.yaml",
];

/// Writes the sample into a directory that does not exist yet.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path) -> Result<(), Error> {
    for (file, content) in FILES {
        let path = directory.join(file);
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, content));
        written.map_err(|error| Error::new(format!("write {}: {error}", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_harness::tools;
    use std::collections::BTreeSet;

    #[test]
    fn the_sample_has_every_file() {
        let root = tools::tests().join("fleet");
        let mut directories = vec![root.clone()];
        let mut found = BTreeSet::new();
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    found.insert(path.strip_prefix(&root).unwrap().display().to_string());
                }
            }
        }
        let have: BTreeSet<String> = FILES.iter().map(|(file, _)| (*file).to_owned()).collect();
        assert_eq!(have, found);
    }
}
