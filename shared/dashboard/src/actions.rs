//! The actions on objects.

use driftless_flux::{FluxKind, ObjectRef, REQUESTED_AT, suspension};
use driftless_plans::inventory::PRUNE_APPROVED;
use serde_json::{Value, json};

/// An action that a user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reconcile the object now; the time makes the request a new one.
    Reconcile {
        /// The time of the request, RFC 3339.
        requested_at: String,
    },
    /// Stop its reconciliation.
    Suspend,
    /// Continue its reconciliation.
    Resume,
    /// Let the mass deletion of a revision pass.
    ApprovePrune {
        /// The revision that was shown to the user.
        revision: String,
    },
}

/// The reason that a form names no action.
#[derive(Debug, thiserror::Error)]
pub enum InvalidAction {
    /// The revision to approve is missing.
    #[error("approve-prune: the field revision is missing")]
    NoRevision,
    /// The name is not that of an action.
    #[error("the action is not one of reconcile, suspend, resume, approve-prune")]
    Unknown,
}

impl Action {
    /// Returns the action with this name in a form.
    ///
    /// # Errors
    /// The name is not that of an action, or the revision is missing.
    pub fn parse(name: &str, revision: &str, now: &str) -> Result<Self, InvalidAction> {
        match name {
            "reconcile" => Ok(Self::Reconcile {
                requested_at: now.to_owned(),
            }),
            "suspend" => Ok(Self::Suspend),
            "resume" => Ok(Self::Resume),
            "approve-prune" if revision.is_empty() => Err(InvalidAction::NoRevision),
            "approve-prune" => Ok(Self::ApprovePrune {
                revision: revision.to_owned(),
            }),
            _ => Err(InvalidAction::Unknown),
        }
    }

    /// Returns the name in forms and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reconcile { .. } => "reconcile",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::ApprovePrune { .. } => "approve-prune",
        }
    }

    /// Returns the merge patch that does it to an object of a kind, as Flux's command line does.
    pub fn patch(&self, kind: FluxKind) -> Value {
        match self {
            Self::Reconcile { requested_at } => {
                json!({"metadata": {"annotations": {REQUESTED_AT: requested_at}}})
            }
            Self::Suspend => suspension(kind, true),
            Self::Resume => suspension(kind, false),
            Self::ApprovePrune { revision } => {
                json!({"metadata": {"annotations": {PRUNE_APPROVED: revision}}})
            }
        }
    }

    /// Returns whether objects of a kind have the action.
    pub fn fits(&self, object: &ObjectRef) -> bool {
        match self {
            Self::ApprovePrune { .. } => object.kind == FluxKind::Kustomization,
            _ => has_actions(object.kind),
        }
    }
}

/// Returns whether objects of a kind can be reconciled and suspended.
pub fn has_actions(kind: FluxKind) -> bool {
    kind != FluxKind::ExternalArtifact
}
