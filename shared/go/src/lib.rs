//! Parsing and formatting compatible with Go's standard library, where Rust's differs: outputs of
//! Go programs are compared byte for byte, and digests are computed from them.
//!
//! | module | follows (Go 1.26) |
//! | --- | --- |
//! | [`float`] | `strconv.FormatFloat` (src/strconv/ftoa.go), `encoding/json` for numbers (src/encoding/json/encode.go) |
//! | [`json`] | `encoding/json.Marshal` and `MarshalIndent` (src/encoding/json/encode.go) |
//! | [`number`] | `strconv.ParseInt`, `ParseUint`, `ParseFloat` (src/strconv/ato{i,f}.go) |
//! | [`mod@print`] | `strconv.IsPrint` (src/strconv/quote.go), with the characters of Unicode 15.0 |
//! | [`quote`] | `strconv.Quote`, `Unquote` (src/strconv/quote.go) |
//! | [`duration`] | `time.ParseDuration`, `Duration.String`, `Round`, `Truncate` (src/time/{format,time}.go) |
//! | [`glob`] | `path/filepath.Match` (src/path/filepath/match.go), on Unix |
//! | [`path`] | `path.Clean` (src/path/path.go) |
//! | [`re2`] | `regexp/syntax.Parse` (src/regexp/syntax/parse.go), for the `regex` crate |
//! | [`semver`] | not the standard library, but `github.com/Masterminds/semver/v3`, which Helm and Flux use |
//!
//! An [`Error`] has the message of Go. Nothing here touches a disk, a clock or a network.
//!
//! ```
//! assert_eq!(driftless_go::float::format(1e6, 'g', None), "1e+06");
//! assert_eq!(driftless_go::float::json(1e6), "1000000");
//! assert_eq!(driftless_go::json::to_string("a < b")?, r#""a \u003c b""#);
//! assert_eq!(driftless_go::quote::quote(b"\x00"), r#""\x00""#);
//! assert_eq!(driftless_go::duration::parse("1h30m"), Ok(5_400_000_000_000));
//! # Ok::<(), serde_json::Error>(())
//! ```
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod duration;
mod error;
pub mod float;
pub mod glob;
pub mod json;
pub mod number;
pub mod path;
pub mod print;
pub mod quote;
pub mod re2;
pub mod semver;

pub use error::Error;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
