//! The live objects as the last apply left them, kept by the process that applied them. A step that
//! a push has caused needs no other state: what has not changed since is left to the check for
//! drift, and a write carries the resourceVersion that is known, so that the API server refuses it
//! if the object has changed.

use super::memory::Memory;
use driftless_flux::Kustomization;
use driftless_kernel::context::Context;
use driftless_kernel::ports::{Values, WatchSnapshot};
use driftless_kernel::target::Target;
use driftless_manifest::Object;
use std::sync::Arc;

/// The most bytes of the objects of one Kustomization.
const MAX_BYTES: usize = 4 << 20;

/// Returns the objects as the last apply left them; empty if another process applied last.
pub(super) fn recall(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    memory: &Memory,
) -> Arc<Values> {
    let known = context.ports.watches.get(&key(context, target, owner));
    let known = known.filter(|known| !known.version.is_empty() && known.version == memory.live);
    known.map(|known| known.values).unwrap_or_default()
}

/// Keeps the objects for the next step of this process, under a new name in the memory: it is valid
/// until another process applies.
pub(super) fn keep<'o>(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    memory: &mut Memory,
    live: impl Iterator<Item = &'o Object>,
) {
    memory.live.clear();
    let mut values = Values::new();
    let mut bytes = 0_usize;
    for object in live {
        let text = object.to_value().to_string();
        bytes = bytes.saturating_add(text.len());
        if bytes > MAX_BYTES {
            return;
        }
        values.insert(object.id(), text);
    }
    memory.live = hex::encode(context.ports.clock.nonce());
    let known = WatchSnapshot {
        values: Arc::new(values),
        version: memory.live.clone(),
        ..WatchSnapshot::default()
    };
    let key = key(context, target, owner);
    context.ports.watches.keep(&key, known);
}

fn key(context: &Context<'_>, target: &Target, owner: &Kustomization) -> String {
    let hub = &context.hub.settings.name;
    format!("applied {hub} {} {}", owner.id.key(), target.identity)
}
