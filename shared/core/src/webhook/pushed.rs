//! The pushed commit and its author in the payload of a push, of every kind of host. A payload
//! without them is not an error: they are only for the audit log.

use driftless_kernel::ports::PushedCommit;
use serde::Deserialize;

/// The used part of a push. GitHub has `head_commit`; GitHub, GitLab, Gitea and Forgejo have
/// `after` and `commits`; Azure DevOps has `resource`, Bitbucket Cloud `push`, and Bitbucket's
/// servers `changes`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    after: Option<String>,
    head_commit: Option<Commit>,
    commits: Vec<Commit>,
    resource: Option<Resource>,
    push: Option<Push>,
    changes: Vec<ServerChange>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Commit {
    #[serde(alias = "commitId", alias = "hash")]
    id: String,
    author: Author,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Author {
    name: String,
    email: String,
    /// The whole author, of Bitbucket Cloud.
    raw: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    commits: Vec<Commit>,
    ref_updates: Vec<RefUpdate>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RefUpdate {
    new_object_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Push {
    changes: Vec<Change>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Change {
    new: Option<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    target: Commit,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ServerChange {
    to_hash: String,
}

impl Author {
    fn text(&self) -> String {
        match (self.raw.as_str(), self.email.as_str()) {
            ("", "") => self.name.clone(),
            ("", email) => format!("{} <{email}>", self.name),
            (raw, _) => raw.to_owned(),
        }
    }
}

/// Returns the commit that a push of one reference has made the newest; of a push of several ones
/// that of the first.
pub fn commit(body: &[u8], delivery: &str) -> Option<PushedCommit> {
    let payload: Payload = serde_json::from_slice(body).ok()?;
    let mut commits = payload.commits;
    commits.extend(payload.head_commit);
    let mut sha = payload.after;
    if let Some(Resource {
        commits: pushed,
        ref_updates,
    }) = payload.resource
    {
        commits.extend(pushed);
        sha = ref_updates.into_iter().next().map(|one| one.new_object_id);
    }
    let mut changes = payload.push.into_iter().flat_map(|push| push.changes);
    if let Some(target) = changes.find_map(|change| Some(change.new?.target)) {
        sha = Some(target.id.clone());
        commits.push(target);
    }
    let mut changes = payload.changes.into_iter();
    let sha = sha.or_else(|| changes.next().map(|change| change.to_hash))?;
    let author = commits.iter().find(|commit| commit.id == sha);
    let author = author.map(|commit| commit.author.text());
    Some(PushedCommit::new(
        &sha,
        &author.unwrap_or_default(),
        delivery,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Returns the body of a recorded event.
    fn body(event: &str) -> String {
        let event: Value = serde_json::from_str(event).unwrap();
        event["body"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_author_of_the_newest_commit_is_read() {
        let sha = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
        let ada = "Ada Example <ada@example.com>";
        for (event, author) in [
            (include_str!("../../../../events/webhook-push.json"), ada),
            (
                include_str!("../../../../events/webhook-gitlab-push.json"),
                ada,
            ),
            (
                include_str!("../../../../events/webhook-gitea-push.json"),
                ada,
            ),
            (
                include_str!("../../../../events/webhook-azuredevops-push.json"),
                ada,
            ),
            // These have no author.
            (
                include_str!("../../../../events/webhook-bitbucket-push.json"),
                "",
            ),
            (
                include_str!("../../../../events/webhook-bitbucket-server-push.json"),
                "",
            ),
        ] {
            let found = commit(body(event).as_bytes(), "d-1").unwrap();
            assert_eq!(found, PushedCommit::new(sha, author, "d-1"));
        }
        let raw = r#"{"push": {"changes": [{"new": {"target": {"hash": "1", "author": {"raw": "Ada <a@b>"}}}}]}}"#;
        assert_eq!(commit(raw.as_bytes(), "").unwrap().author, "Ada <a@b>");
    }

    #[test]
    fn a_payload_without_a_commit_has_none() {
        for body in ["", "[]", "{}", r#"{"after": 1}"#, r#"{"commits": "x"}"#] {
            assert_eq!(commit(body.as_bytes(), "d"), None, "{body}");
        }
        // The author of another commit is not that of the newest.
        let other =
            r#"{"after": "2", "commits": [{"id": "1", "author": {"name": "A\u0007da\n"}}]}"#;
        let found = commit(other.as_bytes(), "").unwrap();
        assert_eq!((&*found.sha, &*found.author), ("2", ""));
        let own = other.replace("\"2\"", "\"1\"");
        assert_eq!(commit(own.as_bytes(), "").unwrap().author, "Ada");
    }
}
