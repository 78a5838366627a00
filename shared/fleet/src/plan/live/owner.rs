//! The Kustomization or HelmRelease whose objects are compared.

use driftless_core::applier::Strategy;
use driftless_core::flux::{
    FluxKind, HELM_CONTROLLER, HelmRelease, KUSTOMIZE_CONTROLLER, KubeConfigRef, Kustomization,
    ObjectRef,
};
use driftless_core::helmrelease;
use driftless_core::kustomization::live_objects;
use driftless_core::target::TargetsCluster;
use driftless_manifest::Object;

/// An object that applies others.
pub enum Owner {
    /// A Kustomization with its rendered files.
    Kustomization(Box<Kustomization>),
    /// A HelmRelease with its rendered chart.
    HelmRelease(Box<HelmRelease>),
}

/// A field of a Kustomization or HelmRelease is not valid; the message names it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOwner(String);

impl Owner {
    /// Reads a Kustomization or HelmRelease.
    ///
    /// # Errors
    /// A field is not valid, or the object is of another kind.
    pub fn of(object: &Object) -> Result<Self, InvalidOwner> {
        let object = object.clone();
        let owner = match FluxKind::of(&object.gvk()) {
            Some(FluxKind::HelmRelease) => {
                HelmRelease::from_object(object).map(|one| Self::HelmRelease(Box::new(one)))
            }
            _ => Kustomization::from_object(object).map(|one| Self::Kustomization(Box::new(one))),
        };
        owner.map_err(InvalidOwner)
    }

    /// Returns its kind, namespace and name.
    pub fn id(&self) -> &ObjectRef {
        match self {
            Self::Kustomization(one) => &one.id,
            Self::HelmRelease(one) => &one.id,
        }
    }

    /// Returns the field manager of its applies.
    pub fn manager(&self) -> &'static str {
        match self {
            Self::Kustomization(_) => KUSTOMIZE_CONTROLLER,
            Self::HelmRelease(_) => HELM_CONTROLLER,
        }
    }

    /// Returns how it applies objects.
    pub fn strategy(&self) -> Strategy {
        match self {
            Self::Kustomization(_) => Strategy::KUSTOMIZE,
            Self::HelmRelease(_) => Strategy::HELM,
        }
    }

    /// Returns the label selector of the objects that it has applied.
    pub fn selector(&self) -> String {
        let (name, namespace) = match self {
            Self::Kustomization(_) => (live_objects::OWNER_NAME, live_objects::OWNER_NAMESPACE),
            Self::HelmRelease(_) => (helmrelease::OWNER_NAME, helmrelease::OWNER_NAMESPACE),
        };
        let id = self.id();
        format!("{name}={},{namespace}={}", id.name, id.namespace)
    }

    /// Returns the HelmRelease.
    pub fn release(&self) -> Option<&HelmRelease> {
        match self {
            Self::HelmRelease(one) => Some(one),
            Self::Kustomization(_) => None,
        }
    }
}

impl TargetsCluster for Owner {
    fn namespace(&self) -> &str {
        &self.id().namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        match self {
            Self::Kustomization(one) => one.kube_config(),
            Self::HelmRelease(one) => one.kube_config(),
        }
    }

    fn service_account(&self) -> Option<&str> {
        match self {
            Self::Kustomization(one) => one.service_account(),
            Self::HelmRelease(one) => one.service_account(),
        }
    }
}
