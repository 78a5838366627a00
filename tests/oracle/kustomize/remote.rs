//! Remote repositories and files: the real tool fetches them itself (Git, HTTP on loopback), this
//! test fetches them for the engine.

use driftless_harness::charts::Host;
use driftless_harness::tools;
use driftless_kustomize::{Build, ErrorKind, Options, Remote, documents_to_yaml};
use driftless_manifest::{EntryKind, FileTree, Reader, TreePath};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: remote\ndata:\n  a: b\n";
const PATCH: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: remote\n  labels:\n    patched: \"true\"\n";

/// A repository with a base, an overlay on it, a component, and references out of the repository.
const REPOSITORY: [(&str, &str); 8] = [
    (
        "base/kustomization.yaml",
        "resources: [config.yaml]\nnamePrefix: base-\nconfigMapGenerator:\n- name: made\n  literals: [x=y]\n",
    ),
    ("base/config.yaml", CONFIG),
    (
        "overlay/kustomization.yaml",
        "resources: [../base]\nnameSuffix: -over\n",
    ),
    (
        "component/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations:\n  by: component\n",
    ),
    ("out/kustomization.yaml", "resources: [../../top]\n"),
    (
        "patch/kustomization.yaml",
        "resources: [../base]\npatches:\n- path: patch.yaml\n",
    ),
    ("patch/patch.yaml", PATCH),
    ("kustomization.yaml", "resources: [base]\n"),
];

struct Site {
    directory: TempDir,
    web: Host,
}

