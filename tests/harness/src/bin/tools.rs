//! Builds every tool that the tests need, once: `cargo run -p driftless-harness --bin tools`.
//! The tests build what is missing by themselves; this prepares a CI cache.
//! With names as arguments, only these, and it prints nothing but their paths, a line each.

use driftless_harness::tools::{ALL, Tool};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for name in &names {
        match Tool::named(name) {
            Some(tool) => println!("{}", tool.path().display()),
            None => {
                let known: Vec<&str> = ALL.iter().map(|t| t.name).collect();
                eprintln!("no tool is named {name}; there are {}", known.join(", "));
                std::process::exit(2);
            }
        }
    }
    if names.is_empty() {
        for tool in ALL {
            println!("{} {}: {}", tool.name, tool.version, tool.path().display());
        }
    }
}
