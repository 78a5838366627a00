//! The GitRepositories of an environment and of its tenants.

use super::checkout::Checkout;
use super::edit::{self, Field, File, Target};
use super::manifests::{self, Api};
use crate::error::Error;

const KIND: &str = "GitRepository";
/// The fields of `spec.ref` that take precedence over a branch.
const PINS: [&str; 4] = ["name", "commit", "semver", "tag"];

/// A GitRepository that follows a branch.
pub struct Source<'a> {
    /// The name of the object.
    pub name: &'a str,
    /// The namespace of the object.
    pub namespace: &'a str,
    /// The repository's URL.
    pub url: &'a str,
    /// The branch that it follows.
    pub branch: &'a str,
}

impl Source<'_> {
    /// Writes the object, or sets the URL and branch of the existing one.
    ///
    /// # Errors
    /// Fails if the file does not have the object, the object cannot be edited, or follows for
    /// example a tag or a commit.
    pub fn put(&self, checkout: &mut Checkout, api: Api, path: &str) -> Result<(), Error> {
        let text = match checkout.text(path)? {
            Some(text) => self.set(path, &text, self.name, &[])?,
            None => api.git(self.name, self.namespace, self.url, self.branch),
        };
        checkout.put(path, text);
        Ok(())
    }

    /// Returns a file that has the object with an earlier name, with the name, namespace, URL and
    /// branch of this one.
    ///
    /// # Errors
    /// Fails as [`Source::put`] does.
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
                "{path}:{line}: spec.ref.{pin} of {KIND} '{name}' takes precedence over a branch: the branch '{}' would not be followed",
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

/// Returns the URL of the first GitRepository in a file.
///
/// # Errors
/// Fails if the file is not valid YAML.
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
