//! Finds the hubs of a fleet repository, and the repository's own address, in its files.

use super::HubPlan;
use super::build_files::entries;
use super::roots;
use driftless_kustomize::FILE_NAMES;
use driftless_manifest::yaml::{self, Limits, Node};
use driftless_manifest::{FileTree, TreePath};
use driftless_source::index;
use std::collections::{BTreeMap, BTreeSet};

/// The file that `flux bootstrap` writes into a hub's directory.
const SYNC: &str = "gotk-sync.yaml";
/// The directory of hubs by convention, if no such file names one.
const CLUSTERS: &str = "clusters";
const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io/";
const SOURCE: &str = "source.toolkit.fluxcd.io/";
/// The common suffix of Flux's API groups.
const TOOLKIT: &str = ".toolkit.fluxcd.io/";
const OPERATOR: &str = "fluxcd.controlplane.io/";
const FLUX_SYSTEM: &str = "flux-system";

/// The hubs and addresses that the files define.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FleetFacts {
    /// The directories that are hubs.
    pub hubs: Vec<TreePath>,
    /// The repository's own address and branch.
    pub origin: Option<(String, String)>,
    /// The address of the OCI artifact that hubs follow instead of the repository.
    pub artifact: Option<String>,
}

/// The source of a FluxInstance.
enum Sync {
    /// The URL and branch of a repository.
    Git(String, String),
    /// The URL of an OCI artifact.
    Artifact(String),
}

/// The documents of every valid YAML file. Invalid files are reported by the build that reads them.
pub struct Documents<'t> {
    tree: &'t FileTree,
    by_file: BTreeMap<TreePath, Vec<Node>>,
    /// Files that are not valid YAML and mention Flux's API groups.
    broken: BTreeSet<TreePath>,
}

impl<'t> Documents<'t> {
    /// Reads the YAML files of a tree.
    pub fn of(tree: &'t FileTree) -> Self {
        let (mut by_file, mut broken) = (BTreeMap::new(), BTreeSet::new());
        for (path, _) in tree.index().iter() {
            let name = path.file_name();
            let is_yaml =
                name.ends_with(".yaml") || name.ends_with(".yml") || FILE_NAMES.contains(&name);
            let Some(content) = tree.content(path).filter(|_| is_yaml) else {
                continue;
            };
            match yaml::parse(content, path.as_str(), &Limits::default()) {
                Ok(documents) => {
                    by_file.insert(path.clone(), documents);
                }
                Err(_) if String::from_utf8_lossy(content).contains(TOOLKIT) => {
                    broken.insert(path.clone());
                }
                Err(_) => {}
            }
        }
        Self {
            tree,
            by_file,
            broken,
        }
    }

