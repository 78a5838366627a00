//! The parameters of writes.

use crate::error::{ApiError, FieldError};
use crate::objects::Validation;
use crate::objects::patch::PatchKind;
use crate::request::call::Call;

/// The parameters of one write.
#[derive(Clone, Debug)]
pub struct Options {
    /// True if everything is checked and nothing is stored.
    pub dry_run: bool,
    /// The handling of unknown fields.
    pub validation: Validation,
    /// The field manager.
    pub manager: String,
    /// True if a server-side apply takes over fields that others own.
    pub force: bool,
}

impl Options {
    /// Reads and checks the parameters. `kind` is the kind of the options in messages, such as
    /// `CreateOptions`.
    ///
    /// # Errors
    /// 422 for values that are not allowed.
    pub fn read(call: &Call<'_>, kind: &str, patch: Option<PatchKind>) -> Result<Self, ApiError> {
        let query = &call.query;
        let mut problems = Vec::new();
        let force = query.find("force");
        let manager = query.get("fieldManager");
        match patch {
            Some(PatchKind::Apply) if manager.is_empty() => {
                problems.push(FieldError::required(
                    "fieldManager",
                    "is required for apply patch",
                ));
            }
            Some(PatchKind::Apply) => {}
            Some(_) if force.is_some() => problems.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            )),
            _ => {}
        }
        if manager.len() > 128 {
            problems.push(FieldError::too_long("fieldManager", 128));
        }
        let dry: Vec<&str> = query.all("dryRun").filter(|v| !v.is_empty()).collect();
        if let Some(other) = dry.iter().find(|value| **value != "All") {
            problems.push(FieldError::unsupported(
                "dryRun",
                &serde_json::json!([other]),
                &["All"],
            ));
        }
        let validation = match query.get("fieldValidation") {
            "" | "Warn" => Validation::Warn,
            "Ignore" => Validation::Ignore,
            "Strict" => Validation::Strict,
            other => {
                problems.push(FieldError::unsupported(
                    "fieldValidation",
                    &other.into(),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                Validation::Warn
            }
        };
        if !problems.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", kind, "", &problems));
        }
        let manager = if manager.is_empty() {
            let agent = call.request.header("user-agent");
            agent.split('/').next().unwrap_or_default()
        } else {
            manager
        };
        Ok(Self {
            dry_run: !dry.is_empty(),
            validation,
            manager: manager.chars().take(128).collect(),
            force: query.flag("force"),
        })
    }
}
