//! The comment of a pull request: one for each installation, which is edited in place.

use crate::record::Held;
use crate::report::{Body, Made};
use bytes::Bytes;
use driftless_fleet::plan::COMMENT_LIMIT;
use driftless_kernel::ports::{PortError, Ports, Precondition, PullRequest, PullRequests};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The room for the marker and the line about the commit.
const RESERVE: usize = 1024;
/// The time for which the link to the whole plan is valid. The credentials of the function, which
/// sign it, end after hours.
const LINK: Duration = Duration::from_secs(12 * 3600);
/// The most bytes of the whole plan in the bucket.
const MAX_WHOLE: usize = 16 << 20;

/// The comments of one pull request.
pub struct Comments<'a> {
    /// The ports of the installation.
    pub ports: &'a Ports,
    /// The pull requests of the Git host.
    pub pull_requests: &'a dyn PullRequests,
    /// The address of the repository.
    pub repository: &'a str,
    /// The number of the pull request.
    pub number: u64,
}

/// Returns the hidden line that marks the comment of this installation.
fn marker(ports: &Ports) -> String {
    let digest = hex::encode(Sha256::digest(ports.blobs.url("plans/")));
    let id = digest.get(..16).unwrap_or_default();
    format!("<!-- driftless plan {id} -->")
}

/// Renders the comment. A plan that is longer than a comment may be is also written to
/// the bucket, under `key`, and linked.
///
/// # Errors
/// The bucket's.
pub async fn text(
    ports: &Ports,
    key: &str,
    made: &Made,
    pull: &PullRequest,
) -> Result<String, PortError> {
    let limit = COMMENT_LIMIT - RESERVE;
    let mut body = made.body.render(MAX_WHOLE, None);
    if body.len() > limit {
        let put = ports
            .blobs
            .put(key, Bytes::from(body), Precondition::None)
            .await;
        put?;
        let link = ports.blobs.link(key, LINK).await?;
        body = made.body.render(limit, link.as_deref());
        if matches!(made.body, Body::Plan(..)) {
            body.push_str(&match link {
                Some(_) => format!(
                    "\nThe link is valid for {} hours at most, and ends earlier with the credentials of the function.\n",
                    LINK.as_secs() / 3600
                ),
                None => format!("\nThe whole plan is in `{}`.\n", ports.blobs.url(key)),
            });
        }
    }
    let head = pull.head_sha.get(..12).unwrap_or_default();
    Ok(format!(
        "{}\n{body}\n<sub>driftless, for {head}</sub>\n",
        marker(ports)
    ))
}

impl Comments<'_> {
    /// Writes the comment: edits the known one, or the one with the marker, else creates it.
    ///
    /// # Errors
    /// The Git host's, or the bucket's.
    pub async fn write(&self, held: &mut Held<'_>, text: &str) -> Result<(), PortError> {
        if let Some(id) = held.comment() {
            let edited = self.pull_requests.edit_comment(self.repository, id, text);
            if edited.await? {
                return Ok(());
            }
        }
        // A worker may have been cut off between the comment and its record.
        let own = self
            .pull_requests
            .own_comments(self.repository, self.number)
            .await?;
        let marker = marker(self.ports);
        let mut marked = own
            .into_iter()
            .filter(|comment| comment.body.starts_with(&marker))
            .map(|comment| comment.id);
        let id = match marked.next() {
            Some(id) => {
                let edited = self.pull_requests.edit_comment(self.repository, id, text);
                edited.await?;
                id
            }
            None => {
                let created = self
                    .pull_requests
                    .create_comment(self.repository, self.number, text);
                created.await?
            }
        };
        held.set_comment(id).await?;
        for doubled in marked {
            let deleted = self.pull_requests.delete_comment(self.repository, doubled);
            deleted.await?;
        }
        Ok(())
    }
}
