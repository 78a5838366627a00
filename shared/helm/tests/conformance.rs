//! The charts of `../shared/conformance/helm` beside this repository, where there is one: the same bytes as Helm's.
//!
//! `DRIFTLESS_HELM_CHARTS=all` renders every case; without it one in ten, so that an unoptimised test takes seconds.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test reads its cases"
)]

mod common;

use common::Given;
use driftless_helm::values::SetKind;
use driftless_helm::{ChartFile, Compat, IgnoreRules, Shown, template_text};
use std::fs;
use std::path::{Path, PathBuf};

/// The flags of a case.
struct Flags {
    shown: Shown,
    kube_version: String,
    api_versions: Vec<String>,
    sets: Vec<(SetKind, String)>,
    is_upgrade: bool,
    check_schema: bool,
}

impl Flags {
    fn read(text: &str) -> Self {
        let mut flags = Flags {
            shown: Shown {
                include_crds: true,
                ..Shown::default()
            },
            kube_version: String::new(),
            api_versions: Vec::new(),
            sets: Vec::new(),
            is_upgrade: false,
            check_schema: true,
        };
        let mut words = words(text).into_iter();
        while let Some(word) = words.next() {
            let (flag, mut value) = match word.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            let mut value = || value.take().or_else(|| words.next()).unwrap();
            match flag.as_str() {
                "--kube-version" => flags.kube_version = value(),
                "--api-versions" => {
                    let value = value();
                    flags
                        .api_versions
                        .extend(value.split(',').map(str::to_owned));
                }
                "--set" => flags.sets.push((SetKind::Typed, value())),
                "--set-string" => flags.sets.push((SetKind::Text, value())),
                "--set-json" => flags.sets.push((SetKind::Json, value())),
                "--is-upgrade" => flags.is_upgrade = true,
                "--no-hooks" => flags.shown.no_hooks = true,
                "--skip-tests" => flags.shown.skip_tests = true,
                "--skip-schema-validation" => flags.check_schema = false,
                "--show-only" | "-s" => flags.shown.show_only.push(value()),
                other => panic!("unknown flag {other}"),
            }
        }
        flags
    }
}

/// Words as a shell cuts them, with single and double quotes.
fn words(text: &str) -> Vec<String> {
    let (mut out, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut started = false;
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                started = true;
            }
            (None, ' ') => {
                if started || !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                started = false;
            }
            (_, c) => word.push(c),
        }
    }
    if started || !word.is_empty() {
        out.push(word);
    }
    out
}

fn files(root: &Path, inside: &str, rules: &IgnoreRules, out: &mut Vec<ChartFile>) {
    let mut names: Vec<String> = fs::read_dir(root.join(inside))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let inner = match inside {
            "" => name,
            inside => format!("{inside}/{name}"),
        };
        let path = root.join(&inner);
        if rules.ignores(&inner, path.is_dir()) {
            continue;
        }
        if path.is_dir() {
            files(root, &inner, rules, out);
        } else {
            out.push(ChartFile {
                name: inner,
                data: fs::read(path).unwrap().into(),
            });
        }
    }
}

fn rendered(root: &Path, row: &[&str], compat: Compat) -> Result<String, String> {
    let flags = Flags::read(if row[3] == "-" { "" } else { row[3] });
    let folder = root.join(row[1]);
    let ignore = fs::read_to_string(folder.join(".helmignore")).unwrap_or_default();
    let text = |e: driftless_helm::HelmError| e.to_string();
    let rules = IgnoreRules::parse(&ignore).map_err(text)?;
    let mut found = Vec::new();
    files(&folder, "", &rules, &mut found);
    let values = row[2].split(',').filter(|file| *file != "-");
    let values = values.map(|file| (file.to_owned(), fs::read(root.join(file)).unwrap()));
    let given = Given {
        files: found,
        values: values.collect(),
        set: flags.sets,
        kube_version: flags.kube_version,
        api_versions: flags.api_versions,
        upgrade: flags.is_upgrade,
        check_schema: flags.check_schema,
    };
    let rendered = given.render(compat).map_err(text)?;
    template_text(&rendered, &flags.shown).map_err(text)
}

/// What is wrong with a case, if anything.
fn check(root: &Path, row: &[&str], compat: Compat) -> Option<String> {
    let refused = match compat {
        Compat::Helm3 => row[5] == "error",
        Compat::Helm4 => row[5] == "error" || row[6] == "error",
    };
    let got = match (rendered(root, row, compat), refused) {
        (Err(_), true) => return None,
        (Ok(_), true) => return Some("renders, but Helm refuses it".to_owned()),
        (Err(error), false) => return Some(format!("fails: {error}")),
        // What is made up anew in every run is compared by the corpus' own runner.
        (Ok(_), false) if row[4] == "masked" => return None,
        (Ok(got), false) => got,
    };
    let own = root.join(format!("want-helm4/{}.yaml", row[0]));
    let want = match (compat, row[6]) {
        (Compat::Helm4, "differs") => own,
        // The bytes of Helm 4 are not kept where it is only white space that differs.
        (Compat::Helm4, "ws") => return None,
        _ => root.join(format!("want/{}.yaml", row[0])),
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
    let Ok(list) = fs::read_to_string(root.join("list.tsv")) else {
        println!("skipped: {} is absent", root.display());
        return;
    };
    let every = match std::env::var("DRIFTLESS_HELM_CHARTS").as_deref() {
        Ok("all") => 1,
        _ => 10,
    };
    let rows = list.lines().filter(|l| !l.starts_with('#'));
    // Keys take long where nothing is optimised.
    let keys = !cfg!(debug_assertions);
    let rows = rows.map(|l| l.split('\t').collect::<Vec<&str>>());
    let rows: Vec<Vec<&str>> = rows.filter(|r| keys || r[4] != "masked").collect();
    let mut bad = Vec::new();
    let mut count = 0;
    for row in rows.iter().step_by(every) {
        count += 1;
        if let Some(why) = check(&root, row, compat) {
            bad.push(format!("{}: {why}", row[0]));
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
