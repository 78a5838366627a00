//! Deliveries of Azure DevOps' service hooks (Microsoft Learn, "Service hook events", `git.push`).
//! A delivery is not signed, but has a password.

use super::signature::is_token;
use super::{Address, Delivery, Event, Refusal, Sender, read};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// The sender for dev.azure.com and servers with Azure DevOps.
pub struct AzureDevOps;

/// The used part of an event.
#[derive(Debug, Deserialize)]
struct Delivered {
    #[serde(rename = "eventType")]
    kind: String,
}

/// The used part of a push event.
#[derive(Debug, Deserialize)]
struct Push {
    resource: Resource,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    ref_updates: Vec<RefUpdate>,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
struct RefUpdate {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Repository {
    remote_url: String,
}

impl Sender for AzureDevOps {
    fn host(&self) -> &'static str {
        "Azure DevOps"
    }

    /// Returns whether a delivery has a password. Azure DevOps sends no header with the event.
    fn is_sender(&self, delivery: &Delivery<'_>) -> bool {
        self.proof(delivery).is_some()
    }

    fn proof<'a>(&self, delivery: &Delivery<'a>) -> Option<&'a str> {
        let login = (delivery.header)("authorization")?;
        let (scheme, login) = login.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then_some(login)
    }

    fn secret(&self) -> &'static str {
        "azuredevops/webhook"
    }

    fn verify(&self, secret: &[u8], proof: &str, _: &[u8]) -> bool {
        let login = STANDARD.decode(proof.trim()).ok();
        let login = login.and_then(|login| String::from_utf8(login).ok());
        let password = login.as_deref().and_then(|login| login.split_once(':'));
        is_token(secret, password.map(|(_, password)| password))
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal> {
        let event: Delivered = read("service hook", delivery.body)?;
        match event.kind.as_str() {
            "git.push" => push(delivery.body),
            other => Ok(Event::unused(other, "git.push")),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let push: Push = read("git.push", body)?;
    let updates = push.resource.ref_updates.into_iter();
    Ok(Event::Push {
        addresses: addresses(&push.resource.repository.remote_url),
        references: updates.map(|update| update.name).collect(),
    })
}

/// Returns the addresses of a repository over HTTPS and SSH. Those of the cloud have the
/// organization in the host or in the path.
fn addresses(url: &str) -> Vec<Address> {
    let mut found = vec![Address::Url(url.to_owned())];
    found.extend(cloud_addresses(url).into_iter().flatten().map(Address::Url));
    found
}

fn cloud_addresses(url: &str) -> Option<[String; 4]> {
    let (authority, path) = url.split_once("://")?.1.split_once('/')?;
    let host = authority.rsplit('@').next()?;
    let (organization, path) = match host.strip_suffix(".visualstudio.com") {
        Some(organization) => {
            let path = path.strip_prefix("DefaultCollection/").unwrap_or(path);
            (organization, path)
        }
        None if host == "dev.azure.com" => path.split_once('/')?,
        None => return None,
    };
    // The repository that a project begins with has its name, and a shorter address.
    let (project, name) = match path.strip_prefix("_git/") {
        Some(name) => (name, name),
        None => path.split_once("/_git/")?,
    };
    let (org, old) = (organization, format!("{organization}.visualstudio.com"));
    Some([
        format!("https://dev.azure.com/{org}/{path}"),
        format!("ssh://git@ssh.dev.azure.com/v3/{org}/{project}/{name}"),
        format!("https://{old}/{path}"),
        format!("ssh://git@vs-ssh.visualstudio.com/v3/{org}/{project}/{name}"),
    ])
}
