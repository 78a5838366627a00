//! The kind `GitRepository` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::source::AccessFrom;
use super::{FluxKind, Source, SourceSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A GitRepository object of Flux.
pub type GitRepository = Source<GitRepositorySpec>;

/// The `spec` of a GitRepository.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.serviceAccountName) || (has(self.provider) && (self.provider == 'azure' || self.provider == 'aws'))",
     "message": "serviceAccountName can only be set when provider is 'azure' or 'aws'"},
]))]
pub struct GitRepositorySpec {
    /// The URL of the repository.
    #[schemars(regex(pattern = r"^(http|https|ssh)://.*$"))]
    pub url: String,
    /// The Secret with the credentials.
    #[serde(default)]
    pub secret_ref: Option<LocalRef>,
    /// The provider of the login: `generic`, `github`, `azure` or `aws`.
    #[serde(default)]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "github"]))]
    pub provider: Option<String>,
    /// The service account whose cloud identity is used.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// The interval between two checks of the source, such as `5m`.
    #[schemars(regex(pattern = DURATION))]
    pub interval: String,
    /// The timeout of a check.
    #[serde(default)]
    #[schemars(regex(pattern = TIMEOUT), extend("x-default" = "60s"))]
    pub timeout: Option<String>,
    /// The branch, tag, version range, reference or commit to fetch.
    #[serde(default, rename = "ref")]
    pub reference: Option<GitReference>,
    /// The signatures that the commit or tag must have.
    #[serde(default)]
    pub verify: Option<GitVerification>,
    /// The Secret with the `address` and credentials of a proxy.
    #[serde(default)]
    pub proxy_secret_ref: Option<LocalRef>,
    /// Patterns of files to leave out, in the format of `.gitignore`.
    #[serde(default)]
    pub ignore: Option<String>,
    /// Suspends the reconciliation of this object.
    #[serde(default)]
    pub suspend: bool,
    /// Fetches submodules also.
    #[serde(default)]
    pub recurse_submodules: bool,
    /// Files of other repositories to add to the artifact.
    #[serde(default)]
    pub include: Vec<GitInclude>,
    /// The directories to fetch; all when empty.
    #[serde(default)]
    pub sparse_checkout: Vec<String>,
    /// A field of older versions; accepted, without effect as in Flux.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub git_implementation: Option<String>,
    /// A field of older versions; accepted, without effect as in Flux.
    #[serde(default)]
    #[schemars(extend("x-older" = true))]
    pub access_from: Option<AccessFrom>,
}

/// The reference to a commit in `GitRepository.spec.ref`. If several fields are set, the order of
/// precedence is that of Flux: commit, name, semver, tag, branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GitReference {
    /// The branch; `master` if no field is set.
    pub branch: String,
    /// The tag to fetch.
    pub tag: String,
    /// A semver range: fetches the tag with the highest version in it.
    pub semver: String,
    /// A full reference name such as `refs/heads/main` or `refs/pull/420/head`.
    pub name: String,
    /// The SHA of the commit.
    pub commit: String,
}

/// The signatures that the commit or tag must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitVerification {
    /// The objects that must be signed: the commit, the tag, or both.
    #[serde(default)]
    #[schemars(extend("enum" = ["head", "HEAD", "Tag", "TagAndHEAD"], "x-default" = "HEAD"))]
    pub mode: Option<String>,
    /// The Secret with the public keys.
    pub secret_ref: LocalRef,
}

/// Files of another repository to add to the artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitInclude {
    /// The GitRepository, in the same namespace.
    pub repository: LocalRef,
    /// The directory in that repository; its root when absent.
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
    /// Returns the reference; branch `master` if none is set, which is source-controller's default.
    pub fn reference(&self) -> GitReference {
        let mut reference = self.spec.reference.clone().unwrap_or_default();
        if reference == GitReference::default() {
            "master".clone_into(&mut reference.branch);
        }
        reference
    }

    /// Returns a message about a field that requests an unsupported feature; `None` if all fields
    /// are supported. `is_github` is true if the repository is read over GitHub's API, and not with
    /// the Git protocol.
    pub fn unsupported(&self, is_github: bool) -> Option<String> {
        let spec = &self.spec;
        let field = if spec.verify.is_some() {
            "spec.verify (signature verification)"
        } else if is_github && spec.proxy_secret_ref.is_some() {
            "spec.proxySecretRef of a repository at github.com"
        } else if is_github && spec.recurse_submodules {
            "spec.recurseSubmodules of a repository at github.com"
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
    fn fields_that_github_does_not_support() {
        let unsupported = |url: &str, field: &str, value: Value| {
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
            let other = unsupported("https://git.example/acme/fleet", field, value.clone());
            assert_eq!(other, None, "{field}");
            let github = unsupported("https://github.com/acme/fleet", field, value).unwrap();
            let prefix = format!("spec.{field} of a repository at github.com is not supported yet");
            assert!(github.starts_with(&prefix), "{github}");
        }
    }
}
