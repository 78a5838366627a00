//! Settings of a cluster's API server that a repository may rely on: feature gates, and versions
//! that are off by default.

use crate::error::Error;
use crate::fleet::Fleet;
use driftless_manifest::{FileTree, Gvk};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The gate that a HorizontalPodAutoscaler needs for `minReplicas: 0`.
pub const SCALE_TO_ZERO: &str = "HPAScaleToZero";

/// Kinds of Kubernetes with the versions that an API server serves only if its runtime-config
/// enables them, and whether they are namespaced (Kubernetes 1.34).
const OPT_IN_VERSIONS: [(&str, &str, &[&str], bool); 14] = [
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        &["v1alpha1", "v1beta1"],
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        &["v1alpha1", "v1beta1"],
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        &["v1alpha1", "v1beta1"],
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        &["v1alpha1", "v1beta1"],
        false,
    ),
    (
        "certificates.k8s.io",
        "ClusterTrustBundle",
        &["v1alpha1", "v1beta1"],
        false,
    ),
    (
        "certificates.k8s.io",
        "PodCertificateRequest",
        &["v1alpha1", "v1beta1"],
        true,
    ),
    (
        "coordination.k8s.io",
        "LeaseCandidate",
        &["v1alpha2", "v1beta1"],
        true,
    ),
    (
        "resource.k8s.io",
        "DeviceClass",
        &["v1alpha3", "v1beta1", "v1beta2"],
        false,
    ),
    (
        "resource.k8s.io",
        "ResourceClaim",
        &["v1alpha3", "v1beta1", "v1beta2"],
        true,
    ),
    (
        "resource.k8s.io",
        "ResourceClaimTemplate",
        &["v1alpha3", "v1beta1", "v1beta2"],
        true,
    ),
    (
        "resource.k8s.io",
        "ResourceSlice",
        &["v1alpha3", "v1beta1", "v1beta2"],
        false,
    ),
    (
        "storage.k8s.io",
        "VolumeAttributesClass",
        &["v1alpha1", "v1beta1"],
        false,
    ),
    (
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        &["v1alpha1", "v1beta1"],
        false,
    ),
    (
        "networking.k8s.io",
        "ServiceCIDR",
        &["v1alpha1", "v1beta1"],
        false,
    ),
];

/// The name of a gate or version, and whether it is enabled.
pub type Setting = (String, bool);

/// The reason that a string does not have the form of a setting.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSetting {
    /// There is no `=`.
    #[error("expected NAME=true or NAME=false")]
    Form,
    /// The value is another one.
    #[error("{name} is set to '{value}': expected true or false")]
    Value {
        /// The name of the setting.
        name: String,
        /// The value after the equals sign.
        value: String,
    },
}

