//! Check runs, which only GitHub Apps may create.

use serde_json::{Value, json};

use super::repository::Repository;
use super::setup::Written;
use super::{GitHub, State};

/// The most annotations of one request.
const ANNOTATIONS: usize = 50;

impl GitHub {
    /// Returns the check runs of a commit, oldest first, each with all its annotations.
    pub fn check_runs(&self, full_name: &str, sha: &str) -> Vec<Value> {
        let state = self.shared.state();
        let all = state.checks.iter();
        all.filter(|run| run["repository"] == full_name.to_lowercase() && run["head_sha"] == sha)
            .cloned()
            .collect()
    }
}

/// Creates a check run.
pub(super) fn create(state: &mut State, repository: &Repository, body: &Value) -> Written {
    let sha = body["head_sha"].as_str().unwrap_or_default();
    if repository.resolve(sha).as_deref() != Some(sha) {
        return Err((422, "No commit found for SHA"));
    }
    if body["name"].as_str().unwrap_or_default().is_empty() {
        return Err((422, "Validation Failed: name"));
    }
    let id = state.checks.len() as u64 + 1;
    state.checks.push(json!({
        "id": id,
        "name": body["name"],
        "head_sha": sha,
        "repository": repository.full_name().to_lowercase(),
        "status": "queued",
        "conclusion": null,
        "output": {"title": null, "summary": null, "annotations_count": 0},
        "annotations": [],
    }));
    update(state, repository, id, body).map(|(_, run)| (201, run))
}

/// Changes a check run: its annotations are added to those that it has.
pub(super) fn update(state: &mut State, repository: &Repository, id: u64, body: &Value) -> Written {
    let name = repository.full_name().to_lowercase();
    let mut runs = state.checks.iter_mut();
    let run = runs.find(|run| run["id"] == id && run["repository"] == name);
    let run = run.ok_or((404, "Not Found"))?;
    let output = &body["output"];
    let added = output["annotations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if added.len() > ANNOTATIONS {
        return Err((422, "Invalid request: too many annotations"));
    }
    let is_whole = |one: &Value| {
        one["path"].as_str().is_some_and(|path| !path.is_empty())
            && one["start_line"].as_u64().is_some_and(|line| line > 0)
            && one["end_line"].is_u64()
            && one["message"].as_str().is_some_and(|text| !text.is_empty())
            && ["notice", "warning", "failure"]
                .contains(&one["annotation_level"].as_str().unwrap_or_default())
    };
    if !added.iter().all(is_whole) {
        return Err((422, "Invalid request: an annotation is not complete"));
    }
    if output.is_object() && (!output["title"].is_string() || !output["summary"].is_string()) {
        return Err((422, "Invalid request: title and summary are required"));
    }
    for field in ["status", "conclusion"] {
        if !body[field].is_null() {
            run[field] = body[field].clone();
        }
    }
    if output.is_object() {
        run["output"]["title"] = output["title"].clone();
        run["output"]["summary"] = output["summary"].clone();
    }
    if let Some(all) = run["annotations"].as_array_mut() {
        all.extend(added);
    }
    Ok((200, run.clone()))
}
