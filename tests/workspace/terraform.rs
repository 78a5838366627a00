//! The Terraform module has the parameters and outputs of the SAM template.
//!
//! `DRIFTLESS_WRITE=1 cargo test -p driftless-tests --test workspace terraform` writes its files
//! `parameters.tf` and `outputs.tf`.

use crate::infra::template;
use crate::text::read;
use driftless_harness::tools;
use serde_json::Value;

#[test]
fn terraform_has_every_parameter_and_output() {
    let template = template();
    for (name, expected) in [
        ("parameters.tf", parameters(&template["Parameters"])),
        ("outputs.tf", outputs(&template["Outputs"])),
    ] {
        let path = format!("infra/terraform/{name}");
        if std::env::var_os("DRIFTLESS_WRITE").is_some() {
            std::fs::write(tools::workspace().join(&path), &expected).expect("write the file");
        }
        assert!(
            read(&path) == expected,
            "{path} differs from infra/template.yaml: write it again with DRIFTLESS_WRITE=1"
        );
    }
}

/// Returns a variable for each parameter, and the map of their values.
fn parameters(parameters: &Value) -> String {
    let parameters = parameters.as_object().expect("parameters");
    let width = parameters.keys().map(String::len).max().unwrap_or_default();
    let mut text = String::from(
        "# The parameters of ../template.yaml. A test writes this file from it.\n\nlocals {\n  parameters = {\n",
    );
    for (name, parameter) in parameters {
        let variable = format!("var.{}", snake_case(name));
        let value = match parameter["Type"].as_str() {
            Some("CommaDelimitedList") => format!("join(\",\", {variable})"),
            _ => variable,
        };
        text.push_str(&format!("    {name:width$} = {value}\n"));
    }
    text.push_str("  }\n}\n");
    for (name, parameter) in parameters {
        text.push_str(&variable(&snake_case(name), parameter));
    }
    text
}

fn variable(name: &str, parameter: &Value) -> String {
    let description = quoted(&parameter["Description"]);
    let default = string(&parameter["Default"]);
    let allowed = parameter["AllowedValues"].as_array();
    let is_switch = allowed.is_some_and(|values| values.iter().any(|value| value == "true"));
    let is_number = parameter["Type"] == "Number";
    let (kind, default) = match parameter["Type"].as_str() {
        Some("CommaDelimitedList") => {
            assert_eq!(default, "", "{name}: a list without entries");
            ("list(string)", "[]".to_owned())
        }
        Some("Number") => ("number", default),
        Some("String") if is_switch => ("bool", default),
        Some("String") => ("string", quoted(&parameter["Default"])),
        other => panic!("{name}: the type {other:?}"),
    };
    let mut text = format!(
        "\nvariable \"{name}\" {{\n  description = {description}\n  type        = {kind}\n  default     = {default}\n"
    );
    for (condition, message) in [
        allowed.filter(|_| !is_switch).map(|values| {
            let each = |value: &Value| match is_number {
                true => string(value),
                false => quoted(value),
            };
            let listed: Vec<String> = values.iter().map(each).collect();
            let shown: Vec<String> = values.iter().map(string).collect();
            (
                format!("contains([{}], var.{name})", listed.join(", ")),
                format!("Allowed values: {}.", shown.join(", ")),
            )
        }),
        parameter["AllowedPattern"].as_str().map(|pattern| {
            let whole = quoted(&Value::from(format!("^{pattern}$")));
            (
                format!("can(regex({whole}, var.{name}))"),
                format!("The value must match {pattern}"),
            )
        }),
        parameter["MinValue"].as_u64().map(|least| {
            let most = parameter["MaxValue"].as_u64().expect("a largest value");
            (
                format!("var.{name} >= {least} && var.{name} <= {most}"),
                format!("The value must be from {least} to {most}."),
            )
        }),
    ]
    .into_iter()
    .flatten()
    {
        let message = quoted(&Value::from(message));
        text.push_str(&format!(
            "\n  validation {{\n    condition     = {condition}\n    error_message = {message}\n  }}\n"
        ));
    }
    text + "}\n"
}

/// Returns an output for each output of the template.
fn outputs(outputs: &Value) -> String {
    let mut text = String::from(
        "# The outputs of ../template.yaml; null for one whose function is not deployed. A test writes this\n\
         # file from it.\n",
    );
    for (name, output) in outputs.as_object().expect("outputs") {
        let value = format!("lookup(aws_cloudformation_stack.driftless.outputs, \"{name}\", null)");
        text.push_str(&format!("\noutput \"{}\" {{\n", snake_case(name)));
        text.push_str(&match output["Description"].is_string() {
            true => format!(
                "  description = {}\n  value       = {value}\n",
                quoted(&output["Description"])
            ),
            false => format!("  value = {value}\n"),
        });
        text.push_str("}\n");
    }
    text
}

/// Returns the name in Terraform's form: `git_hub` is `github` there, as in the variables of other
/// modules.
fn snake_case(name: &str) -> String {
    let name = name.replace("GitHub", "Github");
    let mut text = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

fn string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a string of HCL: as in JSON, without its two templates.
fn quoted(value: &Value) -> String {
    let text = Value::from(string(value).trim()).to_string();
    text.replace("${", "$${").replace("%{", "%%{")
}
