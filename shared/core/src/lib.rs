//! The core of driftless: the reconciliation of Flux's objects over ports that adapters implement.
//!
//! - [`webhook`] and [`sweep`] find the objects to reconcile; [`step`] reconciles one.
//! - [`kustomization`] builds and applies the files of a source. [`notification`] sends the events
//!   that Alerts select to their Providers. [`receiver`] gives each Receiver the path of its
//!   webhook.
//! - [`capsule`] gives owners of Capsule's Tenants their kubeconfigs. [`bootstrap`] makes what a
//!   hub needs before its first step. [`orphans`] finds state that is no longer used.
//!
//! The kinds of sources are in `driftless-source`, HelmReleases in `driftless-helmrelease`, and
//! what all kinds share in `driftless-kernel`.
//!
//! ARCHITECTURE.md in this crate has the overview and the invariants, and its directory `docs` the
//! details of each part.

pub mod bootstrap;
pub mod capsule;
pub mod kustomization;
pub mod notification;
pub mod orphans;
pub mod receiver;
pub mod step;
pub mod sweep;
pub mod webhook;
