//! Questions and answers of the real libraries (`tests/oracle/helm`), and the engine's answers in
//! the same form.

use crate::common::Input;
use driftless_helm::values::SetKind;
use driftless_helm::{ChartFile, Compat, HelmError, Hook, manifest_text};
use serde_json::{Value, json};

/// Reads a question: a chart's files with its inputs.
pub fn input(question: &Value) -> Input {
    let files = question["files"].as_object().into_iter().flatten();
    let values = question["values"].as_array().into_iter().flatten();
    let set = question["set"].as_array().into_iter().flatten();
    Input {
        files: files
            .map(|(name, data)| ChartFile {
                name: name.clone(),
                data: text(data).as_bytes().into(),
            })
            .collect(),
        values: values
            .map(|content| ("values".to_owned(), text(content).into()))
            .collect(),
        set: set
            .map(|flag| (kind(text(&flag["kind"])), text(&flag["arg"]).to_owned()))
            .collect(),
        kube_version: text(&question["kube_version"]).to_owned(),
        api_versions: Vec::new(),
        upgrade: question["upgrade"] == json!(true),
        check_schema: true,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn kind(flag: &str) -> SetKind {
    match flag {
        "set-json" => SetKind::Json,
        "set-string" => SetKind::Text,
        "set-literal" => SetKind::Literal,
        _ => SetKind::Typed,
    }
}

/// Returns the engine's answer.
pub fn answer(input: &Input, compat: Compat) -> Value {
    match input.render(compat) {
        Ok(rendered) => json!({
            "manifest": manifest_text(&rendered, true),
            "hooks": rendered.hooks.iter().map(hook).collect::<Vec<Value>>(),
            "notes": rendered.notes,
        }),
        Err(error) => json!({
            "error": error.to_string(),
            "worded": match &error {
                HelmError::Render { .. } => true,
                // The position at which Go's reader fails in invalid YAML is not compared.
                HelmError::Manifest { message, .. } => !message.contains("yaml: line "),
                _ => false,
            },
        }),
    }
}

fn hook(hook: &Hook) -> Value {
    let manifest = &hook.manifest;
    json!({
        "path": manifest.source, "name": manifest.name, "kind": manifest.kind, "manifest": manifest.content,
        "events": hook.events, "weight": hook.weight, "delete_policies": hook.delete_policies,
        "log_policies": hook.log_policies,
    })
}

/// Checks whether text and hooks are the same, or both refuse: with the same message where the
/// engine reproduces Helm's.
pub fn fit(theirs: &Value, ours: &Value) -> bool {
    match (theirs["error"].as_str(), ours["error"].as_str()) {
        (Some(theirs), Some(worded)) => ours["worded"] != json!(true) || theirs == worded,
        (None, None) => ["manifest", "hooks", "notes"]
            .iter()
            .all(|part| theirs[part] == ours[part]),
        _ => false,
    }
}

/// Formats an answer for reading.
pub fn pretty(answer: &Value) -> String {
    match answer["error"].as_str() {
        Some(error) => format!("refused: {error}"),
        None => format!(
            "{}-- notes\n{}\n-- hooks\n{:#}",
            text(&answer["manifest"]),
            text(&answer["notes"]),
            answer["hooks"]
        ),
    }
}
