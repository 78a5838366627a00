//! GitHub's JSON shapes, filled from Git.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::repository::Repository;

fn api(url: &str, repository: &Repository, rest: &str) -> String {
    format!("{url}/repos/{}/{rest}", repository.full_name())
}

fn page(repository: &Repository, rest: &str) -> String {
    format!("https://github.com/{}/{rest}", repository.full_name())
}

pub(super) fn owner(url: &str, login: &str) -> Value {
    json!({
        "login": login,
        "id": 1,
        "node_id": "MDEyOk9yZ2FuaXphdGlvbjE=",
        "avatar_url": "https://avatars.githubusercontent.com/u/1?v=4",
        "gravatar_id": "",
        "url": format!("{url}/users/{login}"),
        "html_url": format!("https://github.com/{login}"),
        "followers_url": format!("{url}/users/{login}/followers"),
        "following_url": format!("{url}/users/{login}/following{{/other_user}}"),
        "gists_url": format!("{url}/users/{login}/gists{{/gist_id}}"),
        "starred_url": format!("{url}/users/{login}/starred{{/owner}}{{/repo}}"),
        "subscriptions_url": format!("{url}/users/{login}/subscriptions"),
        "organizations_url": format!("{url}/users/{login}/orgs"),
        "repos_url": format!("{url}/users/{login}/repos"),
        "events_url": format!("{url}/users/{login}/events{{/privacy}}"),
        "received_events_url": format!("{url}/users/{login}/received_events"),
        "type": "Organization",
        "site_admin": false,
    })
}

pub(super) fn repository(url: &str, repository: &Repository) -> Value {
    let default = repository
        .ask(["symbolic-ref", "--short", "HEAD"])
        .unwrap_or_default();
    json!({
        "id": repository.id,
        "node_id": format!("R_{}", repository.id),
        "name": repository.name(),
        "full_name": repository.full_name(),
        "private": repository.is_private(),
        "visibility": if repository.is_private() { "private" } else { "public" },
        "owner": owner(url, repository.owner()),
        "html_url": format!("https://github.com/{}", repository.full_name()),
        "description": null,
        "fork": false,
        "url": format!("{url}/repos/{}", repository.full_name()),
        "clone_url": format!("https://github.com/{}.git", repository.full_name()),
        "ssh_url": format!("git@github.com:{}.git", repository.full_name()),
        "git_url": format!("git://github.com/{}.git", repository.full_name()),
        "archive_url": api(url, repository, "{archive_format}{/ref}"),
        "archived": false,
        "disabled": false,
        "default_branch": default,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "pushed_at": "2026-01-01T00:00:00Z",
        "permissions": {"admin": false, "maintain": false, "push": false, "triage": false, "pull": true},
    })
}

/// Fields of a commit, in one call of git.
struct Commit {
    tree: String,
    parents: Vec<String>,
    author: Value,
    committer: Value,
    message: String,
    time: String,
}

fn read(repository: &Repository, sha: &str) -> Commit {
    let format = "--format=%T%n%P%n%an%n%ae%n%aI%n%cn%n%ce%n%cI%n%B";
    let text = repository
        .ask(["show", "--no-patch", "--no-show-signature", format, sha])
        .unwrap_or_default();
    let mut lines = text.splitn(9, '\n').map(str::to_owned);
    let mut next = || lines.next().unwrap_or_default();
    let tree = next();
    let parents = next().split_whitespace().map(str::to_owned).collect();
    let mut person = || json!({"name": next(), "email": next(), "date": utc(&next())});
    let (author, committer) = (person(), person());
    Commit {
        tree,
        parents,
        time: committer["date"].as_str().unwrap_or_default().to_owned(),
        author,
        committer,
        message: next().trim_end().to_owned(),
    }
}

/// Replaces the offset of UTC, which all commits have, by GitHub's `Z`.
fn utc(time: &str) -> String {
    time.replace("+00:00", "Z")
}

fn parents(url: &str, repository: &Repository, commit: &Commit) -> Value {
    let parent = |sha: &String| {
        json!({
            "sha": sha,
            "url": api(url, repository, &format!("commits/{sha}")),
            "html_url": page(repository, &format!("commit/{sha}")),
        })
    };
    commit.parents.iter().map(parent).collect()
}

