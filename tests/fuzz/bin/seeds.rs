//! `seeds FOLDER`: writes the inputs to begin with, made of `tests/corpus`, to `FOLDER/TARGET/`.

#[path = "../targets/mod.rs"]
mod targets;

// The instrumentation that everything here is built with calls into it.
use libfuzzer_sys as _;
use std::path::PathBuf;

fn main() {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let folder = folder.expect("say where to: seeds FOLDER");
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    for target in &targets::ALL {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder).expect("make the folder");
        for (number, seed) in (target.seeds)(&corpus).into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:04}")), seed).expect("write a seed");
        }
    }
}
