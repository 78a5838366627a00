//! `driftless kustomize create`.

use super::detect;
use super::paths::{self, Directory};
use crate::error::{EXIT_CODES, Error};
use crate::term;
use clap::ArgAction;
use driftless_kustomize::FILE_NAMES;
use driftless_manifest::yaml;
use serde_json::{Map, Value, json};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// The file that is written.
const FILE: &str = "kustomization.yaml";

const EXAMPLES: &str = "Examples:
  driftless kustomize create --autodetect              # the manifests in this directory
  driftless kustomize create apps --autodetect --recursive
  driftless kustomize create --resources ../base       # an overlay
  driftless kustomize create --resources '*.yaml,../base' --namespace staging --nameprefix acme-

The file is that of kustomize 5.8. Unlike kustomize, an error leaves no empty file, and a repository \
in --resources is not cloned to check it.";

/// Write a kustomization.yaml, as `kustomize create` does
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"), args_override_self = true)]
pub struct Args {
    /// The directory to write it in
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Files, patterns of files, directories and remote bases, separated by commas
    #[arg(long, value_name = "ENTRIES", allow_hyphen_values = true)]
    resources: Option<String>,
    /// Add the files of the directory whose documents are Kubernetes objects
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", hide_default_value = true,
        value_parser = crate::create::switch)]
    autodetect: bool,
    /// Together with --autodetect, also add the files below, and directories that have a
    /// kustomization
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", hide_default_value = true,
        value_parser = crate::create::switch)]
    recursive: bool,
    /// The namespace of all objects
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    namespace: Option<String>,
    /// The prefix of all names
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    nameprefix: Option<String>,
    /// The suffix of all names
    #[arg(long, value_name = "SUFFIX", allow_hyphen_values = true)]
    namesuffix: Option<String>,
    /// Annotations of all objects: KEY:VALUE, separated by commas
    #[arg(long, value_name = "PAIRS", allow_hyphen_values = true)]
    annotations: Option<String>,
    /// Labels of all objects and selectors: KEY:VALUE, separated by commas
    #[arg(long, value_name = "PAIRS", allow_hyphen_values = true)]
    labels: Option<String>,
    #[command(flatten)]
    _accepted: crate::accepted::Accepted<DebugFlags>,
}

/// Flags of kustomize for its debug output.
struct DebugFlags;

impl crate::accepted::Flags for DebugFlags {
    fn flags() -> Vec<clap::Arg> {
        vec![crate::accepted::switch("stack-trace")]
    }
}

impl Args {
    /// Writes the file.
    ///
    /// # Errors
    /// Fails for flags that are not valid, entries that do not exist, a directory that has a
    /// kustomization, and files that cannot be read or written. No file is changed then.
    pub fn run(&self) -> Result<(), Error> {
        let dir = Directory::open(&self.dir)?;
        let mut resources = Vec::new();
        if let Some(entries) = value_of(&self.resources) {
            for entry in entries.split(',') {
                resources.extend(dir.entry(entry)?);
            }
        }
        refuse_existing(&dir)?;
        if self.autodetect {
            for found in detect::resources(&dir, self.recursive)? {
                if !resources.contains(&found) {
                    resources.push(found);
                }
            }
        }
        let annotations = pairs(
            "annotation",
            value_of(&self.annotations).unwrap_or_default(),
        )?;
        let labels = pairs("label", value_of(&self.labels).unwrap_or_default())?;
        let fields = [
            ("resources", json!(resources)),
            ("namePrefix", json!(value_of(&self.nameprefix))),
            ("nameSuffix", json!(value_of(&self.namesuffix))),
            ("namespace", json!(value_of(&self.namespace))),
            ("commonLabels", labels.into()),
            ("commonAnnotations", annotations.into()),
        ];
        let mut text =
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n".to_owned();
        for (name, value) in fields.into_iter().filter(|(_, value)| is_set(value)) {
            text.push_str(&yaml::to_string(&json!({ name: value })));
        }
        write(&dir, &text)?;
        let shown = self.dir.join(FILE);
        term::success(&format!(
            "{} written with {}",
            shown.strip_prefix(".").unwrap_or(&shown).display(),
            counted(resources.len())
        ));
        Ok(())
    }
}

fn counted(resources: usize) -> String {
    match resources {
        0 => "no resources: add them to the file".to_owned(),
        1 => "1 resource".to_owned(),
        more => format!("{more} resources"),
    }
}

fn value_of(flag: &Option<String>) -> Option<&str> {
    flag.as_deref().filter(|value| !value.is_empty())
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        other => !other.is_null(),
    }
}

/// Fails if the directory has a kustomization, under any of its names.
fn refuse_existing(dir: &Directory) -> Result<(), Error> {
    let exists = |name: &&&str| fs::symlink_metadata(dir.path.join(name)).is_ok();
    let found: Vec<&str> = FILE_NAMES.iter().filter(exists).copied().collect();
    let message = match found.as_slice() {
        [] => return Ok(()),
        [file] if dir.path.join(file).is_dir() => format!("open {file}: is a directory"),
        [_] => "kustomization file already exists".to_owned(),
        files => format!("Found multiple kustomization file: [{}]", files.join(" ")),
    };
    let files: Vec<String> = found.iter().map(|file| dir.display(file)).collect();
    Err(Error::new(message).next(format!(
        "edit {}, or remove it and run the command again",
        files.join(" and ")
    )))
}

/// Parses pairs of a key and a value, like kustomize: a key may have no value, and the value may be
/// in double quotes.
fn pairs(noun: &str, text: &str) -> Result<Map<String, Value>, Error> {
    let mut pairs = Map::new();
    for pair in text.split(',').filter(|_| !text.is_empty()) {
        let (key, value) = pair.split_once(':').unwrap_or((pair, ""));
        if key.is_empty() && pair.starts_with(':') {
            return Err(Error::new(format!(
                "invalid {noun}: '{pair}' (need k:v pair where v may be quoted)"
            ))
            .next(format!("give --{noun}s KEY:VALUE,KEY:VALUE")));
        }
        let inner = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        pairs.insert(key.to_owned(), inner.unwrap_or(value).into());
    }
    Ok(pairs)
}

/// Writes the new file. One that another program has created in the meantime is kept.
fn write(dir: &Directory, text: &str) -> Result<(), Error> {
    let path = dir.path.join(FILE);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::new("kustomization file already exists"),
        _ => Error::new(format!(
            "write {}: {}",
            path.display(),
            paths::reason(&error)
        )),
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(|error| {
        // An incomplete kustomization is worse than none; the error is that of the write.
        let _ = fs::remove_file(&path);
        failed(error)
    })
}
