//! Bare Git repositories, written and read with the real `git`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// One file's change in a commit.
#[derive(Clone, Debug)]
pub struct Change {
    path: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Write {
        mode: &'static str,
        content: Vec<u8>,
    },
    Remove,
}

impl Change {
    /// Writes a file.
    pub fn write(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::with_mode(path, "100644", content.into())
    }

    /// Writes an executable file.
    pub fn executable(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self::with_mode(path, "100755", content.into())
    }

    /// Writes a symbolic link.
    pub fn link(path: &str, target: &str) -> Self {
        Self::with_mode(path, "120000", target.into())
    }

    /// Removes a file or a whole directory.
    pub fn remove(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::Remove,
        }
    }

    /// Applies the change to files by their paths, for a repository that is not stored in Git.
    pub fn apply_to(&self, files: &mut BTreeMap<String, Vec<u8>>) {
        match &self.kind {
            Kind::Write { content, .. } => {
                files.insert(self.path.clone(), content.clone());
            }
            Kind::Remove => {
                let below = format!("{}/", self.path);
                files.retain(|path, _| *path != self.path && !path.starts_with(&below));
            }
        }
    }

    fn with_mode(path: &str, mode: &'static str, content: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            kind: Kind::Write { mode, content },
        }
    }
}

/// A repository on the stub.
pub struct Repository {
    full_name: String,
    pub(super) id: u64,
    directory: PathBuf,
    private: AtomicBool,
    /// One writer at a time; it also counts the commits.
    commits: Mutex<u64>,
}

/// 2026-01-01T00:00:00Z; each commit is a minute later than the one before, so
/// that the same history always has the same hashes.
const FIRST_COMMIT: u64 = 1_767_225_600;

impl Repository {
    pub(super) fn create(root: &Path, full_name: &str, id: u64) -> Self {
        let directory = root.join(format!("{full_name}.git"));
        let repository = Self {
            full_name: full_name.to_owned(),
            id,
            directory,
            private: AtomicBool::new(false),
            commits: Mutex::new(0),
        };
        std::fs::create_dir_all(&repository.directory).expect("create the repository's directory");
        repository.git(["init", "--quiet", "--bare", "--initial-branch=main"]);
        repository
    }

    /// Returns the name with its owner, `owner/name`.
    pub fn full_name(&self) -> &str {
        &self.full_name
    }

    /// Returns the owner, the part of the name before the slash.
    pub fn owner(&self) -> &str {
        self.full_name
            .split_once('/')
            .map_or("", |(owner, _)| owner)
    }

    /// Returns the name without the owner.
    pub fn name(&self) -> &str {
        self.full_name.split_once('/').map_or("", |(_, name)| name)
    }

    /// Sets whether the repository is private: then requests without access are answered with 404.
    pub fn set_private(&self, private: bool) {
        self.private.store(private, Ordering::Relaxed);
    }

    /// Returns whether the repository is private.
    pub fn is_private(&self) -> bool {
        self.private.load(Ordering::Relaxed)
    }

    /// Commits changes on top of a branch, which is created if it does not exist. Returns the
    /// commit.
    pub fn commit(&self, branch: &str, changes: &[Change], message: &str) -> String {
        self.import(branch, changes, message, false)
    }

    /// Commits exactly the content of a directory, without `.git`, as the next commit
    /// of a branch.
    pub fn commit_directory(&self, branch: &str, directory: &Path, message: &str) -> String {
        let mut changes = Vec::new();
        collect(directory, directory, &mut changes);
        self.import(branch, &changes, message, true)
    }

    /// Points a branch at a commit, also backwards, as a forced push does.
    pub fn reset(&self, branch: &str, sha: &str) {
        self.git(["update-ref", &format!("refs/heads/{branch}"), sha]);
    }

    /// Makes a lightweight tag.
    pub fn tag(&self, name: &str, sha: &str) {
        self.git(["update-ref", &format!("refs/tags/{name}"), sha]);
    }

    /// Makes an annotated tag.
    pub fn annotated_tag(&self, name: &str, sha: &str, message: &str) {
        self.git(["tag", "--annotate", "--message", message, name, sha]);
    }

    /// Removes a branch.
    pub fn delete_branch(&self, branch: &str) {
        self.git(["update-ref", "-d", &format!("refs/heads/{branch}")]);
    }

    /// Returns the commit of a branch, a tag, `heads/x`, `tags/x`, a full reference or
    /// a hash of at least 7 digits, in GitHub's order.
    pub fn resolve(&self, reference: &str) -> Option<String> {
        let hash = reference.len() >= 7 && reference.bytes().all(|b| b.is_ascii_hexdigit());
        let candidates = match reference {
            "HEAD" => vec!["HEAD".to_owned()],
            r if r.starts_with("refs/") => vec![r.to_owned()],
            r if r.starts_with("heads/") || r.starts_with("tags/") => vec![format!("refs/{r}")],
            r if hash => vec![r.to_owned()],
            r => vec![format!("refs/heads/{r}"), format!("refs/tags/{r}")],
        };
        candidates.iter().find_map(|candidate| {
            let commit = format!("{candidate}^{{commit}}");
            self.ask([
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &commit,
            ])
        })
    }

