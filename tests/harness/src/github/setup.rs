//! The endpoints that set up a repository: they write trees, commits, references, files, webhooks,
//! deploy keys and repositories.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::access::Caller;
use super::repository::{Change, Repository};
use super::webhook::Hook;
use super::{Shared, State, json as shape};

/// The status and body of an answer, or the status and message of GitHub's error.
pub(super) type Written = Result<(u16, Value), (u16, &'static str)>;

/// A deploy key of a repository.
#[derive(Clone, Debug)]
pub struct DeployKey {
    /// `owner/name`, in lower case.
    pub repository: String,
    /// The title of the key, as the user sees it.
    pub title: String,
    /// The public key.
    pub key: String,
    /// True if the key may not write.
    pub read_only: bool,
}

/// Serves `POST /repos/.../git/trees`.
pub(super) fn tree(repository: &Repository, body: &Value) -> Written {
    let base = body["base_tree"].as_str().unwrap_or_default();
    let entries = body["tree"].as_array().into_iter().flatten();
    let files: Vec<(&str, &str)> = entries
        .filter_map(|entry| Some((entry["path"].as_str()?, entry["content"].as_str()?)))
        .collect();
    match repository.write_tree(base, &files) {
        Some(sha) => Ok((201, json!({"sha": sha}))),
        None => Err((422, "base_tree is not a valid tree oid")),
    }
}

/// Serves `POST /repos/.../git/commits`.
pub(super) fn commit(repository: &Repository, body: &Value) -> Written {
    let tree = body["tree"].as_str().unwrap_or_default();
    let message = body["message"].as_str().unwrap_or_default();
    let mut args = vec!["commit-tree", tree, "-m", message];
    for parent in body["parents"].as_array().into_iter().flatten() {
        args.extend(["-p", parent.as_str().unwrap_or_default()]);
    }
    match repository.ask(args) {
        Some(sha) => Ok((201, json!({"sha": sha}))),
        None => Err((422, "Tree SHA does not exist")),
    }
}

/// Serves `POST /repos/.../git/refs`.
pub(super) fn create_reference(repository: &Repository, url: &str, body: &Value) -> Written {
    let name = body["ref"].as_str().unwrap_or_default();
    let sha = body["sha"].as_str().unwrap_or_default();
    if repository.resolve(name).is_some() {
        return Err((422, "Reference already exists"));
    }
    match repository.ask(["update-ref", name, sha]) {
        Some(_) => Ok((201, shape::reference(url, repository, name, sha))),
        None => Err((422, "Object does not exist")),
    }
}

/// Serves `PATCH /repos/.../git/refs/...`.
pub(super) fn update_reference(
    repository: &Repository,
    url: &str,
    name: &str,
    body: &Value,
) -> Written {
    let full = format!("refs/{name}");
    let sha = body["sha"].as_str().unwrap_or_default();
    let Some(old) = repository.resolve(&full) else {
        return Err((422, "Reference does not exist"));
    };
    let forward = repository.ask(["merge-base", "--is-ancestor", &old, sha]);
    if forward.is_none() && body["force"] != true {
        return Err((422, "Update is not a fast forward"));
    }
    match repository.ask(["update-ref", &full, sha]) {
        Some(_) => Ok((200, shape::reference(url, repository, &full, sha))),
        None => Err((422, "Object does not exist")),
    }
}

/// Serves `PUT /repos/.../contents/...`.
pub(super) fn put_file(repository: &Repository, path: &str, body: &Value) -> Written {
    let content = body["content"].as_str().unwrap_or_default();
    let Ok(content) = STANDARD.decode(content) else {
        return Err((422, "content is not valid Base64"));
    };
    let branch = body["branch"].as_str().unwrap_or("main");
    let message = body["message"].as_str().unwrap_or_default();
    let sha = repository.commit(branch, &[Change::write(path, content)], message);
    Ok((201, json!({"commit": {"sha": sha}})))
}

/// Serves `GET /repos/.../hooks`, without the secrets.
pub(super) fn hooks(state: &State) -> Value {
    let hook = |(id, hook): (usize, &Hook)| {
        json!({"id": id, "name": "web", "active": true, "events": hook.events,
            "config": {"url": hook.url, "content_type": "json", "secret": "********"}})
    };
    Value::Array(state.hooks.iter().enumerate().map(hook).collect())
}

/// Serves `POST /repos/.../hooks`, and `PATCH` of the hook `id`.
pub(super) fn set_hook(state: &mut State, id: Option<usize>, body: &Value) -> Written {
    let config = &body["config"];
    let text = |field: &str| config[field].as_str().unwrap_or_default().to_owned();
    if config["content_type"] != "json" || body["active"] != true {
        return Err((422, "Validation Failed"));
    }
    let events = body["events"].as_array().into_iter().flatten();
    let events = events.filter_map(Value::as_str).map(str::to_owned);
    let hook = Hook::new(text("url"), text("secret"), events.collect());
    let (status, id) = match id {
        None => {
            state.hooks.push(hook);
            (201, state.hooks.len() - 1)
        }
        Some(id) => match state.hooks.get_mut(id) {
            Some(known) => {
                *known = hook;
                (200, id)
            }
            None => return Err((404, "Not Found")),
        },
    };
    Ok((status, json!({"id": id})))
}

/// Serves `GET /repos/.../keys`.
pub(super) fn keys(state: &State, repository: &Repository) -> Value {
    let name = repository.full_name().to_lowercase();
    let of_repository = state
        .deploy_keys
        .iter()
        .filter(|key| key.repository == name);
    let key = |(id, key): (usize, &DeployKey)| json!({"id": id, "title": key.title, "key": key.key, "read_only": key.read_only});
    Value::Array(of_repository.enumerate().map(key).collect())
}

/// Serves `POST /repos/.../keys`.
pub(super) fn add_key(state: &mut State, repository: &Repository, body: &Value) -> Written {
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    // GitHub omits the comment of a key.
    let key: Vec<_> = text("key").split(' ').take(2).map(str::to_owned).collect();
    let key = key.join(" ");
    if state.deploy_keys.iter().any(|known| known.key == key) {
        return Err((422, "key is already in use"));
    }
    state.deploy_keys.push(DeployKey {
        repository: repository.full_name().to_lowercase(),
        title: text("title"),
        key,
        read_only: body["read_only"] == true,
    });
    Ok((201, json!({"id": state.deploy_keys.len()})))
}

/// Serves `POST /orgs/ORG/repos`. The token of the caller gets access to the repository.
pub(super) fn create(shared: &Shared, caller: &Caller, owner: &str, body: &Value) -> Written {
    let Caller::Token(token) = caller else {
        return Err((401, "Requires authentication"));
    };
    let name = format!("{owner}/{}", body["name"].as_str().unwrap_or_default());
    let mut state = shared.state();
    let id = 1000 + state.repositories.len() as u64;
    let repository = Arc::new(Repository::create(&shared.directory, &name, id));
    repository.set_private(body["private"] == true);
    if body["auto_init"] == true {
        repository.commit(
            "main",
            &[Change::write("README.md", "# fleet\n")],
            "Initial commit",
        );
    }
    state.access.add_token(token, &[&name]);
    let answer = shape::repository(&shared.url, &repository);
    state.repositories.insert(name.to_lowercase(), repository);
    Ok((201, answer))
}
