//! The event of a pull request: requests its plan if a hub has a root that follows the base branch.

use super::{DeliveryResult, Refusal};
use driftless_flux::shorten;
use driftless_kernel::ports::{PlanRequest, Ports};
use driftless_source::index;
use std::collections::BTreeSet;

/// Queues the plan of a pull request for the hubs whose roots follow its base branch. The event has
/// no hubs yet.
///
/// The namespace of a root's source has the name of the source. Whether the operator registered the
/// repository as that of the root is checked by the function that makes the plan: this one reads
/// no registration of a hub.
///
/// # Errors
/// [`Refusal::Malformed`] for an address that no source can have, else that of the bucket or the
/// queue.
pub async fn request(ports: &Ports, event: PlanRequest) -> Result<DeliveryResult, Refusal> {
    let malformed =
        |message: &str| Refusal::Malformed("pull_request".to_owned(), message.to_owned());
    let name = index::repository(&event.repository)
        .ok_or_else(|| malformed("the repository's address is not valid"))?;
    if [&event.head_sha, &event.base_sha]
        .into_iter()
        .any(|sha| !is_sha(sha))
    {
        return Err(malformed("a commit is not the hash of one"));
    }
    let reference = format!("refs/heads/{}", event.base_ref);
    let followers = index::followers(ports, &name, &reference).await?;
    let roots = followers
        .into_iter()
        .filter(|(_, source)| source.namespace == source.name);
    let hubs: BTreeSet<String> = roots.map(|(hub, _)| hub).collect();
    if hubs.is_empty() {
        let message = format!(
            "no root of a hub follows {} of {name}",
            shorten(&reference, 300)
        );
        return Ok(DeliveryResult::Ignored(message));
    }
    let request = PlanRequest {
        hubs: hubs.into_iter().collect(),
        ..event
    };
    match ports.queue.plan(&request).await? {
        true => Ok(DeliveryResult::Planned(request)),
        false => Ok(DeliveryResult::Ignored(
            "this installation makes no plans: the parameter Plans of the stack deploys their function, and driftless serve has none"
                .to_owned(),
        )),
    }
}

fn is_sha(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
