//! Recognizes errors of an API server that `force` resolves by a recreation.

/// Checks whether an error means that a field is immutable, so that only a new object can have the
/// new value.
///
/// Decides by the message alone: `is immutable`, `immutable field` (admission webhooks and CEL
/// rules use them as well) and the wording for StatefulSets. Narrower than [`may_recreate`]: a
/// value that is merely invalid is not a reason to delete.
pub fn is_immutable_error(message: &str) -> bool {
    let text = message.split_whitespace().collect::<Vec<_>>().join(" ");
    [
        "is immutable",
        "immutable field",
        "updates to statefulset spec for fields other than",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// Checks Flux's rule (`errors.IsImmutableError`): every conflict, every invalid object and every
/// message of an immutable field counts as immutable.
///
/// `code` and `reason` are those of the API server's `Status`; the code replaces an empty reason.
pub fn may_recreate(code: u16, reason: &str, message: &str) -> bool {
    let is = |name: &str, number: u16| {
        reason == name || ((reason.is_empty() || reason == "Unknown") && code == number)
    };
    is("Conflict", 409) || is("Invalid", 422) || is_immutable_error(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immutable_or_merely_wrong() {
        let selector = "Deployment.apps \"x\" is invalid: spec.selector: Invalid value: {}: field is immutable";
        let set = "StatefulSet.apps \"x\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden";
        let wrong = "Service \"x\" is invalid: spec.ports: Required value";
        for (code, reason, message, text, flux) in [
            (422, "Invalid", selector, true, true),
            (422, "Invalid", set, true, true),
            (422, "Invalid", wrong, false, true),
            (409, "Conflict", "the object has been modified", false, true),
            (409, "AlreadyExists", "exists", false, false),
            (409, "", "conflict", false, true),
            (
                403,
                "Forbidden",
                "the spec is immutable: denied by a webhook",
                true,
                true,
            ),
            (
                403,
                "Forbidden",
                "an immutable field was changed",
                true,
                true,
            ),
            (403, "Forbidden", "is not immutable", false, false),
        ] {
            assert_eq!(is_immutable_error(message), text, "{message}");
            assert_eq!(may_recreate(code, reason, message), flux, "{message}");
        }
    }
}
