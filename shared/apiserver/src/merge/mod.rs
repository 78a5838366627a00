//! Server-side apply: typed values, field sets, managers, as
//! structured-merge-diff v6 and the API server's field manager work.

pub mod managers;
pub mod set;
mod shape;
pub mod typed;