/// Reads `NAME=true` or `NAME=false`.
///
/// # Errors
/// The form is different.
pub fn parse(text: &str) -> Result<Setting, InvalidSetting> {
    let (name, value) = text.split_once('=').ok_or(InvalidSetting::Form)?;
    match value {
        "true" => Ok((name.to_owned(), true)),
        "false" => Ok((name.to_owned(), false)),
        _ => Err(InvalidSetting::Value {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
    }
}

/// The known feature gates and API versions of the fleet's API servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiServer {
    gates: BTreeMap<String, bool>,
    versions: BTreeMap<String, bool>,
}

impl ApiServer {
    /// Reads the settings that files configure: files of Talos (`cluster.apiServer.extraArgs`), k3s
    /// (`kube-apiserver-arg`) and kubeadm (`apiServer.extraArgs`), also in templates and patches.
    pub fn of(trees: &[&FileTree]) -> Self {
        let mut all = Self::default();
        for tree in trees {
            for (path, _) in tree.index().iter() {
                let text = tree
                    .content(path)
                    .and_then(|text| std::str::from_utf8(text).ok());
                let mentions = |text: &&str| {
                    (text.contains("apiServer:") || text.contains("kube-apiserver-arg"))
                        && (text.contains("feature-gates") || text.contains("runtime-config"))
                };
                if let Some(text) = text.filter(mentions) {
                    all.read(text);
                }
            }
        }
        all
    }

    /// Reads the settings that the files in a fleet's directories configure.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn of_fleet(fleet: &Fleet) -> Result<Self, Error> {
        let trees = fleet.git.all()?;
        let trees: Vec<&FileTree> = trees.iter().map(|(_, tree)| tree).collect();
        Ok(Self::of(&trees))
    }

    /// Adds the settings of the command line, which override those of files.
    pub fn set(&mut self, gates: &[Setting], versions: &[Setting]) {
        self.gates.extend(gates.iter().cloned());
        self.versions.extend(versions.iter().cloned());
    }

    /// Returns whether a gate is enabled, or `None` if that is not known.
    pub fn gate(&self, name: &str) -> Option<bool> {
        self.gates
            .get(name)
            .or_else(|| self.gates.get("AllAlpha"))
            .copied()
    }

    /// Returns whether a version is served, or `None` if that is not known.
    pub fn version(&self, gvk: &Gvk) -> Option<bool> {
        let stage = match gvk.version.contains("alpha") {
            true => "api/alpha",
            false => "api/beta",
        };
        let version = gvk.api_version();
        let plural = gvk.kind.to_lowercase() + "s";
        let names = [
            format!("{version}/{plural}"),
            version,
            stage.to_owned(),
            "api/all".to_owned(),
        ];
        names
            .iter()
            .find_map(|name| self.versions.get(name).copied())
    }

    /// Reads the blocks with an API server's arguments line by line, because the file may be a
    /// template.
    fn read(&mut self, text: &str) {
        static FLAG: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r#"(feature-gates|runtime-config)["']?\s*[:=]\s*["']?([A-Za-z0-9_./=,-]+)"#)
                .ok()
        });
        let Some(flag) = FLAG.as_ref() else {
            return;
        };
        let mut block: Option<usize> = None;
        let mut pending: Option<&str> = None;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let indent = line.len() - line.trim_start().len();
            let content = line.trim_start();
            if block.is_some_and(|at| indent < at || (indent == at && !content.starts_with('-'))) {
                block = None;
            }
            if block.is_none() {
                let begins = content.starts_with("apiServer:")
                    || content
                        .trim_start_matches("- ")
                        .starts_with("kube-apiserver-arg");
                block = begins.then_some(indent);
                pending = None;
            }
            if block.is_none() {
                continue;
            }
            if let Some(found) = flag.captures(content) {
                self.add(&found[1], &found[2]);
            } else if let Some(name) = ["feature-gates", "runtime-config"]
                .into_iter()
                .find(|name| content.trim_end().ends_with(name))
            {
                // kubeadm lists names and values separately.
                pending = Some(name);
            } else if let (Some(name), Some(value)) = (pending, content.strip_prefix("value:")) {
                self.add(name, value.trim().trim_matches(['"', '\'']));
                pending = None;
            }
        }
    }

    fn add(&mut self, flag: &str, values: &str) {
        let all = match flag {
            "feature-gates" => &mut self.gates,
            _ => &mut self.versions,
        };
        // A version without a value is enabled.
        let entries = values.split(',').filter(|entry| !entry.is_empty());
        all.extend(entries.filter_map(|entry| match entry.contains('=') {
            true => parse(entry).ok(),
            false => Some((entry.to_owned(), true)),
        }));
    }
}

/// Returns whether a kind is namespaced if this version of it is off by default, else `None`.
pub fn off_by_default(gvk: &Gvk) -> Option<bool> {
    let found = OPT_IN_VERSIONS
        .into_iter()
        .find(|(group, kind, versions, _)| {
            *group == gvk.group && *kind == gvk.kind && versions.contains(&&*gvk.version)
        });
    found.map(|(_, _, _, namespaced)| namespaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_talos_k3s_and_kubeadm() {
        let alpha = Gvk::new(
            "admissionregistration.k8s.io/v1alpha1",
            "MutatingAdmissionPolicy",
        );
        for text in [
            "cluster:\n  apiServer:\n    extraArgs:\n      runtime-config: admissionregistration.k8s.io/v1alpha1=true\n      feature-gates: HPAScaleToZero=true,Other=false\n",
            "patches:\n  - |-\n    cluster:\n      apiServer:\n        extraArgs:\n          # {{ note }}\n          feature-gates: HPAScaleToZero=true,Other=false\n          runtime-config: \"admissionregistration.k8s.io/v1alpha1\"\n",
            "kube-apiserver-arg:\n- feature-gates=HPAScaleToZero=true,Other=false\n- \"runtime-config=api/all=true\"\n",
            "apiServer:\n  extraArgs:\n  - name: feature-gates\n    value: HPAScaleToZero=true,Other=false\n  - name: runtime-config\n    value: api/alpha=true\n",
        ] {
            let tree = FileTree::from_files([("a.yaml", text)]).unwrap();
            let server = ApiServer::of(&[&tree]);
            assert_eq!(server.gate(SCALE_TO_ZERO), Some(true), "{text}");
            assert_eq!(server.gate("Other"), Some(false), "{text}");
            assert_eq!(server.version(&alpha), Some(true), "{text}");
        }
        let kubelet = "machine:\n  kubelet:\n    extraArgs:\n      feature-gates: HPAScaleToZero=true\ncluster:\n  apiServer:\n    certSANs: []\n";
        let tree = FileTree::from_files([("a.yaml", kubelet)]).unwrap();
        assert_eq!(ApiServer::of(&[&tree]), ApiServer::default());
    }
}
