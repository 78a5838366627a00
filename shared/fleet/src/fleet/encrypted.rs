//! SOPS files that no given key can decrypt: their structure is kept, their values are
//! placeholders.

use driftless_manifest::{EntryKind, FileTree, TreePath};
use driftless_sops::{Format, KeyService, is_encrypted, master_keys};
use regex::{Captures, Regex};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The placeholder of a value: a word that is valid as a name.
const PLACEHOLDER: &str = "placeholder";
/// The placeholder in base64, for the `data` of a Secret.
const ENCODED: &str = "cGxhY2Vob2xkZXI=";
/// A file without age identities, `# placeholder`, plain and in base64. An entry with a key that is
/// itself encrypted becomes this file, which decrypts nothing.
const NO_KEY: (&str, &str) = ("# placeholder", "IyBwbGFjZWhvbGRlcg==");
/// The file extension of an entry with age identities.
const AGE_KEY: &str = ".agekey";
/// The file extension of an entry with an OpenPGP key, and its replacement: a placeholder is not a
/// valid key.
const PGP_KEY: &str = ".asc";
const NO_PGP_KEY: &str = ".asc.placeholder";

/// Returns the placeholder of an entry's value.
fn stand_in(key: &str, in_data: bool) -> &'static str {
    match (key.ends_with(AGE_KEY), in_data) {
        (true, true) => NO_KEY.1,
        (true, false) => NO_KEY.0,
        (false, true) => ENCODED,
        (false, false) => PLACEHOLDER,
    }
}

/// Replaces the encrypted values of every SOPS file with placeholders. Line numbers do not change.
pub fn hide(tree: &mut FileTree) {
    for (path, format) in files(tree) {
        let Some(content) = tree
            .content(&path)
            .and_then(|content| std::str::from_utf8(content).ok())
        else {
            continue;
        };
        let plain = match format {
            Format::Yaml => yaml(content),
            Format::Json => json(content),
            Format::Dotenv | Format::Ini => lines(content),
            Format::Binary => PLACEHOLDER.to_owned(),
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
fn values(text: &str, placeholder: &str) -> String {
    static VALUE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"("?)ENC\[[A-Z0-9_]+,[^\]]*type:([a-z]+)\]("?)"#).ok());
    let Some(value) = VALUE.as_ref() else {
        return text.to_owned();
    };
    let plain = |found: &Captures<'_>| match &found[2] {
        "int" | "float" => "0".to_owned(),
        "bool" => "true".to_owned(),
        _ if found[1].is_empty() && placeholder.starts_with('#') => format!("\"{placeholder}\""),
        _ => format!("{}{placeholder}{}", &found[1], &found[3]),
    };
    value.replace_all(text, plain).into_owned()
}

/// Replaces the values of YAML, and the lines of the top-level `sops` with empty lines.
fn yaml(text: &str) -> String {
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
        let plain = values(line, stand_in(key, field == "data"));
        match key.ends_with(PGP_KEY) && plain != line {
            true => plain.replacen(PGP_KEY, NO_PGP_KEY, 1),
            false => plain,
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn json(text: &str) -> String {
    let Ok(serde_json::Value::Object(mut map)) = serde_json::from_str(text) else {
        return text.to_owned();
    };
    map.remove("sops");
    for (field, value) in &mut map {
        decrypted(value, field, field == "data");
    }
    serde_json::Value::Object(map).to_string()
}

/// Replaces the encrypted values in a JSON value.
fn decrypted(value: &mut serde_json::Value, key: &str, in_data: bool) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                decrypted(value, key, in_data);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|one| decrypted(one, key, in_data)),
        Value::String(text) if text.starts_with("ENC[") => {
            let plain = values(text, stand_in(key, in_data));
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
fn lines(text: &str) -> String {
    let mut inside = false;
    let text = values(text, PLACEHOLDER);
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
        assert_eq!(yaml(&text), want);
        let text = format!(
            r#"{{"a": "{}", "b": "{}", "sops": {{"mac": "x"}}}}"#,
            enc("str"),
            enc("bool")
        );
        let plain: serde_json::Value = serde_json::from_str(&json(&text)).unwrap();
        assert_eq!(plain, serde_json::json!({"a": PLACEHOLDER, "b": true}));
        assert_eq!(
            lines(&format!("A={}\nsops_mac=x\n", enc("str"))),
            format!("A={PLACEHOLDER}\n\n")
        );
    }
}