    /// Returns the tree that the documents were read from.
    pub fn tree(&self) -> &'t FileTree {
        self.tree
    }

    /// Checks whether a GitRepository has the repository at this URL.
    pub fn has_source(&self, url: &str) -> bool {
        let repository = index::repository(url);
        self.sources()
            .any(|(_, other, _)| index::repository(&other) == repository)
    }

    /// Returns the hubs and the repository's address.
    pub fn find(&self) -> FleetFacts {
        let mut found = FleetFacts::default();
        for (file, documents) in &self.by_file {
            if file.file_name() == SYNC {
                found.hubs.push(self.bootstrapped(file, documents));
                found.origin = found.origin.or_else(|| {
                    self.sources()
                        .find(|source| source.0 == FLUX_SYSTEM)
                        .map(|source| (source.1, source.2))
                });
            }
        }
        for (path, sync) in self.instances() {
            if !found.hubs.iter().any(|hub| hub.is_within(&path)) {
                found.hubs.push(path);
            }
            match sync {
                Sync::Git(url, branch) => found.origin = found.origin.or(Some((url, branch))),
                Sync::Artifact(url) => found.artifact = found.artifact.or(Some(url)),
            }
        }
        let others = self.conventional_hubs(&found.hubs);
        found.hubs.extend(others);
        if found.hubs.is_empty() {
            found.hubs = roots::unambiguous(&self.roots());
        }
        found.hubs.sort();
        found.hubs.dedup();
        found.origin = found.origin.or_else(|| self.guess());
        found
    }

    /// Returns subdirectories of a hub that its kustomization does not include and that have
    /// Kustomizations: roots that another team manages on the same hub.
    pub fn left_out(&self, hub: &TreePath) -> Vec<TreePath> {
        if !self.has_kustomization(hub) {
            return Vec::new();
        }
        let used = self.used();
        let below = self
            .directories()
            .into_iter()
            .filter(|directory| directory != hub && directory.is_within(hub));
        let own = below
            .filter(|directory| self.has_kustomization(directory) && !used.contains(directory));
        own.filter(|directory| self.is_flux(directory)).collect()
    }

    /// Returns the path of a `gotk-sync.yaml`, by default the parent of its directory.
    fn bootstrapped(&self, file: &TreePath, documents: &[Node]) -> TreePath {
        let paths = documents
            .iter()
            .filter(|document| is(document, KUSTOMIZE, "Kustomization"));
        let path = paths
            .filter_map(|document| text(document, &["spec", "path"]))
            .next();
        let path = path.and_then(|path| TreePath::new(path).ok());
        path.unwrap_or_else(|| file.parent().parent())
    }

    /// Returns the subdirectories of `clusters/` that no other kustomization includes.
    fn conventional_hubs(&self, known: &[TreePath]) -> Vec<TreePath> {
        let used = self.used();
        let Ok(clusters) = TreePath::new(CLUSTERS) else {
            return Vec::new();
        };
        let children = self.tree.index().children(&clusters).into_iter();
        let directories = children.filter(|(_, is_dir)| *is_dir);
        let directories = directories.filter_map(|(name, _)| clusters.join(&name).ok());
        let is_new = |directory: &TreePath| !known.iter().any(|hub| hub.is_within(directory));
        let is_hub = |directory: &TreePath| {
            is_new(directory) && !used.contains(directory) && self.is_flux(directory)
        };
        directories.filter(is_hub).collect()
    }

    /// Checks whether a directory or a subdirectory contains a Flux object.
    fn is_flux(&self, directory: &TreePath) -> bool {
        if self.broken.iter().any(|file| file.is_within(directory)) {
            return true;
        }
        let mut files = self
            .by_file
            .iter()
            .filter(|(file, _)| file.is_within(directory));
        files.any(|(_, documents)| {
            documents
                .iter()
                .any(|document| is(document, KUSTOMIZE, "") || is(document, SOURCE, ""))
        })
    }

    fn has_kustomization(&self, directory: &TreePath) -> bool {
        FILE_NAMES.iter().any(|name| {
            directory
                .join(name)
                .is_ok_and(|file| self.tree.index().get(&file).is_some())
        })
    }

    fn directories(&self) -> BTreeSet<TreePath> {
        self.by_file.keys().map(TreePath::parent).collect()
    }

    /// Returns the directories that kustomizations include.
    fn used(&self) -> BTreeSet<TreePath> {
        let mut used = BTreeSet::new();
        for (file, documents) in &self.by_file {
            if FILE_NAMES.contains(&file.file_name()) {
                let entries = documents.iter().flat_map(entries);
                used.extend(entries.filter_map(|entry| file.parent().join(entry).ok()));
            }
        }
        used
    }

    /// Returns the path and source of each FluxInstance of Flux Operator: from the object, or from
    /// the values of its chart.
    fn instances(&self) -> Vec<(TreePath, Sync)> {
        let places: [(&str, &[&str]); 3] = [
            ("FluxInstance", &["spec", "sync"]),
            ("HelmRelease", &["spec", "values", "instance", "sync"]),
            ("", &["instance", "sync"]),
        ];
        let sync = |document: &Node| {
            let (_, path) = places.iter().find(|(kind, _)| {
                text(document, &["kind"]).unwrap_or_default() == *kind
                    && (*kind != "FluxInstance" || is(document, OPERATOR, kind))
            })?;
            let sync = path.iter().try_fold(document, |node, key| node.get(key))?;
            let path = TreePath::new(text(sync, &["path"])?).ok()?;
            let name = text(sync, &["ref"])?;
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            let url = text(sync, &["url"])?.to_owned();
            let from = match text(sync, &["kind"])? {
                "GitRepository" => Sync::Git(url, branch.to_owned()),
                "OCIRepository" => Sync::Artifact(url),
                _ => return None,
            };
            let is_here = path.is_root() || self.tree.index().is_dir(&path);
            is_here.then_some((path, from))
        };
        self.by_file.values().flatten().filter_map(sync).collect()
    }

    /// Returns the files of Flux Kustomizations, each with the directory of this tree in its path.
    /// The path `.` is ignored, because it may be that of another repository.
    fn kustomization_paths(&self) -> Vec<(TreePath, TreePath)> {
        let mut ways = Vec::new();
        for (file, documents) in &self.by_file {
            let documents = documents.iter();
            let paths = documents
                .filter(|document| is(document, KUSTOMIZE, "Kustomization"))
                .filter_map(|document| TreePath::new(text(document, &["spec", "path"])?).ok());
            let paths = paths.filter(|path| !path.is_root() && self.tree.index().is_dir(path));
            ways.extend(paths.map(|path| (file.clone(), path)));
        }
        ways
    }

    /// Checks whether the path of a Flux Kustomization is a directory of this tree.
    pub fn has_paths(&self) -> bool {
        !self.kustomization_paths().is_empty()
    }

    /// Returns the directories with Flux Kustomizations that no other Kustomization applies.
    fn roots(&self) -> Vec<TreePath> {
        let all = roots::of(&self.kustomization_paths(), &self.used());
        let (templates, roots): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|directory| self.is_template(directory));
        match roots.is_empty() {
            true => templates,
            false => roots,
        }
    }

    /// Checks whether Flux objects in a directory have variables in their names or addresses: a
    /// root has no substitution.
    fn is_template(&self, directory: &TreePath) -> bool {
        const OWN: [&[&str]; 3] = [&["metadata", "name"], &["spec", "url"], &["spec", "path"]];
        let mut below = self.by_file.iter();
        below.any(|(file, documents)| {
            let of_flux =
                |document: &&Node| is(document, KUSTOMIZE, "") || is(document, SOURCE, "");
            let mut own = documents.iter().filter(of_flux).flat_map(|document| {
                let texts = OWN.iter().filter_map(|path| text(document, path));
                texts.collect::<Vec<_>>()
            });
            file.parent() == *directory && own.any(|text| text.contains("${"))
        })
    }

    /// Returns the directories that may be hubs: the roots, else every top directory with a Flux
    /// object.
    pub fn candidates(&self) -> Vec<TreePath> {
        let roots = self.roots();
        if !roots.is_empty() {
            return roots;
        }
        let of_flux = |documents: &[Node]| {
            let groups = [KUSTOMIZE, SOURCE, OPERATOR];
            let mut all = documents.iter();
            all.any(|document| groups.iter().any(|group| is(document, group, "")))
        };
        let files = self.by_file.iter().filter(|(file, documents)| {
            of_flux(documents) || file.file_name().starts_with("gotk-")
        });
        let directories: BTreeSet<TreePath> = files.map(|(file, _)| file.parent()).collect();
        let is_below = |directory: &TreePath| {
            let mut others = directories.iter();
            others.any(|other| other != directory && directory.is_within(other))
        };
        directories
            .iter()
            .filter(|directory| !is_below(directory))
            .cloned()
            .collect()
    }

    /// Returns the name, URL and branch of each GitRepository.
    pub fn sources(&self) -> impl Iterator<Item = (String, String, String)> {
        let all = self
            .by_file
            .values()
            .flatten()
            .filter(|document| is(document, SOURCE, "GitRepository"));
        all.filter_map(|document| {
            let own = |path: &[&str]| text(document, path).map(str::to_owned);
            let branch = own(&["spec", "ref", "branch"]).unwrap_or_else(|| "master".to_owned());
            Some((own(&["metadata", "name"])?, own(&["spec", "url"])?, branch))
        })
    }

    /// Returns the URL and branch of the repository, if exactly one GitRepository is the source of
    /// the Kustomizations of this tree's directories.
    fn guess(&self) -> Option<(String, String)> {
        let kustomizations = self
            .by_file
            .values()
            .flatten()
            .filter(|document| is(document, KUSTOMIZE, "Kustomization"));
        let leads_here = |document: &&Node| {
            let path = text(document, &["spec", "path"]).and_then(|path| TreePath::new(path).ok());
            path.is_some_and(|path| !path.is_root() && self.tree.index().is_dir(&path))
        };
        let names: BTreeSet<&str> = kustomizations
            .filter(leads_here)
            .filter_map(|document| text(document, &["spec", "sourceRef", "name"]))
            .collect();
        let named = self
            .sources()
            .filter(|(name, ..)| names.contains(name.as_str()));
        let mut origins: BTreeSet<(String, String)> =
            named.map(|(_, url, branch)| (url, branch)).collect();
        let first = origins.pop_first()?;
        (origins.is_empty() && index::repository(&first.0).is_some()).then_some(first)
    }
}

