//! `seeds DIRECTORY`: writes the first inputs, made from `tests/corpus`, to `DIRECTORY/TARGET/`.

#[path = "../targets/mod.rs"]
mod targets;

// The instrumentation of everything here calls into this crate.
use libfuzzer_sys as _;
use std::path::PathBuf;

fn main() {
    let directory = std::env::args().nth(1).map(PathBuf::from);
    let directory = directory.expect("usage: seeds DIRECTORY");
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    for target in &targets::ALL {
        let directory = directory.join(target.name);
        std::fs::create_dir_all(&directory).expect("make the directory");
        for (number, seed) in (target.seeds)(&corpus).into_iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{number:04}")), seed)
                .expect("write a seed");
        }
    }
}
