//! Builds every tool that the tests need, once: `cargo run -p driftless-tests --bin tools`.
//! The tests build what is missing by themselves; this prepares a CI cache.
//! With names as arguments, only these.

use driftless_tests::tools::{ALL, Tool};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = names.iter().find(|n| Tool::named(n).is_none()) {
        let known: Vec<&str> = ALL.iter().map(|t| t.name).collect();
        eprintln!("no tool is named {unknown}; there are {}", known.join(", "));
        std::process::exit(2);
    }
    for tool in ALL {
        if names.is_empty() || names.iter().any(|n| n == tool.name) {
            println!("{} {}: {}", tool.name, tool.version, tool.path().display());
        }
    }
}
