//! The charts of `../shared/conformance/helm`, a sibling of this repository, if it exists: the
//! output must be that of Helm, byte for byte.
//!
//! `DRIFTLESS_HELM_CHARTS=all` renders every case; without it one in ten, so that an unoptimised
//! test takes seconds.

#[path = "../common/charts.rs"]
#[expect(dead_code, reason = "the bench needs the rest")]
mod charts;

use crate::skip::has_material;
use charts::Case;
use driftless_helm::{Compat, template_text};
use std::fs;
use std::path::{Path, PathBuf};

fn rendered(case: &Case, compat: Compat) -> Result<String, String> {
    let text = |e: driftless_helm::HelmError| e.to_string();
    let rendered = case.input().map_err(text)?.render(compat).map_err(text)?;
    template_text(&rendered, &case.shown).map_err(text)
}

/// Returns a description of the failure of a case, if it fails.
fn check(root: &Path, case: &Case, compat: Compat) -> Option<String> {
    let refused = match compat {
        Compat::Helm3 => case.expect == "error",
        Compat::Helm4 => case.expect == "error" || case.helm4 == "error",
    };
    let got = match (rendered(case, compat), refused) {
        (Err(_), true) => return None,
        (Ok(_), true) => return Some("renders, but Helm refuses it".to_owned()),
        (Err(error), false) => return Some(format!("fails: {error}")),
        // Output that is random in every run is compared by the corpus' own runner.
        (Ok(_), false) if case.mode == "masked" => return None,
        (Ok(got), false) => got,
    };
    let own = root.join(format!("want-helm4/{}.yaml", case.name));
    let want = match (compat, case.helm4.as_str()) {
        (Compat::Helm4, "differs") => own,
        // The output of Helm 4 is not stored where only white space differs.
        (Compat::Helm4, "ws") => return None,
        _ => root.join(format!("want/{}.yaml", case.name)),
    };
    let want = fs::read_to_string(want).unwrap();
    if got == want {
        return None;
    }
    let (mut got, mut want) = (got.lines(), want.lines());
    let mut line = 1;
    loop {
        match (got.next(), want.next()) {
            (a, b) if a != b => return Some(format!("line {line}: got {a:?}, want {b:?}")),
            (None, None) => return Some("line breaks at the end".to_owned()),
            _ => line += 1,
        }
    }
}

fn run(compat: Compat) {
    let root: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/helm");
    if !has_material(&root) {
        return;
    }
    let mut cases = charts::cases(&root).unwrap();
    let every = match std::env::var("DRIFTLESS_HELM_CHARTS").as_deref() {
        Ok("all") => 1,
        _ => 10,
    };
    // New keys take long without optimisation.
    let keys = !cfg!(debug_assertions);
    cases.retain(|case| keys || case.mode != "masked");
    let mut bad = Vec::new();
    let mut count = 0;
    for case in cases.iter().step_by(every) {
        count += 1;
        if let Some(why) = check(&root, case, compat) {
            bad.push(format!("{}: {why}", case.name));
        }
    }
    println!("{} / {count} as {compat:?}", count - bad.len());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn renders_public_charts_as_helm_3() {
    run(Compat::Helm3);
}

#[test]
fn renders_public_charts_as_helm_4() {
    run(Compat::Helm4);
}
