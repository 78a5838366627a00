//! Parsing and formatting compatible with Go's standard library, where Rust's differs: outputs of
//! Go programs are compared byte for byte, and digests are computed from them.
//!
//! | module | follows (Go 1.26) |
//! | --- | --- |
//! | [`float`] | `strconv.FormatFloat` (src/strconv/ftoa.go), `encoding/json` for numbers (src/encoding/json/encode.go) |
//! | [`json`] | `encoding/json.Marshal` and `MarshalIndent` (src/encoding/json/encode.go) |
//! | [`quote`] | `strconv.Quote` (src/strconv/quote.go) |
//! | [`duration`] | `time.ParseDuration`, `Duration.String`, `Round`, `Truncate` (src/time/{format,time}.go) |
//! | [`glob`] | `path/filepath.Match` (src/path/filepath/match.go), on Unix |
//! | [`path`] | `path.Clean` (src/path/path.go) |
//! | [`re2`] | `regexp/syntax.Parse` (src/regexp/syntax/parse.go), for the `regex` crate |
//!
//! Nothing here touches a disk, a clock or a network.
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
pub mod float;
pub mod glob;
pub mod json;
pub mod path;
pub mod quote;
pub mod re2;
