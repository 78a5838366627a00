//! The annotations of an Alert that driftless adds to Flux's API. Without them, an Alert does what
//! Flux's does.

use super::time::parse_duration;
use crate::error::FieldError;
use driftless_manifest::Object;
use std::time::Duration;

/// The annotation that merges the events of a push into one, if its value is `true`.
pub const DIGEST: &str = "driftless.dev/digest";
/// The annotation with the time after which the Alert reminds of an object that still fails.
pub const REMINDER: &str = "driftless.dev/reminder";
/// The annotation that also reports when a failed object is ready again, if its value is `true`.
pub const RECOVERY: &str = "driftless.dev/recovery";

/// The shortest time before a reminder.
pub const SHORTEST_REMINDER: Duration = Duration::from_secs(10 * 60);
/// The longest time between two reminders.
pub const LONGEST_REMINDER: Duration = Duration::from_secs(12 * 60 * 60);

/// The values of the annotations of an Alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlertOptions {
    /// True if the events of a push become one.
    pub digest: bool,
    /// The time before the first reminder of an object that still fails; the next times double.
    pub reminder: Option<Duration>,
    /// True if the Alert reports that a failed object is ready again.
    pub recovery: bool,
}

impl AlertOptions {
    /// Reads the annotations of an Alert.
    ///
    /// # Errors
    /// The first annotation with a value that is not valid, and the valid values.
    pub fn of(alert: &Object) -> Result<Self, FieldError> {
        Ok(Self {
            digest: is_true(alert, DIGEST)?,
            reminder: reminder(alert)?,
            recovery: is_true(alert, RECOVERY)?,
        })
    }

    /// Returns whether the Alert follows the objects that fail.
    pub fn follows_failures(self) -> bool {
        self.recovery || self.reminder.is_some()
    }
}

fn is_true(alert: &Object, key: &str) -> Result<bool, FieldError> {
    match alert.annotation(key) {
        Some("true") => Ok(true),
        None | Some("" | "false") => Ok(false),
        Some(_) => Err(FieldError::Value(format!(
            "the annotation {key} is not valid: expected true or false"
        ))),
    }
}

fn reminder(alert: &Object) -> Result<Option<Duration>, FieldError> {
    let text = alert.annotation(REMINDER).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let valid = SHORTEST_REMINDER..=LONGEST_REMINDER;
    let time = parse_duration(text).ok();
    match time.filter(|time| valid.contains(time)) {
        Some(time) => Ok(Some(time)),
        None => Err(FieldError::Value(format!(
            "the annotation {REMINDER} is not valid: expected a duration between 10m and 12h, such as 1h"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn options(annotations: serde_json::Value) -> Result<AlertOptions, FieldError> {
        let alert = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": "Alert",
            "metadata": {"name": "a", "namespace": "b", "annotations": annotations}});
        AlertOptions::of(&Object::new(alert).unwrap())
    }

    #[test]
    fn annotations_are_read_and_refused() {
        assert_eq!(options(json!({})), Ok(AlertOptions::default()));
        let all = json!({DIGEST: "true", REMINDER: "1h", RECOVERY: "true"});
        let hour = Duration::from_secs(3600);
        let expected = AlertOptions {
            digest: true,
            reminder: Some(hour),
            recovery: true,
        };
        assert_eq!(options(all), Ok(expected));
        assert_eq!(
            options(json!({DIGEST: "yes"})).unwrap_err().to_string(),
            "the annotation driftless.dev/digest is not valid: expected true or false"
        );
        for wrong in ["1", "1m", "24h", "-1h", "true"] {
            let error = options(json!({REMINDER: wrong})).unwrap_err().to_string();
            assert!(
                error.contains(REMINDER) && error.contains("10m"),
                "{wrong}: {error}"
            );
        }
    }
}
