//! The objects that an Alert follows after they failed, if its annotations ask for reminders or for
//! news of their recovery. The step of the Alert checks them: when one of them fails, and when a
//! sweep finds that one is ready again or that a reminder is due.

use driftless_flux::{
    Alert, AlertOptions, Condition, ConditionStatus, Conditions, FluxEvent, FluxKind,
    LONGEST_REMINDER, ObjectRef, Severity, duration_text, is_suspended, meta_key, parse_rfc3339,
};
use driftless_kernel::context::Context;
use driftless_kernel::context::events::pending::{self, AddOutcome, Pending};
use driftless_kernel::context::events::{is_source, selects};
use driftless_kernel::failure::Failure;
use driftless_kernel::state::millis;
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The most objects that an Alert follows.
const MAX_FOLLOWED: usize = 200;
/// The reason of an event about an object that is ready again.
const RECOVERED: &str = "Recovered";
/// The controller that reports reminders and recoveries.
const CONTROLLER: &str = "driftless";

/// The memory of the steps of an Alert: the objects that failed. All of it may be lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Following {
    /// The annotations that were valid at the last check; `None` before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    wish: Option<Wish>,
    /// The objects that failed, by their keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, Failed>,
}

/// The parts of [`AlertOptions`] about failed objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Wish {
    /// The time before the first reminder, in seconds; 0 without reminders.
    reminder: u64,
    recovery: bool,
}

/// An object that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failed {
    /// The time at which it failed, in milliseconds since 1970.
    since: u64,
    /// The number of reminders that were recorded.
    #[serde(default)]
    reminders: u32,
    /// The time of the next reminder, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

impl Wish {
    fn of(options: AlertOptions) -> Self {
        Self {
            reminder: options.reminder.unwrap_or_default().as_secs(),
            recovery: options.recovery,
        }
    }
}

/// The state of an object that may have failed.
enum State<'o> {
    Failed(&'o Condition),
    Ready(&'o Condition),
    /// It works, or waits for another one.
    Open,
    /// It is suspended or deleted: nothing is reported.
    Ignored,
}

fn state<'o>(object: &Object, conditions: &'o Conditions) -> State<'o> {
    if is_suspended(object) || !object.meta("deletionTimestamp").is_empty() {
        return State::Ignored;
    }
    match conditions.ready() {
        Some(ready) if ready.status == ConditionStatus::True => State::Ready(ready),
        Some(ready) if ready.status == ConditionStatus::False && !ready.is_waiting() => {
            State::Failed(ready)
        }
        _ => State::Open,
    }
}

/// Returns whether an Alert has something to do for the objects that it follows: a reminder is due,
/// one of them is ready again, suspended or gone, or the annotations have changed. `find` returns a
/// live object of the hub by its key. Pure.
pub fn is_due<'o>(
    alert: &Object,
    memory: &Following,
    find: impl Fn(&str) -> Option<&'o Object>,
    now: Duration,
) -> bool {
    let Ok(options) = AlertOptions::of(alert) else {
        return false;
    };
    if is_suspended(alert) || !alert.meta("deletionTimestamp").is_empty() {
        return false;
    }
    if !options.follows_failures() {
        return *memory != Following::default();
    }
    let has_news = |(key, failed): (&String, &Failed)| {
        let is_over = find(key).is_none_or(|object| {
            let conditions = Conditions::of(object);
            matches!(state(object, &conditions), State::Ready(_) | State::Ignored)
        });
        is_over || failed.next.is_some_and(|next| next <= millis(now))
    };
    memory.wish != Some(Wish::of(options)) || memory.failed.iter().any(has_news)
}

/// Checks the objects that an Alert names: notes those that failed, and records reminders and
/// recoveries for its Provider. Returns whether the Provider has something to send.
///
/// # Errors
/// The hub's and the bucket's.
pub async fn follow(
    context: &Context<'_>,
    alert: &Alert,
    options: AlertOptions,
    memory: &mut Following,
) -> Result<bool, Failure> {
    if context.is_rehearsal {
        return Ok(false);
    }
    if !options.follows_failures() {
        *memory = Following::default();
        return Ok(false);
    }
    let no_cross = context.hub.settings.no_cross_namespace_refs;
    let sources = alert.spec.event_sources.iter();
    let kinds: BTreeSet<FluxKind> = sources
        .filter_map(|source| FluxKind::parse(&source.kind))
        .collect();
    let mut round = Round {
        context,
        alert,
        options,
        now: context.ports.clock.now(),
        old: std::mem::take(&mut memory.failed),
        failed: BTreeMap::new(),
        news: Vec::new(),
    };
    for kind in kinds {
        for object in context.hub.list(kind).await? {
            if is_source(alert, &object, no_cross) {
                round.at(&object);
            }
        }
    }
    let Round { failed, news, .. } = round;
    let mut has_news = false;
    for (index, event) in news.into_iter().enumerate() {
        let waiting = Pending::new(context.ports, &alert.id.name, event, index);
        let hub = &context.hub.settings.name;
        let added = pending::add(context.ports, hub, &alert.provider(), &waiting).await?;
        has_news |= added != AddOutcome::Sent;
    }
    *memory = Following {
        wish: Some(Wish::of(options)),
        failed,
    };
    Ok(has_news)
}

/// One check of the objects that an Alert names.
struct Round<'l, 'c> {
    context: &'l Context<'c>,
    alert: &'l Alert,
    options: AlertOptions,
    now: Duration,
    old: BTreeMap<String, Failed>,
    failed: BTreeMap<String, Failed>,
    news: Vec<FluxEvent>,
}

