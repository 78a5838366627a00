//! The calls that roles made, and the rights that the deployed roles have.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::MiniStack;

/// A call of AWS's API that a role made, or one that its policies allow. In the latter, `*` and `?`
/// of `resource` and `prefix` stand for other characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The name of the role in the account.
    pub role: String,
    /// Such as `s3:GetObject`.
    pub action: String,
    /// The ARN of what the call reads or changes.
    pub resource: String,
    /// The prefix of a list of a bucket; empty for other calls.
    pub prefix: String,
}

impl Call {
    /// Checks whether this right allows a call.
    pub fn allows(&self, call: &Self) -> bool {
        self.role == call.role
            && self.action == call.action
            && matches(&self.resource, &call.resource)
            && matches(&self.prefix, &call.prefix)
    }
}

/// Matches a string as IAM does: `*` is any characters, `?` is one.
fn matches(pattern: &str, value: &str) -> bool {
    let mut escaped = regex::escape(pattern);
    for (wildcard, expression) in [("\\*", ".*"), ("\\?", ".")] {
        escaped = escaped.replace(wildcard, expression);
    }
    let pattern = regex::Regex::new(&format!("^{escaped}$")).expect("a pattern");
    pattern.is_match(value)
}

/// Returns the permission that AWS checks for an action. MiniStack has a separate one for a batch.
fn permission(action: &str) -> String {
    action.trim_end_matches("MessageBatch").to_owned()
        + match action.ends_with("MessageBatch") {
            true => "Message",
            false => "",
        }
}

fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl MiniStack {
    /// Returns the different calls that roles made so far, and for each whether it was allowed.
    pub fn calls(&self) -> BTreeSet<(Call, bool)> {
        let lines = std::fs::read_to_string(self.calls_file()).unwrap_or_default();
        let call = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a recorded call");
            let principal = text(&line["principal"]);
            let role = principal.split('/').nth(1).unwrap_or_default();
            let call = Call {
                role: role.to_owned(),
                action: permission(&text(&line["action"])),
                resource: text(&line["resource"]),
                prefix: text(&line["prefix"]),
            };
            (call, line["allowed"] == true)
        };
        lines.lines().map(call).collect()
    }

    /// Returns the rights of a deployed role, from its own policies.
    pub fn rights(&self, role: &str) -> BTreeSet<Call> {
        let names = json!({"RoleName": role});
        let names = self.aws().must("iam", "list_role_policies", names);
        let mut rights = BTreeSet::new();
        for name in list(&names["PolicyNames"]) {
            let name = json!({"RoleName": role, "PolicyName": name});
            let policy = self.aws().must("iam", "get_role_policy", name);
            let statements = list(&policy["PolicyDocument"]["Statement"]);
            for statement in statements
                .into_iter()
                .filter(|one| one["Effect"] == "Allow")
            {
                let prefixes = &statement["Condition"]["StringLike"]["s3:prefix"];
                let mut prefixes: Vec<String> = list(prefixes).into_iter().map(text).collect();
                if prefixes.is_empty() {
                    prefixes.push("*".to_owned());
                }
                for action in list(&statement["Action"]) {
                    for resource in list(&statement["Resource"]) {
                        rights.extend(prefixes.iter().map(|prefix| Call {
                            role: role.to_owned(),
                            action: permission(&text(action)),
                            resource: text(resource),
                            prefix: prefix.clone(),
                        }));
                    }
                }
            }
        }
        rights
    }
}
