//! The commands that make a hub follow the directory of a new cluster, which does not happen
//! automatically.

use super::checkout::Checkout;
use super::environment::Environment;
use crate::error::Error;
use std::path::Path;

/// A command for the user to run next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The hub for which the command is right.
    pub when: &'static str,
    /// The command line to run.
    pub command: String,
}

/// Returns the command for a cluster on the branch that all environments share.
pub fn of_shared(dir: &Path, directory: &str) -> Vec<Next> {
    let repository = crate::fleet::origin_of(dir).unwrap_or_else(|| "OWNER/NAME".to_owned());
    vec![Next {
        when: "a hub for driftless serve",
        command: format!(
            "driftless serve --repository {repository} --branch main --path clusters/{directory}"
        ),
    }]
}

/// Returns the commands for a cluster of an environment. A hub has one root: if that is another
/// branch, the objects of the environment are applied once by hand, as the scripts do, and follow
/// the environment's branch from then on.
///
/// # Errors
/// Fails if the branch is not an environment, or its source cannot be parsed.
pub fn of_environment(checkout: &Checkout, dir: &Path, hub: &str) -> Result<Vec<Next>, Error> {
    let environment = Environment::of(checkout)?;
    let branch = environment.name();
    let directory = format!("clusters/{hub}");
    let url = Environment::url(checkout)?;
    let url = url.as_deref().unwrap_or("URL");
    Ok(vec![
        Next {
            when: "a hub without another root",
            command: format!(
                "driftless serve --repository {url} --branch {branch} --path {directory}"
            ),
        },
        Next {
            when: "a hub whose root is another branch, such as main, and stays that",
            command: format!(
                "driftless build {} | kubectl apply -f -",
                quoted(&dir.join(directory))
            ),
        },
    ])
}

/// Quotes a path for a shell, if needed.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text.trim_start_matches("./");
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "/._-+=@%".contains(one);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
