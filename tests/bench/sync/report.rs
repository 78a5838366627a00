//! The figures as a table and as JSON.

use super::chart;
use super::measure::Figures;
use super::options::Options;
use std::path::PathBuf;

const VERBS: [&str; 6] = ["get", "list", "watch", "patch", "create", "update"];

/// Returns a table in Markdown.
pub fn table(all: &[Figures]) -> String {
    let mut text = format!(
        "| world | work | system | time | requests | {} | CPU | peak memory |\n",
        VERBS.join(" | ")
    );
    text += &format!("|{}\n", " --- |".repeat(7 + VERBS.len()));
    let mut sorted: Vec<&Figures> = all.iter().collect();
    // The rows of the systems are side by side, the works in the order of the run.
    let order: Vec<&str> = works(all);
    let place = |one: &Figures| order.iter().position(|work| *work == one.work);
    sorted.sort_by_key(|one| (one.world == "H", one.size, place(one)));
    for one in sorted {
        let verbs: Vec<String> = VERBS.iter().map(|verb| one.of(verb).to_string()).collect();
        let bytes = one.bytes.map_or_else(String::new, |bytes| {
            format!(", {:.2} MB", bytes as f64 / 1e6)
        });
        text += &format!(
            "| {}({}) | {} | {} | {:.2} s | {}{bytes} | {} | {:.2} s | {:.0} MiB |\n",
            one.world,
            one.size,
            one.work,
            one.system,
            one.seconds,
            one.total(),
            verbs.join(" | "),
            one.cpu,
            one.peak_mib
        );
    }
    text
}

fn works(all: &[Figures]) -> Vec<&str> {
    let mut works = Vec::new();
    for one in all {
        if !works.contains(&one.work.as_str()) {
            works.push(one.work.as_str());
        }
    }
    works
}

/// Returns the figures of earlier runs, from their files.
pub fn earlier(options: &Options) -> Vec<Figures> {
    let read = |file: &PathBuf| -> Vec<Figures> {
        let text = std::fs::read(file).expect("read the figures");
        serde_json::from_slice(&text).expect("the figures of a run")
    };
    options.with.iter().flat_map(read).collect()
}

/// Writes the files of the options with the figures so far.
pub fn write(options: &Options, all: &[Figures]) {
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(all).expect("JSON");
        std::fs::write(file, text).expect("write the figures");
    }
    if let Some(file) = &options.svg {
        std::fs::write(file, chart::draw(all)).expect("write the picture");
    }
}
