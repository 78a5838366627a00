//! The state of a render that functions can access.

use super::key_budget::KeyBudget;
use super::random_source::Random;
use super::regexp::Compiled;
use crate::options::{Lookup, Options};
use driftless_gotmpl::{Exec, FuncError, Str};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The state of one render. Functions get it by `exec.host::<RenderContext>()`.
pub(crate) struct RenderContext {
    /// The result of `now`, in seconds and nanoseconds since 1970.
    pub(super) now: (i64, u32),
    /// The objects for `lookup`; `None` without a cluster.
    pub(super) lookups: Option<Arc<BTreeMap<Lookup, Json>>>,
    /// The source of randomness, from the seed in the options.
    pub(super) random: Random,
    /// The rest of the budget of new keys.
    pub(super) keys: KeyBudget,
    /// The expressions that were charged.
    pub(super) compiled: Compiled,
    pub(super) needs: RefCell<BTreeSet<Lookup>>,
    /// The number of running includes of each name.
    pub(super) included: RefCell<HashMap<Str, usize>>,
}

impl RenderContext {
    pub fn new(options: &Options) -> Self {
        RenderContext {
            now: options.now,
            lookups: options.lookups.clone(),
            random: Random::new(options.entropy),
            keys: KeyBudget::default(),
            compiled: RefCell::default(),
            needs: RefCell::default(),
            included: RefCell::default(),
        }
    }

    /// Returns the state of the running render.
    ///
    /// # Errors
    /// The functions are used outside a render.
    pub(super) fn of<'h>(exec: &Exec<'h>) -> Result<&'h Self, FuncError> {
        exec.host().ok_or_else(|| "no chart is rendered".into())
    }

    /// Returns the objects that were looked up and are not known.
    pub fn needs(&self) -> Vec<Lookup> {
        self.needs.borrow().iter().cloned().collect()
    }
}

/// Returns the random source of the running render.
pub(super) fn random<'h>(exec: &Exec<'h>) -> Result<&'h Random, FuncError> {
    Ok(&RenderContext::of(exec)?.random)
}
