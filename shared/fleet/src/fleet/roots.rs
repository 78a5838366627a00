//! Finds the roots of a fleet: the directories that no Kustomization applies.

use driftless_manifest::TreePath;
use std::collections::BTreeSet;

/// Returns the directories that contain Kustomizations and that nothing else includes. Each way is
/// the file of a Kustomization and the directory in its path; `used` are the directories that
/// `kustomization.yaml` files include.
pub fn of(ways: &[(TreePath, TreePath)], used: &BTreeSet<TreePath>) -> Vec<TreePath> {
    let mut directories = BTreeSet::new();
    for (file, path) in ways {
        // The root of a Kustomization that applies itself is its path.
        let directory = if file.is_within(path) {
            path.clone()
        } else {
            file.parent()
        };
        if !file.parts().any(|part| part.starts_with('.')) {
            directories.insert(directory);
        }
    }
    let is_led_to = |directory: &TreePath| {
        let leads = |(file, path): &(TreePath, TreePath)| {
            directory.is_within(path) && !file.is_within(directory)
        };
        ways.iter().any(leads) || used.contains(directory)
    };
    let mut roots: Vec<TreePath> = Vec::new();
    for directory in &directories {
        let is_below = roots.iter().any(|root| directory.is_within(root));
        if !is_below && !is_led_to(directory) {
            roots.push(directory.clone());
        }
    }
    roots
}

/// Returns the roots if they must be the hubs: a single root, or one for each cluster that differs
/// in one part of the path.
pub fn unambiguous(roots: &[TreePath]) -> Vec<TreePath> {
    let parts = |root: &TreePath| root.parts().map(str::to_owned).collect::<Vec<_>>();
    let Some(first) = roots.first().map(parts) else {
        return Vec::new();
    };
    let differs = |root: &TreePath| {
        let other = parts(root);
        let places = first.iter().zip(&other).enumerate();
        let places = places.filter(|(_, (a, b))| a != b).map(|(at, _)| at);
        (other.len() == first.len()).then(|| places.collect::<Vec<_>>())
    };
    let others: Option<BTreeSet<Vec<usize>>> = roots.iter().skip(1).map(differs).collect();
    match others {
        Some(places) if places.len() <= 1 && places.iter().all(|place| place.len() == 1) => {
            roots.to_vec()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(ways: &[(&str, &str)], used: &[&str]) -> (Vec<String>, usize) {
        let path = |text: &str| TreePath::new(text).unwrap();
        let ways: Vec<_> = ways
            .iter()
            .map(|(file, directory)| (path(file), path(directory)))
            .collect();
        let used = used.iter().map(|directory| path(directory)).collect();
        let roots = of(&ways, &used);
        let hubs = unambiguous(&roots).len();
        (roots.iter().map(ToString::to_string).collect(), hubs)
    }

    #[test]
    fn roots_are_directories_that_nothing_includes() {
        let apps = ("kubernetes/apps/web/ks.yaml", "kubernetes/apps/web/app");
        let cluster = ("kubernetes/flux/cluster/ks.yaml", "kubernetes/apps");
        let (found, hubs) = roots(&[apps, cluster], &[]);
        assert_eq!((found, hubs), (vec!["kubernetes/flux/cluster".into()], 1));

        let own = ("kubernetes/flux/config/cluster.yaml", "kubernetes/flux");
        let sync = ("kubernetes/flux/apps.yaml", "kubernetes/apps");
        let archived = (".archive/web/ks.yaml", "kubernetes/apps/web");
        let (found, hubs) = roots(&[apps, own, sync, archived], &[]);
        assert_eq!((found, hubs), (vec!["kubernetes/flux".into()], 1));

        let east = ("sites/east/flux/apps.yaml", "apps");
        let west = ("sites/west/flux/apps.yaml", "apps");
        let (found, hubs) = roots(&[east, west], &[]);
        assert_eq!((found.len(), hubs), (2, 2));
        let lab = ("lab/apps.yaml", "apps");
        let (found, hubs) = roots(&[east, west, lab], &[]);
        assert_eq!((found.len(), hubs), (3, 0));
        let (found, hubs) = roots(&[east, lab], &["lab"]);
        assert_eq!((found, hubs), (vec!["sites/east/flux".into()], 1));
    }
}
