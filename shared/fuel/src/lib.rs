//! Limits on the time and memory that untrusted input may use ([`Fuel`]), and the places in it that
//! errors name ([`Span`]).
//!
//! ```
//! use driftless_fuel::{Fuel, FuelKind, FuelLimits, Span, excerpt};
//!
//! let limits = FuelLimits { nodes: 2, ..FuelLimits::NONE };
//! let fuel = Fuel::new(limits);
//! let text = "a, b, c";
//! let mut column = 1;
//! let refused = text.split_inclusive(", ").find_map(|item| {
//!     let here = Span::new("list.txt", 1, column);
//!     column += item.chars().count();
//!     fuel.nodes(1).err().map(|out| (here, out))
//! });
//! let (span, out) = refused.ok_or("the limit is not reached")?;
//! assert_eq!(out.which, FuelKind::Nodes);
//! assert_eq!(format!("{span}: {out}"), "list.txt:1:7: more than 2 values");
//! assert_eq!(
//!     excerpt(text, &span),
//!     " --> list.txt:1:7\n  |\n1 | a, b, c\n  |       ^\n",
//! );
//! # Ok::<(), &str>(())
//! ```
//!
//! # Fuel
//!
//! The caller's options set the limits ([`FuelLimits`]); the engine creates a [`Fuel`] from them
//! and charges it before it spends time or allocates something. [`OutOfFuel`] names which of the
//! four ran out; each engine converts it to its own error, with the place. Steps that have run out
//! stay so: after one ignored error, the next charge fails as well.
//!
//! Work with several parts has a [`Tank`]: the caller creates one, and hands it to each engine in
//! its limits. A part takes its fuel from the tank, up to its ceilings, and leaves what it
//! has not spent to the later ones. So each part has a limit, and so have all together. In
//! driftless a tank is the fuel of one step; its limits are `driftless_kernel::context::STEP_FUEL`.
//! Without a tank, only the ceilings count.
//!
//! | | one unit |
//! | --- | --- |
//! | steps | about 50 ns of work: a comparison, a visited value, 16 to 64 bytes of input |
//! | bytes | a byte of text or output |
//! | nodes | a value in memory: a scalar, a list; a map is five; 64 bytes of a string are one more where strings are kept |
//! | depth | a level of nesting: deeper values are never created, so that values can be walked and dropped by recursion |
//!
//! The ceilings of the parts, which are the defaults of these types:
//!
//! | part | steps | bytes | nodes | depth | other limits |
//! | --- | --- | --- | --- | --- | --- |
//! | **one step** of a Kustomization, a HelmRelease, a source or another object (`driftless_kernel::context::STEP_FUEL`), or one delivery of a webhook | 500,000,000 | 4 GiB read in total | 16,000,000 at one time | the part's | the time of the step |
//! | one pack of a Git server (`driftless_git::Limits`) | those of its bytes and objects: a step for 16 bytes, 40 for an object | 256 MiB unpacked | 300,000 objects | 500 deltas | 128 MiB packed, 32 submodules |
//! | the checkout of a commit | one for each entry | 256 MiB | 100,000 files and directories | 256 directories | |
//! | one archive (`driftless_kernel::ports::FetchLimits`) | those of its bytes and entries: a step for 16 bytes, 40 for an entry | 256 MiB of files, and headers | 200,000 entries, 100,000 files | | 800 times the packed size |
//! | the packed files of an artifact, the pieces that a step reads | a step for 16 bytes | those of the archive | | | |
//! | the files of a directory, of a local Git repository, or that GitHub sends singly (`FetchLimits`) | | 256 MiB | 100,000 | | |
//! | the objects of a bucket (`FetchLimits`) | | 256 MiB | | | 100,000 objects |
//! | the patterns of `.sourceignore` and `spec.ignore` with the files | 60,000,000: two for each directory of a path and pattern | | | | 2,000 patterns |
//! | the copies of an ArtifactGenerator | 200,000,000 | those of an archive | | | |
//! | one YAML file (`driftless_manifest::yaml::Limits`), aliases expanded and tags in full | the caller's | 16 MiB | 1,000,000 | 1,000 | 50,000 documents |
//! | one kustomize build (`driftless_kustomize::Limits`); the choice of its files has the same | 40,000,000 | 64 MiB of files | 1,500,000 | 1,000 in an object | 64 levels of bases, 5,000 kustomizations, 50,000 objects, 64 MiB of output |
//! | a kustomization, or YAML inside a value | the build's | 4 MiB inside a value | 250,000 | 1,000 | |
//! | the selectors of one list (`driftless_kustomize::SelectorBudget`) | 40,000,000 | | | | 64 KiB and 1,000 Unicode classes for each expression |
//! | the substitution in all objects of a build | 40,000,000 | 16 MiB for each string, 96 MiB in total | 4,000,000 | 64 expansions | 20,000,000 steps for each string |
//! | one SOPS file | 20,000,000 | 16 MiB | 500,000 | 1,000 | 512 keys, a rule of 4 KiB |
//! | one evaluation of a CEL expression of Flux's API (`driftless_cel::Limits`): health checks, dependencies, Receivers, Providers | 40,000,000 | 64 MiB of a string that `replace` may make | 4,194,304 in results | 600 operators | 8 KiB; before it starts, nested loops of 2^30 rounds times the size of the data |
//! | one merge of an object as Helm does it without server-side apply | 40,000,000 | | | | |
//! | the templates of a chart (`driftless_gotmpl::Limits`) | 20,000,000 | 64 MiB | 250,000 variables at one time | 1,000 templates | 600,000 tokens, 500 nested actions or parentheses |
//! | the files of a chart (`driftless_helm::LoadLimits`) | 40,000,000 | 100 MiB for each archive, 120 MiB in total, 5 MiB for each file (Helm 3), 8 MiB of values | 400,000 in all YAML of the chart and its subcharts, 200,000 in one values file | 32 subcharts, 64 directories | 20,000 files |
//! | the documents that a chart renders | 25,000,000 | | 5,000,000, with a post-renderer 1,000,000 | 1,000 | |
//!
//! The embedded API server is not part of a step: each request has its own limits.
//!
//! | part of a request | steps | bytes | nodes | depth | other limits |
//! | --- | --- | --- | --- | --- | --- |
//! | a JSON patch, or a strategic merge | 20,000,000 | 3 MiB copied | 4,000,000 | 1,000 | 10,000 operations |
//! | all CEL rules of an object, or all expressions of one policy | 100,000,000, of which one evaluation has 40,000,000 | 16 MiB of a string that `replace` may make | 4,194,304 in results | 800 operators | 16 KiB; before it starts, nested loops of 2^28 rounds times the size of the data |
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod fuel;
mod limits;
mod span;
mod tank;

pub use fuel::{Fuel, MAP_NODES, TEXT_PER_NODE, text_nodes};
pub use limits::{FuelKind, FuelLimits, OutOfFuel};
pub use span::{Span, excerpt};
pub use tank::Tank;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