fn unsigned() -> Value {
    json!({"verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null})
}

pub(super) fn commit(url: &str, repository: &Repository, sha: &str) -> Value {
    let commit = read(repository, sha);
    json!({
        "sha": sha,
        "node_id": format!("C_{sha}"),
        "commit": {
            "author": commit.author,
            "committer": commit.committer,
            "message": commit.message,
            "tree": {
                "sha": commit.tree,
                "url": api(url, repository, &format!("git/trees/{}", commit.tree)),
            },
            "url": api(url, repository, &format!("git/commits/{sha}")),
            "comment_count": 0,
            "verification": unsigned(),
        },
        "url": api(url, repository, &format!("commits/{sha}")),
        "html_url": page(repository, &format!("commit/{sha}")),
        "comments_url": api(url, repository, &format!("commits/{sha}/comments")),
        "author": null,
        "committer": null,
        "parents": parents(url, repository, &commit),
    })
}

pub(super) fn git_commit(url: &str, repository: &Repository, sha: &str) -> Value {
    let commit = read(repository, sha);
    json!({
        "sha": sha,
        "node_id": format!("C_{sha}"),
        "url": api(url, repository, &format!("git/commits/{sha}")),
        "html_url": page(repository, &format!("commit/{sha}")),
        "author": commit.author,
        "committer": commit.committer,
        "tree": {
            "sha": commit.tree,
            "url": api(url, repository, &format!("git/trees/{}", commit.tree)),
        },
        "message": commit.message,
        "parents": parents(url, repository, &commit),
        "verification": unsigned(),
    })
}

pub(super) fn git_tag(url: &str, repository: &Repository, sha: &str, text: &str) -> Value {
    let (head, message) = text.split_once("\n\n").unwrap_or((text, ""));
    let field = |name: &str| {
        let value = head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_default().to_owned()
    };
    let (object, kind) = (field("object"), field("type"));
    json!({
        "node_id": format!("T_{sha}"),
        "tag": field("tag"),
        "sha": sha,
        "url": api(url, repository, &format!("git/tags/{sha}")),
        "message": message,
        "tagger": {"name": "A Tester", "email": "tester@example.com", "date": "2026-01-01T00:00:00Z"},
        "object": {
            "sha": object,
            "type": kind,
            "url": api(url, repository, &format!("git/{kind}s/{object}")),
        },
        "verification": unsigned(),
    })
}

pub(super) fn reference(url: &str, repository: &Repository, full: &str, hash: &str) -> Value {
    let kind = repository.ask(["cat-file", "-t", hash]).unwrap_or_default();
    json!({
        "ref": full,
        "node_id": format!("REF_{full}"),
        "url": api(url, repository, &format!("git/{full}")),
        "object": {
            "sha": hash,
            "type": kind,
            "url": api(url, repository, &format!("git/{kind}s/{hash}")),
        },
    })
}

pub(super) fn named(url: &str, repository: &Repository, name: &str, sha: &str) -> Value {
    json!({
        "name": name,
        "commit": {"sha": sha, "url": api(url, repository, &format!("commits/{sha}"))},
        "zipball_url": api(url, repository, &format!("zipball/refs/tags/{name}")),
        "tarball_url": api(url, repository, &format!("tarball/refs/tags/{name}")),
        "node_id": format!("REF_{name}"),
        "protected": false,
    })
}

pub(super) fn branch(url: &str, repository: &Repository, name: &str, sha: &str) -> Value {
    json!({
        "name": name,
        "commit": commit(url, repository, sha),
        "_links": {
            "self": api(url, repository, &format!("branches/{name}")),
            "html": page(repository, &format!("tree/{name}")),
        },
        "protected": false,
        "protection": {"enabled": false, "required_status_checks": {"enforcement_level": "off", "contexts": [], "checks": []}},
        "protection_url": api(url, repository, &format!("branches/{name}/protection")),
    })
}

pub(super) fn tree(url: &str, repository: &Repository, hash: &str, recursive: bool) -> Value {
    let depth = if recursive { "-rt" } else { "-t" };
    let entries: Vec<Value> = list(repository, &[depth, hash])
        .into_iter()
        .map(|entry| {
            let mut item = json!({
                "path": entry.path,
                "mode": entry.mode,
                "type": entry.kind,
                "sha": entry.sha,
                "url": api(url, repository, &format!("git/{}s/{}", entry.kind, entry.sha)),
            });
            if let Some(size) = entry.size {
                item["size"] = size.into();
            }
            item
        })
        .collect();
    json!({
        "sha": hash,
        "url": api(url, repository, &format!("git/trees/{hash}")),
        "tree": entries,
        "truncated": false,
    })
}

struct Entry {
    mode: String,
    kind: String,
    sha: String,
    size: Option<u64>,
    path: String,
}

fn list(repository: &Repository, args: &[&str]) -> Vec<Entry> {
    let mut command = vec!["ls-tree", "-z", "--long"];
    command.extend(args);
    let text = repository.ask(command).unwrap_or_default();
    text.split_terminator('\0').filter_map(entry).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let (head, path) = line.split_once('\t')?;
    let mut fields = head.split_whitespace().map(str::to_owned);
    Some(Entry {
        mode: fields.next()?,
        kind: fields.next()?,
        sha: fields.next()?,
        size: fields.next()?.parse().ok(),
        path: path.to_owned(),
    })
}

/// Encodes bytes as Base64 in lines of 60 characters, as GitHub does.
fn wrapped(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines = text.as_bytes().chunks(60).map(String::from_utf8_lossy);
    lines.flat_map(|line| [line, "\n".into()]).collect()
}

pub(super) fn blob(url: &str, repository: &Repository, sha: &str, bytes: &[u8]) -> Value {
    json!({
        "sha": sha,
        "node_id": format!("B_{sha}"),
        "size": bytes.len(),
        "url": api(url, repository, &format!("git/blobs/{sha}")),
        "content": wrapped(bytes),
        "encoding": "base64",
    })
}

fn content(url: &str, repository: &Repository, commit: &str, path: &str, entry: &Entry) -> Value {
    let kind = match (entry.kind.as_str(), entry.mode.as_str()) {
        ("tree", _) => "dir",
        ("commit", _) => "submodule",
        (_, "120000") => "symlink",
        _ => "file",
    };
    let this = api(url, repository, &format!("contents/{path}?ref={commit}"));
    let git = api(
        url,
        repository,
        &format!("git/{}s/{}", entry.kind, entry.sha),
    );
    let html = page(repository, &format!("{}/{commit}/{path}", entry.kind));
    json!({
        "name": path.rsplit('/').next(),
        "path": path,
        "sha": entry.sha,
        "size": entry.size.unwrap_or_default(),
        "url": this,
        "html_url": html,
        "git_url": git,
        "download_url": null,
        "type": kind,
        "_links": {"self": this, "git": git, "html": html},
    })
}

pub(super) fn file(url: &str, repository: &Repository, commit: &str, path: &str) -> Value {
    let entries = list(repository, &[commit, "--", path]);
    let Some(entry) = entries.first() else {
        return Value::Null;
    };
    let bytes = repository
        .bytes(["cat-file", "blob", &entry.sha])
        .unwrap_or_default();
    let mut object = content(url, repository, commit, path, entry);
    object["content"] = wrapped(&bytes).into();
    object["encoding"] = "base64".into();
    object
}

pub(super) fn directory(url: &str, repository: &Repository, commit: &str, path: &str) -> Value {
    let entries = list(repository, &[&format!("{commit}:{path}")]);
    let item = |entry: &Entry| {
        let full = format!("{path}/{}", entry.path);
        content(url, repository, commit, full.trim_start_matches('/'), entry)
    };
    entries.iter().map(item).collect()
}

/// Returns the comparison `base...head`: the changes of head since the common ancestor; `None`
/// without one.
pub(super) fn comparison(
    url: &str,
    repository: &Repository,
    base: &str,
    head: &str,
) -> Option<Value> {
    let fork = repository.ask(["merge-base", base, head])?;
    let list = |from: &str, to: &str| -> Vec<String> {
        let text = repository.ask(["rev-list", "--reverse", &format!("{from}..{to}")]);
        text.unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let (ahead, behind) = (list(base, head), list(head, base));
    let status = match (ahead.len(), behind.len()) {
        (0, 0) => "identical",
        (_, 0) => "ahead",
        (0, _) => "behind",
        _ => "diverged",
    };
    Some(json!({
        "url": api(url, repository, &format!("compare/{base}...{head}")),
        "html_url": page(repository, &format!("compare/{base}...{head}")),
        "permalink_url": page(repository, &format!("compare/{base}...{head}")),
        "diff_url": page(repository, &format!("compare/{base}...{head}.diff")),
        "patch_url": page(repository, &format!("compare/{base}...{head}.patch")),
        "base_commit": commit(url, repository, base),
        "merge_base_commit": commit(url, repository, &fork),
        "status": status,
        "ahead_by": ahead.len(),
        "behind_by": behind.len(),
        "total_commits": ahead.len(),
        "commits": ahead.iter().map(|sha| commit(url, repository, sha)).collect::<Vec<_>>(),
        "files": files(url, repository, &fork, head),
    }))
}

fn files(url: &str, repository: &Repository, from: &str, to: &str) -> Vec<Value> {
    changed(repository, from, to)
        .into_iter()
        .map(|(letter, path)| {
            let status = match letter {
                'A' => "added",
                'D' => "removed",
                _ => "modified",
            };
            let side = if letter == 'D' { from } else { to };
            let blob = repository.ask(["rev-parse", &format!("{side}:{path}")]);
            json!({
                "sha": blob,
                "filename": path,
                "status": status,
                "additions": 0,
                "deletions": 0,
                "changes": 0,
                "blob_url": page(repository, &format!("blob/{to}/{path}")),
                "raw_url": page(repository, &format!("raw/{to}/{path}")),
                "contents_url": api(url, repository, &format!("contents/{path}?ref={to}")),
            })
        })
        .collect()
}

/// Returns the `A`dded, `D`eleted and `M`odified paths between two trees.
fn changed(repository: &Repository, from: &str, to: &str) -> Vec<(char, String)> {
    let args = [
        "diff-tree",
        "-r",
        "-z",
        "--no-renames",
        "--name-status",
        from,
        to,
    ];
    let text = repository.ask(args).unwrap_or_default();
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    let pair = |pair: &[&str]| Some((pair[0].chars().next()?, pair[1].to_owned()));
    fields.chunks_exact(2).filter_map(pair).collect()
}

/// Returns a commit as a push event lists it.
pub(super) fn pushed(repository: &Repository, sha: &str) -> Value {
    let commit = read(repository, sha);
    // The empty tree stands for the missing parent of a first commit.
    let empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned();
    let parent = commit.parents.first().unwrap_or(&empty);
    let changes = changed(repository, parent, sha);
    let paths = |wanted: char| -> Vec<&String> {
        let of = |(letter, _): &&(char, String)| *letter == wanted;
        changes.iter().filter(of).map(|(_, path)| path).collect()
    };
    let person =
        |who: &Value| json!({"name": who["name"], "email": who["email"], "username": "tester"});
    json!({
        "id": sha,
        "tree_id": commit.tree,
        "distinct": true,
        "message": commit.message,
        "timestamp": commit.time,
        "url": page(repository, &format!("commit/{sha}")),
        "author": person(&commit.author),
        "committer": person(&commit.committer),
        "added": paths('A'),
        "removed": paths('D'),
        "modified": paths('M'),
    })
}

pub(super) fn status(
    url: &str,
    repository: &Repository,
    sha: &str,
    id: usize,
    body: &Value,
) -> Value {
    json!({
        "url": api(url, repository, &format!("statuses/{sha}")),
        "avatar_url": null,
        "id": id + 1,
        "node_id": format!("SC_{}", id + 1),
        "state": body["state"],
        "description": body["description"],
        "target_url": body["target_url"],
        "context": body["context"].as_str().unwrap_or("default"),
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "creator": owner(url, "tester"),
    })
}

/// Returns the newest status of each context, and the combined state.
pub(super) fn combined(
    url: &str,
    repository: &Repository,
    sha: &str,
    newest_first: &[Value],
) -> Value {
    let mut latest: Vec<&Value> = Vec::new();
    for status in newest_first {
        if !latest
            .iter()
            .any(|seen| seen["context"] == status["context"])
        {
            latest.push(status);
        }
    }
    let any = |states: &[&str]| {
        latest
            .iter()
            .any(|s| states.iter().any(|state| s["state"] == *state))
    };
    let state = if any(&["failure", "error"]) {
        "failure"
    } else if latest.is_empty() || any(&["pending"]) {
        "pending"
    } else {
        "success"
    };
    json!({
        "state": state,
        "statuses": latest,
        "sha": sha,
        "total_count": latest.len(),
        "repository": self::repository(url, repository),
        "commit_url": api(url, repository, &format!("commits/{sha}")),
        "url": api(url, repository, &format!("commits/{sha}/status")),
    })
}

pub(super) fn installation_token(token: &str) -> Value {
    json!({
        "token": token,
        "expires_at": "2099-01-01T00:00:00Z",
        "permissions": {"contents": "read", "metadata": "read", "statuses": "write"},
        "repository_selection": "selected",
    })
}

pub(super) fn installation(url: &str, repository: &Repository, app: u64, id: u64) -> Value {
    json!({
        "id": id,
        "app_id": app,
        "app_slug": "driftless",
        "account": owner(url, repository.owner()),
        "repository_selection": "selected",
        "access_tokens_url": format!("{url}/app/installations/{id}/access_tokens"),
        "repositories_url": format!("{url}/installation/repositories"),
        "html_url": format!("https://github.com/settings/installations/{id}"),
        "target_id": 1,
        "target_type": "Organization",
        "permissions": {"contents": "read", "metadata": "read", "statuses": "write"},
        "events": ["push"],
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "single_file_name": null,
        "suspended_at": null,
    })
}