impl Round<'_, '_> {
    fn at(&mut self, object: &Object) {
        let Some(id) = ObjectRef::of(object) else {
            return;
        };
        let key = id.key();
        let conditions = Conditions::of(object);
        let known = self.old.get(&key).cloned();
        match (known, state(object, &conditions)) {
            (Some(known), State::Failed(ready)) => {
                let known = self.remind(object, ready, known);
                self.failed.insert(key, known);
            }
            (None, State::Failed(ready)) => {
                if self.is_selected(object, ready) && self.failed.len() < MAX_FOLLOWED {
                    self.failed.insert(key, self.noted(ready));
                }
            }
            (Some(known), State::Ready(ready)) => self.recover(object, ready, &known),
            (Some(known), State::Open) => {
                self.failed.insert(key, known);
            }
            (Some(_), State::Ignored) | (None, _) => {}
        }
    }

    /// Returns whether the Alert gets the event of a failure.
    fn is_selected(&self, object: &Object, ready: &Condition) -> bool {
        let event = self.event(object, Severity::Error, &ready.reason, &ready.message);
        let no_cross = self.context.hub.settings.no_cross_namespace_refs;
        selects(self.alert, &event, object, no_cross)
    }

    fn noted(&self, ready: &Condition) -> Failed {
        let since = parse_rfc3339(&ready.last_transition_time);
        let next = self.options.reminder.map(|after| self.now + after);
        Failed {
            since: millis(since.unwrap_or(self.now).min(self.now)),
            reminders: 0,
            next: next.map(millis),
        }
    }

    /// Records the reminder of an object that still fails, if it is due. The message has the time
    /// of the schedule, so that a step that is repeated after a crash records the same event.
    fn remind(&mut self, object: &Object, ready: &Condition, known: Failed) -> Failed {
        let Some(first) = self.options.reminder else {
            return Failed {
                next: None,
                ..known
            };
        };
        let Some(due) = known.next else {
            // The annotation is new.
            let next = Some(millis(self.now + first));
            return Failed { next, ..known };
        };
        if due > millis(self.now) {
            return known;
        }
        if self.is_selected(object, ready) {
            let after = time(due.saturating_sub(known.since));
            let message = format!("still failing after {after}: {}", ready.message);
            let event = self.event(object, Severity::Error, &ready.reason, &message);
            self.news.push(event);
        }
        let reminders = known.reminders.saturating_add(1);
        let pause = first.saturating_mul(2u32.saturating_pow(reminders.min(16)));
        Failed {
            reminders,
            next: Some(millis(self.now + pause.min(LONGEST_REMINDER))),
            ..known
        }
    }

    /// Records that an object is ready again.
    fn recover(&mut self, object: &Object, ready: &Condition, known: &Failed) {
        if !self.options.recovery {
            return;
        }
        let end = parse_rfc3339(&ready.last_transition_time).unwrap_or(self.now);
        let after = time(millis(end).saturating_sub(known.since));
        let message = format!("ready again after {after}: {}", ready.message);
        let event = self.event(object, Severity::Info, RECOVERED, &message);
        self.news.push(event);
    }

    fn event(&self, object: &Object, severity: Severity, reason: &str, message: &str) -> FluxEvent {
        let mut event = self
            .context
            .event_about(object, CONTROLLER, severity, reason, message);
        let places = ["/status/lastAttemptedRevision", "/status/artifact/revision"];
        let revision = places.iter().find_map(|place| object.pointer(place));
        if let Some(revision) = revision.and_then(Value::as_str) {
            let key = format!("{}/{}", event.involved_object.group(), meta_key::REVISION);
            event.metadata.insert(key, revision.to_owned());
        }
        event
    }
}

/// Returns a time in whole seconds, as Go writes it.
fn time(milliseconds: u64) -> String {
    duration_text(Duration::from_secs(milliseconds / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn alert(annotations: &Value) -> Object {
        let alert = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": "Alert",
            "metadata": {"name": "a", "namespace": "b", "annotations": annotations}});
        Object::new(alert).unwrap()
    }

    fn kustomization(ready: &str, suspend: bool) -> Object {
        let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "k", "namespace": "b"}, "spec": {"suspend": suspend},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Object::new(object).unwrap()
    }

    #[test]
    fn a_check_is_due_only_if_something_changed() {
        let wishes = json!({"driftless.dev/reminder": "1h", "driftless.dev/recovery": "true"});
        let alert_with = alert(&wishes);
        let options = AlertOptions::of(&alert_with).unwrap();
        let failed = Failed {
            since: 0,
            reminders: 0,
            next: Some(3_600_000),
        };
        let memory = Following {
            wish: Some(Wish::of(options)),
            failed: BTreeMap::from([("k".to_owned(), failed)]),
        };
        let failing = kustomization("False", false);
        let due = |object: Option<&Object>, memory: &Following, alert: &Object, now: u64| {
            is_due(alert, memory, |_| object, Duration::from_secs(now))
        };
        assert!(!due(Some(&failing), &memory, &alert_with, 3599));
        assert!(due(Some(&failing), &memory, &alert_with, 3600));
        assert!(due(None, &memory, &alert_with, 0));
        assert!(!due(
            Some(&kustomization("Unknown", false)),
            &memory,
            &alert_with,
            0
        ));
        assert!(due(
            Some(&kustomization("True", false)),
            &memory,
            &alert_with,
            0
        ));
        assert!(due(
            Some(&kustomization("False", true)),
            &memory,
            &alert_with,
            0
        ));
        // The annotations are new, or were removed.
        let none = Following::default();
        assert!(due(None, &none, &alert_with, 0));
        assert!(due(Some(&failing), &memory, &alert(&json!({})), 0));
        assert!(!due(None, &none, &alert(&json!({})), 0));
        // The step of the Alert reports what is not valid.
        let wrong = json!({"driftless.dev/reminder": "soon"});
        assert!(!due(None, &memory, &alert(&wrong), 9999));
    }
}
