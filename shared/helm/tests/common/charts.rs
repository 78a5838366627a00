//! The charts of `../shared/conformance/helm`, a sibling of this repository: `list.tsv` has the
//! inputs of each.

use crate::common::Input;
use driftless_helm::values::SetKind;
use driftless_helm::{ChartFile, HelmError, IgnoreRules, OutputFilter};
use std::fs;
use std::path::{Path, PathBuf};

/// A line of the list.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    /// The chart's directory.
    pub chart: PathBuf,
    /// `-f`
    pub values: Vec<PathBuf>,
    /// The other flags, split like in a shell.
    pub words: Vec<String>,
    /// The way of comparing the output.
    pub mode: String,
    /// `ok` or `error`.
    pub expect: String,
    /// The difference of Helm 4.
    pub helm4: String,
    pub shown: OutputFilter,
    flags: Flags,
}

/// Returns all lines; `None` without the list.
pub fn cases(root: &Path) -> Option<Vec<Case>> {
    let list = fs::read_to_string(root.join("list.tsv")).ok()?;
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    Some(lines.map(|line| Case::read(root, line)).collect())
}

impl Case {
    fn read(root: &Path, line: &str) -> Self {
        let row: Vec<&str> = line.split('\t').collect();
        let values = row[2].split(',').filter(|file| *file != "-");
        let words = words(if row[3] == "-" { "" } else { row[3] });
        let flags = Flags::read(&words);
        Case {
            name: row[0].to_owned(),
            chart: root.join(row[1]),
            values: values.map(|file| root.join(file)).collect(),
            mode: row[4].to_owned(),
            expect: row[5].to_owned(),
            helm4: row[6].to_owned(),
            shown: flags.shown.clone(),
            words,
            flags,
        }
    }

    /// Reads the chart's files and inputs.
    ///
    /// # Errors
    /// A `.helmignore` that cannot be read.
    pub fn input(&self) -> Result<Input, HelmError> {
        let ignore = fs::read_to_string(self.chart.join(".helmignore")).unwrap_or_default();
        let rules = IgnoreRules::parse(&ignore)?;
        let mut found = Vec::new();
        files(&self.chart, "", &rules, &mut found);
        let text = |path: &PathBuf| (path.display().to_string(), fs::read(path).unwrap());
        Ok(Input {
            files: found,
            values: self.values.iter().map(text).collect(),
            set: self.flags.sets.clone(),
            kube_version: self.flags.kube_version.clone(),
            api_versions: self.flags.api_versions.clone(),
            upgrade: self.flags.is_upgrade,
            check_schema: self.flags.check_schema,
        })
    }
}

/// The parsed flags of a case.
#[derive(Debug)]
struct Flags {
    shown: OutputFilter,
    kube_version: String,
    api_versions: Vec<String>,
    sets: Vec<(SetKind, String)>,
    is_upgrade: bool,
    check_schema: bool,
}

impl Flags {
    fn read(words: &[String]) -> Self {
        let mut flags = Flags {
            shown: OutputFilter {
                include_crds: true,
                ..OutputFilter::default()
            },
            kube_version: String::new(),
            api_versions: Vec::new(),
            sets: Vec::new(),
            is_upgrade: false,
            check_schema: true,
        };
        let mut words = words.iter().cloned();
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

/// Splits a line into words like a shell, with single and double quotes.
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