fn is(document: &Node, group: &str, kind: &str) -> bool {
    text(document, &["apiVersion"]).is_some_and(|version| version.starts_with(group))
        && (kind.is_empty() || text(document, &["kind"]) == Some(kind))
}

fn text<'n>(node: &'n Node, path: &[&str]) -> Option<&'n str> {
    path.iter()
        .try_fold(node, |node, key| node.get(key))?
        .text()
}

/// Creates a plan for each directory. Its name is the last part of the path, or the whole path
/// where two last parts are equal.
pub fn plans(directories: &[TreePath]) -> Vec<HubPlan> {
    let last = |directory: &TreePath| match directory.file_name() {
        "" => "hub".to_owned(),
        name => name.to_owned(),
    };
    let plan = |directory: &TreePath| {
        let alike = directories
            .iter()
            .filter(|other| last(other) == last(directory))
            .count();
        HubPlan {
            name: name(&match alike {
                1 => last(directory),
                _ => directory.as_str().to_owned(),
            }),
            path: directory.as_str().to_owned(),
            more: Vec::new(),
        }
    };
    directories.iter().map(plan).collect()
}

/// Converts a path to the name of a hub, which is a part of a URL.
fn name(path: &str) -> String {
    let part = |c: char| match c.is_ascii_alphanumeric() || "._-".contains(c) {
        true => c,
        false => '-',
    };
    path.chars().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://github.com/acme/fleet";

    fn git(name: &str, url: &str) -> String {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: {name}}}\nspec: {{url: {url}, ref: {{branch: dev}}}}\n---\n"
        )
    }

    fn sync(source: &str, path: &str) -> String {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: x}}\nspec: {{path: {path}, sourceRef: {{kind: GitRepository, name: {source}}}}}\n"
        )
    }

    fn find(files: &[(&str, &str)]) -> (Vec<String>, Option<String>) {
        let tree = FileTree::from_files(files.iter().copied()).unwrap();
        let found = Documents::of(&tree).find();
        let hubs = found
            .hubs
            .iter()
            .map(|hub| hub.as_str().to_owned())
            .collect();
        (
            hubs,
            found.origin.map(|(url, branch)| format!("{url} {branch}")),
        )
    }

    #[test]
    fn a_bootstrapped_repository() {
        let root = git("flux-system", URL) + &sync("flux-system", "./clusters/a");
        let files = [
            ("clusters/a/flux-system/gotk-sync.yaml", root.as_str()),
            ("clusters/b/flux-system/gotk-sync.yaml", "# written later"),
            ("apps/a.yaml", "kind: [\n"),
        ];
        let (hubs, origin) = find(&files);
        assert_eq!(hubs, ["clusters/a", "clusters/b"]);
        assert_eq!(origin.unwrap(), format!("{URL} dev"));
    }

    #[test]
    fn directories_by_convention() {
        let (base, apps) = (git("fleet", URL), sync("fleet", "./apps"));
        let files = [
            ("clusters/base/source.yaml", base.as_str()),
            (
                "clusters/a/kustomization.yaml",
                "resources: [../base, apps.yaml]\n",
            ),
            ("clusters/a/apps.yaml", apps.as_str()),
            (
                "clusters/a/edge/kustomization.yaml",
                "resources: [apps.yaml]\n",
            ),
            ("clusters/a/edge/apps.yaml", apps.as_str()),
            ("clusters/none/readme.yaml", "a: 1\n"),
            ("apps/a.yaml", "a: 1\n"),
        ];
        let (hubs, origin) = find(&files);
        assert_eq!(hubs, ["clusters/a"]);
        assert_eq!(origin.unwrap(), format!("{URL} dev"));
        let tree = FileTree::from_files(files).unwrap();
        let left = Documents::of(&tree).left_out(&TreePath::new("clusters/a").unwrap());
        assert_eq!(left, [TreePath::new("clusters/a/edge").unwrap()]);
    }

    #[test]
    fn hub_names_are_unique() {
        let directories =
            ["eu/prod", "us/prod", "dev", ""].map(|path| TreePath::new(path).unwrap());
        let names: Vec<String> = plans(&directories)
            .into_iter()
            .map(|plan| plan.name)
            .collect();
        assert_eq!(names, ["eu-prod", "us-prod", "dev", "hub"]);
    }
}
