//! The kind `GitRepository` of source.toolkit.fluxcd.io.

use super::kustomization::LocalRef;
use super::schema::{DURATION, TIMEOUT};
use super::source::AccessFrom;
use super::{FluxKind, FluxSpec, Source, SourceSpec, SourceStatus};
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

impl GitReference {
    /// Returns whether the field that counts names a tag, or a range of them.
    pub fn is_tag(&self) -> bool {
        match (self.commit.as_str(), self.name.as_str()) {
            ("", "") => !self.semver.is_empty() || !self.tag.is_empty(),
            ("", name) => name.starts_with("refs/tags/"),
            _ => false,
        }
    }
}

impl GitVerification {
    /// Returns the mode, by default `HEAD`.
    pub fn mode(&self) -> &str {
        match self.mode.as_deref() {
            Some(mode @ ("Tag" | "TagAndHEAD")) => mode,
            _ => "HEAD",
        }
    }

    /// Returns whether the commit must be signed.
    pub fn verifies_head(&self) -> bool {
        self.mode() != "Tag"
    }

    /// Returns whether the tag must be signed.
    pub fn verifies_tag(&self) -> bool {
        self.mode() != "HEAD"
    }
}

impl FluxSpec for GitRepositorySpec {
    const KIND: FluxKind = FluxKind::GitRepository;
    type Status = SourceStatus;
}

impl SourceSpec for GitRepositorySpec {
    fn interval(&self) -> &str {
        &self.interval
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_tags() {
        let of = |field: &str, value: &str| {
            let reference = serde_json::json!({ field: value });
            serde_json::from_value::<GitReference>(reference).unwrap()
        };
        for (field, value) in [("tag", "v1"), ("semver", "1.x"), ("name", "refs/tags/v1")] {
            assert!(of(field, value).is_tag(), "{field}");
        }
        for (field, value) in [("branch", "v1"), ("name", "refs/heads/v1"), ("commit", "a")] {
            assert!(!of(field, value).is_tag(), "{field}");
        }
        // A commit or a full name counts before a tag.
        let mut both = of("tag", "v1");
        both.commit = "a".to_owned();
        assert!(!both.is_tag());
    }

    #[test]
    fn modes_of_verification() {
        let of = |mode: &str| GitVerification {
            mode: Some(mode.to_owned()),
            ..GitVerification::default()
        };
        let all = |verify: &GitVerification| (verify.verifies_head(), verify.verifies_tag());
        for head in [of("HEAD"), of("head"), of(""), GitVerification::default()] {
            assert_eq!((all(&head), head.mode()), ((true, false), "HEAD"));
        }
        assert_eq!(all(&of("Tag")), (false, true));
        assert_eq!(all(&of("TagAndHEAD")), (true, true));
    }
}
