//! The pure decisions about objects of a cluster: what an apply changes, whether objects are
//! ready, which objects are owned and pruned, and what the variables of a build become.
//!
//! The functions read objects that the caller has read, and return plans and answers. They reach no
//! cluster, no bucket and no clock.

pub mod apply;
pub mod health;
pub mod inventory;
pub mod substitute;
