//! HelmReleases, compared with Helm's own command lines on real API servers.

mod alternates;
mod client_side;
mod helm;
mod real;
