//! SOPS files whose keys are not here: their form is kept, their values are placeholders.

use driftless_manifest::{EntryKind, FileTree, TreePath};
use driftless_sops::{Format, is_encrypted};
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// What stands in for a text. It is base64, too, for the `data` of a Secret.
const PLACEHOLDER: &str = "cGxhY2Vob2xkZXI=";

/// Takes the encryption out of every file that has it. Lines stay where they are.
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
        // It was there a moment ago, so there is room for it.
        let _ = tree.insert(path, EntryKind::File, plain);
    }
}

/// Every file that is encrypted.
pub fn files(tree: &FileTree) -> Vec<(TreePath, Format)> {
    let all = tree.index().iter().filter_map(|(path, _)| {
        let content = tree.content(path)?;
        let format = Format::from_path(path.as_str());
        is_encrypted(content, format).then(|| (path.clone(), format))
    });
    all.collect()
}

fn values(text: &str) -> String {
    static VALUE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"("?)ENC\[[A-Z0-9_]+,[^\]]*type:([a-z]+)\]("?)"#).ok());
    let Some(value) = VALUE.as_ref() else {
        return text.to_owned();
    };
    let plain = |found: &Captures<'_>| match &found[2] {
        "int" | "float" => "0".to_owned(),
        "bool" => "true".to_owned(),
        _ => format!("{}{PLACEHOLDER}{}", &found[1], &found[3]),
    };
    value.replace_all(text, plain).into_owned()
}

/// Without the top-level `sops`, its lines left empty.
fn yaml(text: &str) -> String {
    let mut inside = false;
    let text = values(text);
    let lines = text.lines().map(|line| {
        let is_top =
            !line.is_empty() && !line.starts_with([' ', '\t', '#', '-']) || line.starts_with("---");
        inside = if is_top {
            line.starts_with("sops:")
        } else {
            inside
        };
        if inside {
            String::new()
        } else {
            line.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn json(text: &str) -> String {
    let parsed = serde_json::from_str::<serde_json::Value>(&values(text));
    match parsed {
        Ok(serde_json::Value::Object(mut map)) => {
            map.remove("sops");
            serde_json::Value::Object(map).to_string()
        }
        _ => text.to_owned(),
    }
}

/// Without the lines of SOPS, which are left empty.
fn lines(text: &str) -> String {
    let mut inside = false;
    let text = values(text);
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
    fn forms_are_kept() {
        let enc = |kind: &str| format!("ENC[AES256_GCM,data:a+/=,iv:b=,tag:c=,type:{kind}]");
        let text = format!(
            "kind: Secret\ndata:\n  a: {}\n  n: {}\nsops:\n    mac: {}\n    age:\n    - enc: |\n        x\n---\nkind: ConfigMap\n",
            enc("str"),
            enc("int"),
            enc("str")
        );
        let want = format!(
            "kind: Secret\ndata:\n  a: {PLACEHOLDER}\n  n: 0\n\n\n\n\n\n---\nkind: ConfigMap\n"
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
