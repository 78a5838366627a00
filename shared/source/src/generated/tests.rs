//! Compares the builder with the answers of source-watcher (`tests/corpus/artifact-generator`).

use super::path_pattern::{expand, render_text};
use super::*;
use driftless_flux::OutputArtifact;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde_json::Value;
use std::io::Write as _;
use tar::{EntryType, Header};

#[derive(Deserialize)]
struct Case {
    name: String,
    sources: BTreeMap<String, BTreeMap<String, Value>>,
    copy: Vec<CopyOperation>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Answer {
    name: String,
    files: BTreeMap<String, String>,
    executable: Vec<String>,
    error: String,
}

/// Errors of the operating system and of Go's YAML and tar libraries have other words here.
const OWN_WORDS: &[&str] = &[
    "file below a file",
    "file into a file as a directory",
    "directory over a file",
    "glob directory over a file",
    "merge: a list",
    "merge: a scalar",
    "merge: not YAML",
    "merge: inf",
    "merge: separator without a line break",
    "merge over a directory",
    "merge of text",
    "extract: file over a directory",
    "extract: directory over a file",
    "extract: a name that leaves",
    "extract: a name that leaves from inside",
    "extract: an absolute name",
    "extract: a file below a link",
    "extract: a device",
    "extract: not an archive",
    "extract: an empty file",
    "extract: a directory named as an archive",
];

/// Archives that Flux unpacks and driftless refuses.
const REFUSED: &[&str] = &["extract: a hard link", "extract: a duplicate name"];

#[expect(clippy::disallowed_methods, reason = "the tests read recorded answers")]
fn corpus(file: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/../../tests/corpus/artifact-generator/{file}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn pack(entries: &[Value]) -> Vec<u8> {
    let mut tar = Vec::new();
    for entry in entries {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let (name, content) = (text("name"), text("content"));
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(if entry["executable"] == true {
            0o755
        } else {
            0o644
        });
        header.set_size(content.len() as u64);
        let (kind, link) = match entry {
            entry if entry["directory"] == true => (EntryType::Directory, ""),
            entry if entry["device"] == true => (EntryType::Char, ""),
            entry if entry["link"].is_string() => (EntryType::Symlink, text("link")),
            entry if entry["hardlink"].is_string() => (EntryType::Link, text("hardlink")),
            _ => (EntryType::Regular, ""),
        };
        header.set_entry_type(kind);
        header.set_link_name_literal(link).unwrap();
        header.set_cksum();
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(content.as_bytes());
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&tar).unwrap();
    encoder.finish().unwrap()
}

fn tree(files: &BTreeMap<String, Value>) -> FileTree {
    let mut tree = FileTree::new();
    for (path, file) in files {
        let text = file.as_str().or_else(|| file["content"].as_str());
        let content = match file["archive"].as_array() {
            Some(entries) => pack(entries),
            None => text.unwrap_or_default().as_bytes().to_vec(),
        };
        let kind = match file["executable"] == true {
            true => EntryKind::Executable,
            false => EntryKind::File,
        };
        let path = TreePath::new(path).unwrap();
        tree.insert(path, kind, content).unwrap();
    }
    tree
}

fn source(files: &[(&str, &str)]) -> Source {
    Source::new(Arc::new(
        FileTree::from_files(files.iter().copied()).unwrap(),
    ))
}

fn run(case: &Case) -> Answer {
    let sources = case.sources.iter().map(|(alias, files)| {
        let source = Source::new(Arc::new(tree(files)));
        (alias.clone(), source)
    });
    let sources = sources.collect();
    let name = case.name.clone();
    let tree = match build(&case.copy, &sources, &mut Budget::default()) {
        Ok(tree) => tree,
        Err(error) => {
            return Answer {
                name,
                error: error.to_string(),
                ..Answer::default()
            };
        }
    };
    let mut answer = Answer {
        name,
        ..Answer::default()
    };
    for (path, entry) in tree.index().iter() {
        let content = tree.content(path).unwrap().to_vec();
        let path = path.to_string();
        if entry.kind == EntryKind::Executable {
            answer.executable.push(path.clone());
        }
        answer
            .files
            .insert(path, String::from_utf8(content).unwrap());
    }
    answer
}

/// Returns the difference of an answer from Flux's; `None` if both are equal.
fn difference(ours: &Answer, flux: &Answer, operation: &str) -> Option<String> {
    let name = flux.name.as_str();
    if REFUSED.contains(&name) {
        return ours
            .error
            .is_empty()
            .then(|| format!("{name}: is not refused"));
    }
    let is_same_error = match OWN_WORDS.contains(&name) {
        true => ours.error.starts_with(operation) && !flux.error.is_empty(),
        false => ours.error == flux.error,
    };
    let is_same = is_same_error && ours.files == flux.files && ours.executable == flux.executable;
    (!is_same).then(|| {
        let show = |one: &Answer| match one.error.as_str() {
            "" => format!("{:?} {:?}", one.files, one.executable),
            error => error.to_owned(),
        };
        format!("{name}\n  Flux: {}\n  ours: {}", show(flux), show(ours))
    })
}

#[test]
fn artifacts_as_flux_builds_them() {
    let cases: Vec<Case> = serde_json::from_str(&corpus("cases.json")).unwrap();
    let answers = corpus("answers.jsonl");
    let answers: Vec<Answer> = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(cases.len(), answers.len());
    assert!(cases.len() > 250, "{} cases", cases.len());
    let different = cases.iter().zip(&answers).filter_map(|(case, flux)| {
        assert_eq!(case.name, flux.name);
        let last = case.copy.last().unwrap();
        let operation = format!(
            "failed to apply copy operations: failed to apply copy operation from '{}' to '{}': ",
            last.from, last.to
        );
        difference(&run(case), flux, &operation)
    });
    let different: Vec<String> = different.collect();
    assert!(
        different.is_empty(),
        "{} of {} differ:\n{}",
        different.len(),
        cases.len(),
        different.join("\n")
    );
}

#[test]
fn links_are_neither_read_nor_written() {
    let mut tree = FileTree::from_files([("a.yaml", "a"), ("dir/b.yaml", "b")]).unwrap();
    for (path, target) in [
        ("link.yaml", "a.yaml"),
        ("etc", "/etc"),
        ("dir/up", "../.."),
    ] {
        let path = TreePath::new(path).unwrap();
        tree.insert(path, EntryKind::Link, target).unwrap();
    }
    let sources = BTreeMap::from([("s".to_owned(), Source::new(Arc::new(tree)))]);
    let copied = |from: &str| {
        let operation = CopyOperation {
            from: from.to_owned(),
            to: "@artifact/".to_owned(),
            ..CopyOperation::default()
        };
        let built = build(&[operation], &sources, &mut Budget::default());
        built.map(|tree| {
            tree.index()
                .iter()
                .map(|(path, _)| path.to_string())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(copied("@s/").unwrap(), ["a.yaml", "dir/b.yaml"]);
    assert_eq!(copied("@s/*.yaml").unwrap(), ["a.yaml"]);
    for from in ["@s/link.yaml", "@s/etc/passwd", "@s/dir/up/a.yaml"] {
        let error = copied(from).unwrap_err().to_string();
        assert!(error.ends_with("does not exist"), "{error}");
    }
}

#[test]
fn work_is_bounded() {
    let long = "a".repeat(200);
    let files: Vec<(String, String)> = (0..2000)
        .map(|n| (format!("{long}/{long}/{long}/{n}"), String::new()))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let sources = BTreeMap::from([("s".to_owned(), source(&files))]);
    let operation = CopyOperation {
        from: "@s/".to_owned(),
        to: "@artifact/".to_owned(),
        exclude: vec![format!("**/{}b", "*a".repeat(400)); 100],
        ..CopyOperation::default()
    };
    let mut small = Budget {
        work: Fuel::new(FuelLimits {
            steps: 1_000_000,
            ..FuelLimits::NONE
        }),
        ..Budget::default()
    };
    let error = build(&[operation], &sources, &mut small)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("need more work than a generator may"),
        "{error}"
    );
    let many = CopyOperation {
        from: "@s/".to_owned(),
        to: "@artifact/".to_owned(),
        exclude: vec!["{a,b}".repeat(20)],
        ..CopyOperation::default()
    };
    let error = build(&[many], &sources, &mut Budget::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("stand for more than 4096 patterns"),
        "{error}"
    );
    let mut budget = Budget {
        limits: FetchLimits {
            files: 3,
            ..FetchLimits::default()
        },
        ..Budget::default()
    };
    let all = CopyOperation {
        from: "@s/".to_owned(),
        to: "@artifact/".to_owned(),
        ..CopyOperation::default()
    };
    let error = build(&[all], &sources, &mut budget)
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than 256 MiB or 3 files"), "{error}");
}

fn output(name: &str, from: &str) -> OutputArtifact {
    OutputArtifact {
        name: name.to_owned(),
        copy: vec![CopyOperation {
            from: from.to_owned(),
            to: "@artifact/{app}/".to_owned(),
            ..CopyOperation::default()
        }],
        ..OutputArtifact::default()
    }
}

#[test]
fn a_path_pattern_makes_an_artifact_of_each_directory() {
    let source = source(&[
        ("apps/Web/prod/a.yaml", ""),
        ("apps/api/prod/a.yaml", ""),
        ("apps/api/dev/sub/a.yaml", ""),
        ("apps/a.yaml", ""),
    ]);
    let artifacts = [output("{app}-{env}", "@git/apps/{app}/{env}/**")];
    let found = expand("@git/apps/{app}/{env}", &source, &artifacts).unwrap();
    let names: Vec<&str> = found.iter().map(|one| &*one.artifact.name).collect();
    assert_eq!(names, ["web-prod", "api-dev", "api-prod"]);
    let first = &found[0];
    assert_eq!(first.artifact.copy[0].from, "@git/apps/Web/prod/**");
    assert_eq!(first.artifact.copy[0].to, "@artifact/Web/");
    assert_eq!(first.labels["app"], "web");
    assert_eq!(first.labels["env"], "prod");
    assert!(
        expand("@git/none/{app}", &source, &artifacts[..0])
            .unwrap()
            .is_empty()
    );
}

#[test]
fn path_patterns_that_are_not_valid() {
    let source = source(&[("apps/a/x", ""), ("apps/A/x", "")]);
    for (pattern, name, part) in [
        ("apps/{app}", "x", "invalid pathPattern format"),
        (
            "@git/apps/{app",
            "x",
            "capture starting at offset 5 is missing closing brace",
        ),
        (
            "@git/apps/app}",
            "x",
            "capture ending at offset 8 is missing opening brace",
        ),
        ("@git/apps/{}", "x", "empty capture variable"),
        ("@git/apps/{1a}", "x", "must be a valid capture name"),
        ("@git/{a}/{a}", "x", "duplicate capture variable"),
        ("@git/apps/{_a}", "x", "is not a valid Kubernetes label key"),
        (
            "@git/apps/{app}",
            "{other}",
            "capture variable \"other\" is not defined by pathPattern",
        ),
        (
            "@git/apps/{app}",
            "{app}",
            "directories \"apps/A\" and \"apps/a\" both resolve to artifact name \"a\"",
        ),
        (
            "@git/apps/{app}",
            "-{app}",
            "is not a valid Kubernetes object name",
        ),
    ] {
        let artifact = OutputArtifact {
            name: name.to_owned(),
            ..OutputArtifact::default()
        };
        let error = expand(pattern, &source, &[artifact])
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{pattern}: {error}");
    }
    let captures = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    assert_eq!(render_text("x{a}y{a}", &captures).unwrap(), "x1y1");
}
