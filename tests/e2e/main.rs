//! A push to a fleet repository lands on management and remote clusters: the whole way, with real parts.

mod sample;
mod world;
