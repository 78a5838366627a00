//! Builds every tool that the tests need, once: `cargo run -p driftless-harness --bin tools`. The
//! tests build missing tools on demand; this program prepares a CI cache. With names as arguments,
//! it builds only these and prints nothing but their paths, one on each line.

use driftless_harness::tools::{ALL, Tool};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for name in &names {
        match Tool::named(name) {
            Some(tool) => println!("{}", tool.path().display()),
            None => {
                let known: Vec<&str> = ALL.iter().map(|t| t.name).collect();
                eprintln!(
                    "no tool is named {name}; the tools are {}",
                    known.join(", ")
                );
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
