//! What is watched on a hub and the clusters that it applies to.

use driftless_core::capsule;
use driftless_core::sweep::drift_watch::Watched;
use driftless_flux::FluxKind;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub;
use driftless_kernel::ports::{FollowRequest, Following, Ports};
use driftless_manifest::Gvk;
use std::fmt;

/// The field selector that excludes the records of Helm's releases, which nothing refers to.
const NO_RELEASES: &str = "type!=helm.sh/release.v1";

/// The objects of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// The Flux objects of a kind. Their documents are read, since they name what is watched.
    Flux(FluxKind),
    /// The Secrets or the ConfigMaps of the hub.
    Reference(&'static str),
    /// Objects that decide about the kubeconfigs of owners of Capsule Tenants.
    Capsule(capsule::Followed),
    /// Objects that were applied.
    Applied(Watched),
}

impl Topic {
    /// Starts the watch; `None` if the cluster does not serve the kind.
    pub(super) async fn open(
        &self,
        ports: &Ports,
        name: &str,
    ) -> Result<Option<Following>, Failure> {
        let hub = hub::connect(ports, name).await?;
        let request = match self {
            Self::Applied(watched) => return watched.follow(ports, &hub).await,
            Self::Flux(kind) => hub.served(*kind).await?.map(|resource| FollowRequest {
                is_metadata: false,
                ..FollowRequest::metadata(resource)
            }),
            Self::Reference(kind) => {
                let resource = hub.cluster.resource(&Gvk::new("v1", kind)).await?;
                let fields = match *kind {
                    "Secret" => NO_RELEASES,
                    _ => "",
                };
                resource.map(|resource| FollowRequest {
                    fields: fields.to_owned(),
                    ..FollowRequest::metadata(resource)
                })
            }
            Self::Capsule(followed) => {
                let resource = hub.cluster.resource(&followed.gvk()).await?;
                resource.map(|resource| FollowRequest {
                    labels: followed.selector().to_owned(),
                    ..FollowRequest::metadata(resource)
                })
            }
        };
        Ok(request.map(|request| hub.cluster.follow(&request)))
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flux(kind) => write!(f, "{kind}"),
            Self::Reference(kind) => write!(f, "{kind}, as a reference"),
            Self::Capsule(followed) => write!(f, "{}, for Capsule", followed.gvk().kind),
            Self::Applied(watched) => {
                write!(f, "{} of each {}", watched.gvk.kind, watched.owner)
            }
        }
    }
}
