//! Kubeconfig files of the operator, merged as kubectl merges them, and then parsed by the core's
//! strict parser.

use crate::error::Error;
use driftless_kernel::kubeconfig::{self, Options};
use driftless_kernel::ports::Access;
use driftless_manifest::yaml;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable with the kubeconfig files.
const VARIABLE: &str = "KUBECONFIG";
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];
const FILE_FIELDS: [&str; 4] = [
    "certificate-authority",
    "client-certificate",
    "client-key",
    "tokenFile",
];

/// Reads and merges the kubeconfig files, selects `context` (the default is their current context),
/// and replaces references to files by the contents.
pub fn load(given: Option<&Path>, context: Option<&str>) -> Result<Vec<u8>, Error> {
    let files = match given {
        Some(file) => vec![file.to_owned()],
        None => default_files(),
    };
    let mut merged = Map::new();
    for file in &files {
        match (fs::read(file), given) {
            (Ok(text), _) => merge(&mut merged, &text, file)?,
            (Err(error), Some(_)) => return Err(Error::unreadable("--kubeconfig", file, error)),
            // As kubectl, skip those of the default files that do not exist.
            (Err(error), None) if error.kind() == std::io::ErrorKind::NotFound => {}
            (Err(error), None) => {
                return Err(Error::new(format!("read {}: {error}", file.display())));
            }
        }
    }
    if merged.is_empty() {
        return Err(not_found(&files));
    }
    if let Some(context) = context {
        merged.insert("current-context".to_owned(), context.into());
    }
    check_context(&merged, &files)?;
    let text = yaml::to_string(&Value::Object(merged));
    kubeconfig::inline_files(text.as_bytes(), |file| {
        fs::read(file).map_err(|error| format!("{file}: {error}").into())
    })
    .map_err(|error| with_next_step(&error))
}

/// Returns the error for a missing kubeconfig, with the files that were tried.
fn not_found(files: &[PathBuf]) -> Error {
    let next = "give --kubeconfig FILE, or set KUBECONFIG to a file that exists";
    let files: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let files = files.join(" and ");
    let message = match std::env::var_os(VARIABLE).is_some_and(|list| !list.is_empty()) {
        true => format!("no kubeconfig was found: {VARIABLE} names {files}, which does not exist"),
        false => format!("no kubeconfig was found: {files} does not exist"),
    };
    Error::new(message).next(next)
}

/// Checks that the current context exists. The error lists the contexts.
fn check_context(merged: &Map<String, Value>, files: &[PathBuf]) -> Result<(), Error> {
    let entries = merged.get("contexts").and_then(Value::as_array);
    let names = entries.into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|entry| entry["name"].as_str()).collect();
    let current = merged.get("current-context").and_then(Value::as_str);
    let problem = match current.unwrap_or_default() {
        current if names.contains(&current) => return Ok(()),
        "" => "current-context is not set".to_owned(),
        current => format!("context '{current}' does not exist"),
    };
    let files: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let next = match names.as_slice() {
        [] => "give another file with --kubeconfig: this one has no contexts".to_owned(),
        names => format!("give --context NAME, one of: {}", names.join(", ")),
    };
    Err(Error::new(format!("kubeconfig {}: {problem}", files.join(":"))).next(next))
}

/// Parses a kubeconfig from [`load`].
pub fn access(text: &[u8]) -> Result<Access, Error> {
    // The operator is trusted to allow these settings for their own cluster, as with kubectl.
    kubeconfig::parse(
        text,
        &Options {
            allow_insecure: true,
            allow_local: true,
        },
    )
    .map_err(|error| with_next_step(&error))
}

fn with_next_step(error: &kubeconfig::KubeconfigError) -> Error {
    let result = Error::new(error);
    let text = error.to_string();
    if text.contains("exec") || text.contains("auth-provider") {
        return result.next("write a kubeconfig with a token (kubectl create token NAME) or a client certificate, and give it with --kubeconfig: driftless serve and the functions run no credential plugin");
    }
    if text.contains("current-context") {
        return result.next("give --context NAME");
    }
    result
}