impl Site {
    fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let repository = directory.path().join("repo.git");
        for (path, text) in REPOSITORY {
            write(&repository.join(path), text);
        }
        let outside = directory.path().join("secret.yaml");
        write(&outside, CONFIG);
        std::fs::create_dir_all(repository.join("link")).expect("a directory");
        std::os::unix::fs::symlink(&outside, repository.join("link/config.yaml")).expect("a link");
        write(
            &repository.join("link/kustomization.yaml"),
            "resources: [config.yaml]\n",
        );
        git(&repository, &["init", "-q", "-b", "main"]);
        git(&repository, &["add", "-A"]);
        let author = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        git(
            &repository,
            &[&author[..], &["commit", "-qm", "first"]].concat(),
        );
        git(&repository, &["tag", "v1"]);
        let web = Host::start();
        for path in PATHS {
            web.put(path, content(path).expect("a file"));
        }
        Self { directory, web }
    }

    fn repository(&self) -> PathBuf {
        self.directory.path().join("repo.git")
    }

    /// Returns the outputs or errors of the real tool and of the engine.
    fn render(&self, kustomization: &str) -> (Result<String, String>, Result<String, String>) {
        let text = kustomization
            .replace("REPO", &format!("file://{}", self.repository().display()))
            .replace("HTTP", &self.web.url());
        let top = self.directory.path().join("top");
        write(&top.join("kustomization.yaml"), &text);
        let output = Command::new(tools::KUSTOMIZE.path())
            .arg("build")
            .arg(&top)
            .output()
            .expect("run kustomize");
        let theirs = if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        };
        (theirs, self.engine(&text))
    }

    /// Builds, fetches missing remote parts, and builds again.
    fn engine(&self, text: &str) -> Result<String, String> {
        let mut tree = FileTree::new();
        insert(
            &mut tree,
            &TreePath::root(),
            "top/kustomization.yaml",
            EntryKind::File,
            text.as_bytes(),
        );
        insert(
            &mut tree,
            &TreePath::root(),
            "secret.yaml",
            EntryKind::File,
            CONFIG.as_bytes(),
        );
        let top = TreePath::new("top").expect("a path");
        let options = Options {
            remote: true,
            ..Options::default()
        };
        for _ in 0..5 {
            let built = Build::new(&Reader::new(&tree), &top)
                .options(&options)
                .documents();
            let missed = match built {
                Ok(documents) => return Ok(documents_to_yaml(&documents)),
                Err(error) => match error.kind {
                    ErrorKind::Needs(missed) => missed,
                    _ => return Err(error.to_string()),
                },
            };
            let place = missed.place();
            match &missed {
                Remote::File { url } => {
                    let text = content(url).ok_or_else(|| format!("{url}: 404"))?;
                    insert(
                        &mut tree,
                        &TreePath::root(),
                        place.as_str(),
                        EntryKind::File,
                        text.as_bytes(),
                    );
                }
                Remote::Repository { url, reference, .. } => {
                    assert_eq!(*url, format!("file://{}", self.repository().display()));
                    let reference = if reference.is_empty() {
                        "HEAD"
                    } else {
                        reference
                    };
                    self.checkout(&mut tree, &place, reference);
                }
            }
        }
        Err("remote parts are still missing after 5 builds".to_owned())
    }

    fn checkout(&self, tree: &mut FileTree, place: &TreePath, reference: &str) {
        let repository = self.repository();
        let listed = git(&repository, &["ls-tree", "-r", reference]);
        for line in listed.lines() {
            let (entry, path) = line.split_once('\t').expect("a line of ls-tree");
            let kind = match entry.starts_with("120000") {
                true => EntryKind::Link,
                false => EntryKind::File,
            };
            let text = git(&repository, &["show", &format!("{reference}:{path}")]);
            insert(tree, place, path, kind, text.as_bytes());
        }
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

fn insert(tree: &mut FileTree, below: &TreePath, path: &str, kind: EntryKind, content: &[u8]) {
    let path = below.join(path).expect("a path");
    tree.insert(path, kind, content.to_vec())
        .expect("a new file");
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .output();
    let output = output.expect("run git");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The paths of the web server; the last part determines the content.
const PATHS: [&str; 4] = [
    "/config.yaml",
    "/a/config.yaml",
    "/a/b/c/config.yaml",
    "/patch.yaml",
];

fn content(url: &str) -> Option<&'static str> {
    match url.split('?').next()?.rsplit('/').next()? {
        "config.yaml" => Some(CONFIG),
        "patch.yaml" => Some(PATCH),
        _ => None,
    }
}

#[test]
fn renders_remote_parts_as_kustomize_does() {
    let site = Site::start();
    let tracked = "buildMetadata: [originAnnotations, transformerAnnotations]\n";
    for case in [
        "resources: ['REPO//base?ref=v1']\n",
        "resources: ['REPO//overlay?ref=main']\n",
        "resources: ['REPO//patch']\nnamespace: apps\n",
        "resources: ['REPO?ref=v1']\n",
        "resources: ['REPO//base?ref=v1']\ncomponents: ['REPO//component?ref=v1']\n",
        "resources: ['HTTP/config.yaml']\n",
        "resources: ['HTTP/a/b/c/config.yaml']\npatches:\n- path: HTTP/patch.yaml\n",
        "resources: ['HTTP/a/b/c/config.yaml?raw=true']\n",
        "resources: ['HTTP/a/config.yaml']\n",
        "configMapGenerator:\n- name: files\n  files: ['HTTP/config.yaml', 'key=HTTP/patch.yaml']\n",
    ] {
        for text in [case.to_owned(), format!("{case}{tracked}")] {
            let (theirs, ours) = site.render(&text);
            assert_eq!(
                ours.as_ref().ok(),
                theirs.as_ref().ok(),
                "{text}\nours: {ours:?}\ntheirs: {theirs:?}"
            );
            assert!(theirs.is_ok(), "{text}{theirs:?}");
        }
    }
    for refused in [
        "resources: ['REPO//out?ref=v1']\n",
        "resources: ['REPO//link?ref=v1']\n",
        "resources: ['REPO//absent?ref=v1']\n",
        "resources: ['HTTP/absent.yaml']\n",
    ] {
        let (theirs, ours) = site.render(refused);
        assert!(
            theirs.is_err() && ours.is_err(),
            "{refused}\nours: {ours:?}\ntheirs: {theirs:?}"
        );
    }
}