    /// Runs git on the repository; panics when it fails.
    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        crate::process::run(self.command().args(args))
    }

    /// Runs git and returns its output without the last line's end; `None` when it fails.
    pub(super) fn ask<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Option<String> {
        let bytes = self.bytes(args)?;
        let text = String::from_utf8_lossy(&bytes);
        Some(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// Runs git and returns its output; `None` when it fails.
    pub(super) fn bytes<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Option<Vec<u8>> {
        let output = self.command().args(args).output().expect("run git");
        output.status.success().then_some(output.stdout)
    }

    /// Writes a tree with the files of `base` and these files. Returns its hash, or `None` if
    /// `base` is not a tree.
    pub(super) fn write_tree(&self, base: &str, files: &[(&str, &str)]) -> Option<String> {
        let directory = tempfile::tempdir().expect("a directory for an index");
        let index = directory.path().join("index");
        let git = |args: &[&str]| {
            let mut git = self.command();
            let output = git.args(args).env("GIT_INDEX_FILE", &index).output();
            let output = output.expect("run git");
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success().then_some(text)
        };
        git(&["read-tree", base])?;
        for (path, content) in files {
            let file = directory.path().join("file");
            std::fs::write(&file, content).expect("write a file");
            let blob = git(&["hash-object", "-w", file.to_str()?])?;
            let entry = format!("100644,{blob},{path}");
            git(&["update-index", "--add", "--cacheinfo", &entry])?;
        }
        git(&["write-tree"])
    }

    /// Runs one stateless exchange of `git upload-pack` and returns its output.
    pub(super) fn upload_pack(&self, options: &[&str], request: &[u8]) -> Vec<u8> {
        let mut child = self
            .command()
            .args(["upload-pack", "--stateless-rpc"])
            .args(options)
            .arg(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("run git upload-pack");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(request).expect("write to git upload-pack");
        drop(stdin);
        let output = child.wait_with_output().expect("git upload-pack");
        output.stdout
    }

    fn import(&self, branch: &str, changes: &[Change], message: &str, anew: bool) -> String {
        let mut commits = self.commits.lock().expect("an earlier commit failed");
        let time = FIRST_COMMIT + *commits * 60;
        *commits += 1;
        let reference = format!("refs/heads/{branch}");
        let mut stream = Vec::new();
        let _ = write!(
            stream,
            "commit {reference}\ncommitter A Tester <tester@example.com> {time} +0000\ndata {}\n{message}\n",
            message.len()
        );
        if self.resolve(&reference).is_some() {
            let _ = writeln!(stream, "from {reference}^0");
        }
        if anew {
            let _ = writeln!(stream, "deleteall");
        }
        for change in changes {
            write_change(&mut stream, change);
        }
        self.fast_import(&stream);
        self.resolve(&reference).expect("the new commit")
    }

    fn fast_import(&self, stream: &[u8]) {
        let mut child = self
            .command()
            .args(["fast-import", "--quiet", "--date-format=raw"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("run git fast-import");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(stream).expect("write to git fast-import");
        drop(stdin);
        let status = child.wait().expect("git fast-import");
        assert!(status.success(), "git fast-import: {status}");
    }

    fn command(&self) -> Command {
        let mut git = Command::new("git");
        git.arg("--git-dir")
            .arg(&self.directory)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "A Tester")
            .env("GIT_AUTHOR_EMAIL", "tester@example.com")
            .env("GIT_COMMITTER_NAME", "A Tester")
            .env("GIT_COMMITTER_EMAIL", "tester@example.com")
            .env("GIT_COMMITTER_DATE", format!("{FIRST_COMMIT} +0000"));
        for inherited in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
            git.env_remove(inherited);
        }
        git
    }
}

fn write_change(stream: &mut Vec<u8>, change: &Change) {
    let path = change.path.replace('\\', "\\\\").replace('"', "\\\"");
    match &change.kind {
        Kind::Remove => {
            let _ = writeln!(stream, "D \"{path}\"");
        }
        Kind::Write { mode, content } => {
            let _ = writeln!(stream, "M {mode} inline \"{path}\"\ndata {}", content.len());
            stream.extend_from_slice(content);
            stream.push(b'\n');
        }
    }
}

fn collect(root: &Path, directory: &Path, changes: &mut Vec<Change>) {
    use std::os::unix::fs::PermissionsExt;
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|e| panic!("read the directory {}: {e}", directory.display()));
    for entry in entries {
        let path = entry.expect("a directory entry").path();
        let name = path.strip_prefix(root).expect("below the root");
        let name = name.to_str().expect("a UTF-8 path").to_owned();
        let metadata = path.symlink_metadata().expect("metadata");
        if metadata.is_dir() {
            if name != ".git" {
                collect(root, &path, changes);
            }
        } else if metadata.is_symlink() {
            let target = std::fs::read_link(&path).expect("a link");
            changes.push(Change::link(&name, target.to_str().expect("a UTF-8 link")));
        } else {
            let content = std::fs::read(&path).expect("a readable file");
            let executable = metadata.permissions().mode() & 0o111 != 0;
            let mode = if executable { "100755" } else { "100644" };
            changes.push(Change::with_mode(&name, mode, content));
        }
    }
}
