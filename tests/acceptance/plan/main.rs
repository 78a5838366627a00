//! The plan function against the stub of GitHub: one comment that is kept up to date, a check run,
//! and no secret byte outside of the process.

mod comments;
mod fleets;
mod forks;
mod live;
mod secrets;
mod site;
mod sources;