/// Returns the files of `KUBECONFIG`, or `~/.kube/config`.
fn default_files() -> Vec<PathBuf> {
    match std::env::var_os(VARIABLE).filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list)
            .filter(|file| !file.as_os_str().is_empty())
            .collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube/config"))
            .into_iter()
            .collect(),
    }
}

/// Parses the single document of a kubeconfig. The parser's error is dropped, because it may quote
/// the file, which has credentials.
pub fn document(text: &[u8]) -> Option<Map<String, Value>> {
    let limits = yaml::Limits::default();
    let mut documents = yaml::documents(text, "kubeconfig", yaml::Dialect::V2, &limits).ok()?;
    match (documents.pop(), documents.is_empty()) {
        (Some(Value::Object(config)), true) => Some(config),
        _ => None,
    }
}

/// Merges a file: of two entries with the same name, and of two current contexts, the first wins.
fn merge(merged: &mut Map<String, Value>, text: &[u8], file: &Path) -> Result<(), Error> {
    let Some(config) = document(text) else {
        let problem = "is not a kubeconfig: expected a single YAML document with a map";
        return Err(Error::new(format!("{} {problem}", file.display())));
    };
    if !matches!(
        config.get("kind").map(Value::as_str),
        None | Some(Some("Config" | ""))
    ) {
        let problem = "is not a kubeconfig: its kind is not Config";
        return Err(Error::new(format!("{} {problem}", file.display())));
    }
    let directory = file.parent().unwrap_or(Path::new(""));
    for (key, mut value) in config {
        match (&mut value, merged.get_mut(&key)) {
            (Value::Array(items), known) if LISTS.contains(&key.as_str()) => {
                items.iter_mut().for_each(|item| locate(item, directory));
                match known {
                    Some(Value::Array(known)) => known.append(items),
                    _ => {
                        merged.insert(key, value);
                    }
                }
            }
            (_, Some(known)) if !matches!(known, Value::Null) && *known != "" => {}
            _ => {
                merged.insert(key, value);
            }
        }
    }
    Ok(())
}

/// Makes the file names of an entry absolute or relative to the working directory. A plugin without
/// a directory stays unchanged: it is searched in PATH.
fn locate(item: &mut Value, directory: &Path) {
    if let Some(Value::String(command)) = item.pointer_mut("/user/exec/command")
        && command.contains('/')
    {
        *command = directory.join(&*command).display().to_string();
    }
    for entry in ["cluster", "user"] {
        let Some(fields) = item.get_mut(entry).and_then(Value::as_object_mut) else {
            continue;
        };
        for field in FILE_FIELDS {
            if let Some(Value::String(file)) = fields.get_mut(field)
                && !file.is_empty()
            {
                *file = directory.join(&*file).display().to_string();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_merged_as_kubectl_merges_them() {
        let mut merged = Map::new();
        let first = b"current-context: a\nclusters:\n- name: a\n  cluster: {server: 'https://a', certificate-authority: ca.pem}\n";
        let second = b"current-context: b\nclusters:\n- name: a\n  cluster: {server: 'https://b'}\nusers: [{name: u, user: {client-key: /k, exec: {command: ./login}}}, {name: v, user: {exec: {command: aws}}}]\n";
        merge(&mut merged, first, Path::new("/one/config")).unwrap();
        merge(&mut merged, second, Path::new("/two/config")).unwrap();
        assert_eq!(merged["current-context"], "a");
        assert_eq!(
            merged["clusters"][0]["cluster"]["certificate-authority"],
            "/one/ca.pem"
        );
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://b");
        assert_eq!(merged["users"][0]["user"]["client-key"], "/k");
        let command = |at: usize| &merged["users"][at]["user"]["exec"]["command"];
        assert_eq!(
            (command(0), command(1)),
            (&"/two/./login".into(), &"aws".into())
        );
    }

    #[test]
    fn programs_are_refused_with_a_way_out() {
        let text = b"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: [{name: k, cluster: {server: 'https://k'}}]\nusers: [{name: u, user: {exec: {command: aws}}}]\n";
        let error = access(text).unwrap_err();
        assert!(error.message.contains("exec"), "{}", error.message);
        assert!(error.next.unwrap().contains("kubectl create token"));
    }
}
