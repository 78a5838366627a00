//! The GitRepositories of an environment and of its tenants.

use super::checkout::Checkout;
use super::edit::{self, Field, File, Target};
use super::manifests::{self, Api};
use crate::error::Error;

const KIND: &str = "GitRepository";
/// Fields of `spec.ref` that come before a branch.
const PINS: [&str; 4] = ["name", "commit", "semver", "tag"];

/// What a GitRepository is to follow.
pub struct Source<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The repository's URL.
    pub url: &'a str,
    /// The branch.
    pub branch: &'a str,
}

impl Source<'_> {
    /// Writes the object, or sets URL and branch of the one that is in the file.
    ///
    /// # Errors
    /// The file does not have the object, or has it in a form that cannot be edited; it follows a tag, a commit or the like.
    pub fn put(&self, checkout: &mut Checkout, api: Api, path: &str) -> Result<(), Error> {
        let text = match checkout.text(path)? {
            Some(text) => self.set(path, &text, self.name, &[])?,
            None => api.git(self.name, self.namespace, self.url, self.branch),
        };
        checkout.put(path, text);
        Ok(())
    }

    /// The text of a file that has the object under an earlier name, with this one's name, namespace, URL and branch.
    ///
    /// # Errors
    /// As [`Source::put`].
    pub fn renamed(&self, path: &str, text: &str, earlier: &str) -> Result<String, Error> {
        let more: [Field<'_>; 2] = [
            (&["metadata", "namespace"], self.namespace),
            (&["metadata", "name"], self.name),
        ];
        self.set(path, text, earlier, &more)
    }

    fn set(&self, path: &str, text: &str, name: &str, more: &[Field<'_>]) -> Result<String, Error> {
        let target = Target { kind: KIND, name };
        let file = File::read(path, text)?;
        let document = &file.documents[file.find(target)?];
        let reference = document.get("spec").and_then(|spec| spec.get("ref"));
        let field = |name: &str| reference.and_then(|reference| reference.get(name));
        let branch = field("branch").and_then(|branch| branch.text());
        let pin = PINS.into_iter().find_map(|pin| Some((pin, field(pin)?)));
        if let Some((pin, node)) = pin
            && branch != Some(self.branch)
        {
            let line = node.line;
            return Err(Error::new(format!(
                "{path}:{line}: spec.ref.{pin} of {KIND} '{name}' comes before a branch: the branch '{}' would not be followed",
                self.branch
            ))
            .next(format!("remove spec.ref.{pin} from the file, and run the command again")));
        }
        let fields: [Field<'_>; 2] = [
            (&["spec", "url"], self.url),
            (&["spec", "ref", "branch"], self.branch),
        ];
        let fields: Vec<Field<'_>> = fields.iter().chain(more).copied().collect();
        edit::set(path, text, target, &fields)
    }
}

/// The URL of the first GitRepository in a file.
///
/// # Errors
/// The file is not YAML.
pub fn url(path: &str, text: &str) -> Result<Option<String>, Error> {
    let file = File::read(path, text)?;
    let documents = file.documents.iter();
    let mut sources = documents.filter(|document| {
        let kind = document.get("kind");
        kind.and_then(|kind| kind.text()) == Some(KIND)
    });
    let url = sources.find_map(|source| source.get("spec")?.get("url")?.text());
    Ok(url.and_then(|url| manifests::url(url).ok()))
}
