//! `GitRepository` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::source::AccessFrom;
use super::{FluxKind, Source, SourceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A `GitRepository`.
pub type GitRepository = Source<GitRepositorySpec>;

/// `spec` of a GitRepository.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.serviceAccountName) || (has(self.provider) && (self.provider == 'azure' || self.provider == 'aws'))",
     "message": "serviceAccountName can only be set when provider is 'azure' or 'aws'"},
]))]
pub struct GitRepositorySpec {
    /// The repository's address.
    #[schemars(regex(pattern = r"^(http|https|ssh)://.*$"))]
    pub url: String,
    /// The Secret with the credentials.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// `generic`, `github`, `azure` or `aws`.
    #[serde(default)]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "github"]))]
    pub provider: Option<String>,
    /// The service account for a cloud's login.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// How often to look.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// How long a look may take.
    #[serde(default)]
    #[schemars(regex(pattern = TIMEOUT), extend("x-default" = "60s"))]
    pub timeout: Option<String>,
    /// Which commit.
    #[serde(default, rename = "ref")]
    pub reference: Option<GitReference>,
    /// Which signatures are needed.
    #[serde(default)]
    pub verify: Option<GitVerification>,
    /// A proxy's address and credentials.
    #[serde(default)]
    pub proxy_secret_ref: Option<LocalRef>,
    /// Patterns of files to leave out, as `.gitignore` has them.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Leave everything as it is.
    #[serde(default)]
    pub suspend: bool,
    /// Fetch submodules.
    #[serde(default)]
    pub recurse_submodules: bool,
    /// Other repositories' files to put into this artifact.
    #[serde(default)]
    pub include: Vec<GitInclude>,
    /// Only these directories.
    #[serde(default)]
    pub sparse_checkout: Vec<String>,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub git_implementation: Option<String>,
    /// Of older versions; accepted and without effect, as in Flux.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub access_from: Option<AccessFrom>,
}

/// Which commit of a repository, as `GitRepository.spec.ref` says it. Later fields win over earlier ones, as in Flux:
/// commit, then name, semver, tag, branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GitReference {
    /// A branch; `master` when nothing else is given.
    pub branch: String,
    /// A tag.
    pub tag: String,
    /// A range of versions over the tags.
    pub semver: String,
    /// A full reference name such as `refs/heads/main` or `refs/pull/420/head`.
    pub name: String,
    /// A commit.
    pub commit: String,
}

/// Which signatures are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitVerification {
    /// What must be signed: the commit, the tag, or both.
    #[serde(default)]
    #[schemars(extend("enum" = ["head", "HEAD", "Tag", "TagAndHEAD"], "x-default" = "HEAD"))]
    pub mode: Option<String>,
    /// The Secret with the public keys.
    pub secret_ref: LocalRef,
}

/// Another repository's files to put into the artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitInclude {
    /// The GitRepository, in the object's namespace.
    pub repository: LocalRef,
    /// The directory in that repository; all of it when absent.
    #[serde(default)]
    pub from_path: Option<String>,
    /// The directory in the artifact; the repository's name when absent.
    #[serde(default)]
    pub to_path: Option<String>,
}

impl SourceSpec for GitRepositorySpec {
    const KIND: FluxKind = FluxKind::GitRepository;

    fn interval(&self) -> &str {
        &self.interval
    }

    fn suspend(&self) -> bool {
        self.suspend
    }
}

impl GitRepository {
    /// The reference, `master` when nothing is given (source-controller's default branch).
    pub fn reference(&self) -> GitReference {
        let mut reference = self.spec.reference.clone().unwrap_or_default();
        if reference == GitReference::default() {
            "master".clone_into(&mut reference.branch);
        }
        reference
    }

    /// A field that asks for something this version cannot do, as a sentence; nothing is silently ignored. `is_github`: the
    /// repository is read over GitHub's API, and not in git's own protocol.
    pub fn unsupported(&self, is_github: bool) -> Option<String> {
        let spec = &self.spec;
        let field = if spec.verify.is_some() {
            "spec.verify (signature verification)"
        } else if is_github && spec.proxy_secret_ref.is_some() {
            "spec.proxySecretRef of a repository at github.com"
        } else if is_github && spec.recurse_submodules {
            "spec.recurseSubmodules of a repository at github.com"
        } else if !spec.include.is_empty() {
            "spec.include"
        } else if !matches!(
            spec.provider.as_deref(),
            None | Some("generic" | "github" | "")
        ) {
            "spec.provider other than generic and github"
        } else {
            return None;
        };
        Some(format!(
            "{field} is not supported yet: remove the field, or keep this source with Flux's source-controller"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn what_only_servers_without_an_api_have() {
        let told = |url: &str, field: &str, value: Value| {
            let mut spec = json!({"url": url, "interval": "1m"});
            spec[field] = value;
            let object = json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1",
                "kind": "GitRepository",
                "metadata": {"name": "fleet", "namespace": "team-a"},
                "spec": spec,
            });
            let object = driftless_manifest::Object::new(object).unwrap();
            let repository = GitRepository::from_object(object).unwrap();
            repository.unsupported(url.contains("github.com"))
        };
        for (field, value) in [
            ("recurseSubmodules", json!(true)),
            ("proxySecretRef", json!({"name": "proxy"})),
        ] {
            let ours = told("https://git.example/acme/fleet", field, value.clone());
            assert_eq!(ours, None, "{field}");
            let github = told("https://github.com/acme/fleet", field, value).unwrap();
            let lead = format!("spec.{field} of a repository at github.com is not supported yet");
            assert!(github.starts_with(&lead), "{github}");
        }
    }
}
