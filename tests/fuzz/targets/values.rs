//! Values: files that are merged, and the flags of the `--set` kind on top of them.

use driftless_helm::Compat;
use driftless_helm::values::{self, SetKind, Table};
use std::path::Path;

/// The starts of the lines that are flags; the argument follows.
const FLAGS: [(&str, SetKind); 5] = [
    ("--set ", SetKind::Typed),
    ("--set-string ", SetKind::Text),
    ("--set-json ", SetKind::Json),
    ("--set-literal ", SetKind::Literal),
    ("--set-file ", SetKind::File),
];
/// The line that separates files of values.
const MARK: &str = "%%\n";

/// Reads and merges the files, and applies the flags; merging the result with itself must not
/// change it.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    super::on_large_stack(move || {
        for compat in [Compat::Helm3, Compat::Helm4] {
            let Some(values) = take(&text, compat) else {
                continue;
            };
            let again = values::merge(values.clone(), values.clone());
            assert_eq!(again, values, "merged with itself");
        }
    });
}

fn take(text: &str, compat: Compat) -> Option<Table> {
    let flag = |line: &str| {
        let mut flags = FLAGS.iter();
        flags.find_map(|(flag, kind)| {
            let argument = line.strip_prefix(flag)?;
            Some((*kind, argument.trim_end_matches('\n').to_owned()))
        })
    };
    let (mut texts, mut set) = (vec![String::new()], Vec::new());
    for line in text.split_inclusive('\n') {
        match (flag(line), texts.last_mut()) {
            (Some(given), _) => set.push(given),
            (None, Some(last)) if line != MARK => last.push_str(line),
            _ => texts.push(String::new()),
        }
    }
    let mut all = Table::new();
    for text in texts {
        let read = values::read(text.as_bytes(), "values.yaml", compat).ok()?;
        all = values::merge(all, read);
    }
    for (kind, argument) in set {
        // A refused flag must leave valid values.
        let file = |path: &str| Ok(format!("the content of {path}"));
        let _ = values::set(&mut all, kind, &argument, compat, &file);
    }
    Some(all)
}

/// Returns values of every form, with every flag.
pub fn seeds(corpus: &Path) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = super::chart::charts(corpus)
        .into_iter()
        .filter_map(|files| {
            let (_, values) = files.into_iter().find(|(name, _)| name == "values.yaml")?;
            Some([values.as_slice(), FLAG_LINES.as_bytes()].concat())
        })
        .collect();
    seeds.truncate(30);
    seeds.push(b"a: &x {b: 1}\nc: *x\n%%\na: {b: null}\n--- \nd: 1\n".to_vec());
    seeds
}

const FLAG_LINES: &str = "\n--set a.b[2].c=1,d={x,y\\,z},e=null
--set-string name\\.with\\.dots=012
--set-json a={\"b\":[1,2,{\"c\":null}]},d=1e3
--set-literal l.m=a,b=c
--set-file f=path
";
