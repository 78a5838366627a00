//! SOPS files that no given key can decrypt: their structure is kept, their values are
//! placeholders.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_manifest::{EntryKind, FileTree, TreePath};
use driftless_sops::{Format, KeyService, is_encrypted, master_keys};
use regex::{Captures, Regex};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The placeholder of a value: a word that is valid as a name.
const PLACEHOLDER: &str = "placeholder";
/// A file without age identities. An entry with a key that is itself encrypted becomes this file,
/// which decrypts nothing.
const NO_KEY: &str = "# placeholder";
/// The file extension of an entry with age identities.
const AGE_KEY: &str = ".agekey";
/// The file extension of an entry with an OpenPGP key, and its replacement: a placeholder is not a
/// valid key.
const PGP_KEY: &str = ".asc";
const NO_PGP_KEY: &str = ".asc.placeholder";

/// Returns the mark of an encrypted value `ENC[...]`: 12 hex digits that its placeholder ends with,
/// or an empty string for a placeholder that is the same for all values.
pub type Mark<'a> = &'a dyn Fn(&str) -> String;

/// The marks of the values of one file.
pub type FileMarks = Box<dyn Fn(&str) -> String>;

/// The place of a value.
#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a str,
    /// True in the `data` of a Secret, whose values are in base64.
    in_data: bool,
}

impl Entry<'_> {
    /// Returns the placeholder of the value.
    fn stand_in(self, mark: &str) -> String {
        let plain = match self.key.ends_with(AGE_KEY) {
            true => NO_KEY,
            false => PLACEHOLDER,
        };
        let plain = match mark.is_empty() {
            true => plain.to_owned(),
            false => format!("{plain}-{mark}"),
        };
        match self.in_data {
            true => STANDARD.encode(plain),
            false => plain,
        }
    }
}

/// Replaces the encrypted values of every SOPS file with placeholders. Line numbers do not change.
pub fn hide(tree: &mut FileTree) {
    hide_marked(tree, &|_, _, _| Box::new(|_| String::new()));
}

/// Replaces the encrypted values of every SOPS file with placeholders that have the marks of the
/// file. Line numbers do not change.
pub fn hide_marked(tree: &mut FileTree, marks: &dyn Fn(&TreePath, Format, &str) -> FileMarks) {
    for (path, format) in files(tree) {
        let Some(content) = tree
            .content(&path)
            .and_then(|content| std::str::from_utf8(content).ok())
        else {
            continue;
        };
        let mark = marks(&path, format, content);
        let mark: Mark<'_> = &*mark;
        let whole = Entry {
            key: "",
            in_data: false,
        };
        let plain = match format {
            Format::Yaml => yaml(content, mark),
            Format::Json => json(content, mark),
            Format::Dotenv | Format::Ini => lines(content, mark),
            Format::Binary => whole.stand_in(&mark(content)),
        };
        let kept = path.clone();
        tree.retain(|path| *path != kept);
        // The file was removed just now, so that the limits allow it.
        let _ = tree.insert(path, EntryKind::File, plain);
    }
}

/// Returns every encrypted file.
pub fn files(tree: &FileTree) -> Vec<(TreePath, Format)> {
    let all = tree.index().iter().filter_map(|(path, _)| {
        let content = tree.content(path)?;
        let format = Format::from_path(path.as_str());
        is_encrypted(content, format).then(|| (path.clone(), format))
    });
    all.collect()
}

/// Returns the key services that a file is encrypted for, if age and OpenPGP are not among them.
pub fn other_services(tree: &FileTree, path: &TreePath, format: Format) -> Option<String> {
    let groups = master_keys(tree.content(path)?, format, path.as_str()).ok()?;
    let mut services = BTreeSet::new();
    for key in groups.iter().flatten() {
        match key.service {
            KeyService::Age | KeyService::Pgp => return None,
            service => services.insert(service.to_string()),
        };
    }
    let services: Vec<String> = services.into_iter().collect();
    (!services.is_empty()).then(|| services.join(", "))
}

/// Replaces each encrypted value of a line with a placeholder.
fn values(text: &str, entry: Entry<'_>, mark: Mark<'_>) -> String {
    static VALUE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"("?)(ENC\[[A-Z0-9_]+,[^\]]*type:([a-z]+)\])("?)"#).ok());
    let Some(value) = VALUE.as_ref() else {
        return text.to_owned();
    };
    let plain = |found: &Captures<'_>| {
        let mark = mark(&found[2]);
        match &found[3] {
            "int" | "float" => number(&mark).to_string(),
            // The mark of a Boolean would reveal its value.
            "bool" => "true".to_owned(),
            _ => {
                let placeholder = entry.stand_in(&mark);
                match found[1].is_empty() && placeholder.starts_with('#') {
                    true => format!("\"{placeholder}\""),
                    false => format!("{}{placeholder}{}", &found[1], &found[4]),
                }
            }
        }
    };
    value.replace_all(text, plain).into_owned()
}

