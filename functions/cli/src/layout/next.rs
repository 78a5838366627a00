//! What starts the following of a cluster that was added: nothing follows a new directory by itself.

use super::checkout::Checkout;
use super::environment::Environment;
use crate::error::Error;
use std::path::Path;

/// A command to run next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// When it is the one to run.
    pub when: &'static str,
    /// The command.
    pub command: String,
}

/// For a cluster of the branch that all environments share.
pub fn of_shared(dir: &Path, directory: &str) -> Vec<Next> {
    let repository = crate::fleet::origin_of(dir).unwrap_or_else(|| "OWNER/NAME".to_owned());
    vec![Next {
        when: "a hub that driftless serve is to serve",
        command: format!(
            "driftless serve --repository {repository} --branch main --path clusters/{directory}"
        ),
    }]
}

/// For a cluster of an environment. A hub has one root: where it is another branch, the objects of the environment are applied by
/// hand once, as the scripts do, and follow the environment's branch from then on.
///
/// # Errors
/// The branch is not an environment, or its source cannot be read.
pub fn of_environment(checkout: &Checkout, dir: &Path, hub: &str) -> Result<Vec<Next>, Error> {
    let environment = Environment::of(checkout)?;
    let branch = environment.name();
    let directory = format!("clusters/{hub}");
    let url = Environment::url(checkout)?;
    let url = url.as_deref().unwrap_or("URL");
    Ok(vec![
        Next {
            when: "a hub that follows no other branch",
            command: format!(
                "driftless serve --repository {url} --branch {branch} --path {directory}"
            ),
        },
        Next {
            when: "a hub that follows another branch already, such as main, which stays its root",
            command: format!(
                "driftless build {} | kubectl apply -f -",
                quoted(&dir.join(directory))
            ),
        },
    ])
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text.trim_start_matches("./");
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/._-+=@%".contains(one);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
