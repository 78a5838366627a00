//! Sources: a reference is followed to a commit, its files become an artifact.

pub mod archive;
pub mod artifact;
pub mod credentials;
pub mod git;
pub mod ignore;
pub mod index;