/// Returns the number in place of an encrypted one: zero without a mark.
fn number(mark: &str) -> u32 {
    let digits = mark.get(..4).unwrap_or_default();
    u32::from_str_radix(digits, 16).unwrap_or_default()
}

/// Replaces the values of YAML, and the lines of the top-level `sops` with empty lines.
fn yaml(text: &str, mark: Mark<'_>) -> String {
    let mut field = String::new();
    let lines = text.lines().map(|line| {
        let is_top =
            !line.is_empty() && !line.starts_with([' ', '\t', '#', '-']) || line.starts_with("---");
        if is_top {
            field = line.split(':').next().unwrap_or_default().to_owned();
        }
        if field == "sops" {
            return String::new();
        }
        let key = line.split(": ").next().unwrap_or_default();
        let key = key.trim().trim_matches(['"', '\'']);
        let in_data = field == "data";
        let plain = values(line, Entry { key, in_data }, mark);
        match key.ends_with(PGP_KEY) && plain != line {
            true => plain.replacen(PGP_KEY, NO_PGP_KEY, 1),
            false => plain,
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn json(text: &str, mark: Mark<'_>) -> String {
    let Ok(serde_json::Value::Object(mut map)) = serde_json::from_str(text) else {
        return text.to_owned();
    };
    map.remove("sops");
    for (field, value) in &mut map {
        let in_data = field == "data";
        let entry = Entry {
            key: field,
            in_data,
        };
        decrypted(value, entry, mark);
    }
    serde_json::Value::Object(map).to_string()
}

/// Replaces the encrypted values in a JSON value.
fn decrypted(value: &mut serde_json::Value, entry: Entry<'_>, mark: Mark<'_>) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                decrypted(value, Entry { key, ..entry }, mark);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|one| decrypted(one, entry, mark)),
        Value::String(text) if text.starts_with("ENC[") => {
            let plain = values(text, entry, mark);
            let is_text = text.contains("type:str]") || text.contains("type:bytes]");
            *value = match serde_json::from_str(&plain) {
                Ok(other) if !is_text => other,
                _ => Value::String(plain),
            };
        }
        _ => {}
    }
}

/// Replaces the values of a dotenv or INI file, and the lines of SOPS with empty lines.
fn lines(text: &str, mark: Mark<'_>) -> String {
    let mut inside = false;
    let entry = Entry {
        key: "",
        in_data: false,
    };
    let text = values(text, entry, mark);
    let lines = text.lines().map(|line| {
        inside = if line.starts_with('[') {
            line == "[sops]"
        } else {
            inside
        };
        if inside || line.starts_with("sops_") {
            String::new()
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The placeholder in base64, for the `data` of a Secret.
    const ENCODED: &str = "cGxhY2Vob2xkZXI=";

    fn none(_: &str) -> String {
        String::new()
    }

    #[test]
    fn placeholders_keep_the_structure() {
        let enc = |kind: &str| format!("ENC[AES256_GCM,data:a+/=,iv:b=,tag:c=,type:{kind}]");
        let text = format!(
            "kind: Secret\ndata:\n  a: {}\n  n: {}\nsops:\n    mac: {}\n    age:\n    - enc: |\n        x\n---\nkind: ConfigMap\n",
            enc("str"),
            enc("int"),
            enc("str")
        );
        let want = format!(
            "kind: Secret\ndata:\n  a: {ENCODED}\n  n: 0\n\n\n\n\n\n---\nkind: ConfigMap\n"
        );
        assert_eq!(yaml(&text, &none), want);
        let text = format!(
            r#"{{"a": "{}", "b": "{}", "sops": {{"mac": "x"}}}}"#,
            enc("str"),
            enc("bool")
        );
        let plain: serde_json::Value = serde_json::from_str(&json(&text, &none)).unwrap();
        assert_eq!(plain, serde_json::json!({"a": PLACEHOLDER, "b": true}));
        assert_eq!(
            lines(&format!("A={}\nsops_mac=x\n", enc("str")), &none),
            format!("A={PLACEHOLDER}\n\n")
        );
    }
}
