//! The steps of journals, with the objects that they changed.

use super::place::Journals;
use crate::error::Error;
use driftless_flux::{ObjectRef, duration_text, rfc3339};
use driftless_kernel::journal::{self, Entry, FieldChange, ObjectChange, StepResult};
use driftless_manifest::ObjectId;
use serde_json::{Value, json};
use std::time::Duration;

/// A step of an object.
pub struct Found {
    object: ObjectRef,
    entry: Entry,
}

/// Returns the steps of a Flux object, the newest first.
///
/// # Errors
/// The store does not answer.
pub async fn of_flux_object(journals: &Journals, object: &ObjectRef) -> Result<Vec<Found>, Error> {
    let journal = journal::read(journals.blobs.as_ref(), &journals.hub, object).await?;
    let entries = journal.entries.into_iter();
    let found = entries.map(|entry| Found {
        object: object.clone(),
        entry,
    });
    Ok(found.collect())
}

/// Returns the steps of all Flux objects that changed an object, the newest first, with only the
/// changes of that object.
///
/// # Errors
/// The store does not answer.
pub async fn of_applied(journals: &Journals, id: &ObjectId) -> Result<Vec<Found>, Error> {
    let wanted = id.to_string();
    let all = journal::read_once(journals.blobs.as_ref(), &journals.hub).await?;
    let mut found = Vec::new();
    for (object, journal) in all {
        for mut entry in journal.entries {
            entry.changes.retain(|change| change.object == wanted);
            entry.omitted = 0;
            if !entry.changes.is_empty() {
                let object = object.clone();
                found.push(Found { object, entry });
            }
        }
    }
    found.sort_by(|a, b| (b.entry.ended, &b.object).cmp(&(a.entry.ended, &a.object)));
    Ok(found)
}

/// Renders steps: a line for each, and below it a line for each changed object. `with_objects`
/// names the Flux objects, `with_fields` adds a line for each changed field.
pub fn render(steps: &[Found], with_objects: bool, with_fields: bool) -> String {
    steps
        .iter()
        .map(|step| step.render(with_objects, with_fields))
        .collect()
}

impl Found {
    fn ended(&self) -> String {
        rfc3339(Duration::from_millis(self.entry.ended))
    }

    fn took(&self) -> String {
        let Entry { started, ended, .. } = self.entry;
        duration_text(Duration::from_millis(ended.saturating_sub(started)))
    }

    fn render(&self, with_object: bool, with_fields: bool) -> String {
        let entry = &self.entry;
        let mut parts = vec![self.ended()];
        if with_object {
            parts.push(self.object.to_string());
        }
        if !entry.revision.is_empty() {
            parts.push(crate::ready::shorten(&entry.revision));
        }
        parts.push(result(entry.result).to_owned());
        parts.push(entry.cause.in_words().to_owned());
        parts.push(format!("took {}", self.took()));
        let mut text = parts.join("  ") + "\n";
        for change in &entry.changes {
            let ObjectChange { object, action, .. } = change;
            text.push_str(&format!("  {object} {action}\n"));
            if with_fields {
                text.extend(change.fields.iter().map(field));
            }
        }
        if entry.omitted > 0 {
            text.push_str(&format!("  and {} more\n", entry.omitted));
        }
        if entry.changes.is_empty() && !entry.message.is_empty() {
            let message = crate::ready::shorten(&entry.message);
            let message: Vec<&str> = message.split_whitespace().collect();
            text.push_str(&format!("  {}\n", message.join(" ")));
        }
        text
    }

    /// Returns the step as a document.
    pub fn document(&self) -> Value {
        let entry = &self.entry;
        let mut document = json!({
            "object": self.object.to_string(),
            "revision": entry.revision,
            "first": rfc3339(Duration::from_millis(entry.started)),
            "last": self.ended(),
            "took": self.took(),
            "cause": entry.cause.in_words(),
            "result": result(entry.result),
            "detail": entry.message,
            "changes": entry.changes,
        });
        if entry.omitted > 0 {
            document["omitted"] = entry.omitted.into();
        }
        document
    }
}

/// Renders a changed field: with its values, if the journal has them.
fn field(field: &FieldChange) -> String {
    let path = &field.path;
    match (&field.from, &field.to) {
        (None, None) => format!("    {path}\n"),
        (None, Some(to)) => format!("    {path}: {to}\n"),
        (Some(from), None) => format!("    {path}: {from} -> (none)\n"),
        (Some(from), Some(to)) => format!("    {path}: {from} -> {to}\n"),
    }
}

/// Returns the state after a step, in words.
fn result(result: StepResult) -> &'static str {
    match result {
        StepResult::NewRevision => "new revision",
        StepResult::Ready => "ready",
        StepResult::Progressing => "in progress",
        StepResult::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_flux::FluxKind;
    use driftless_kernel::journal::{End, Recorder};
    use driftless_kernel::ports::Cause;
    use driftless_manifest::Object;
    use driftless_memory::MemoryBlobs;
    use driftless_plans::apply::plan::Action;
    use std::sync::Arc;

    fn deployment(replicas: u64, image: &str) -> Object {
        let containers = json!([{"name": "web", "image": image}]);
        Object::new(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "team-a"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}}}))
        .unwrap()
    }

    /// Returns a hub with a journal of one Kustomization: a Deployment is created and changed.
    async fn journals() -> Journals {
        let blobs = Arc::new(MemoryBlobs::default());
        let ports = driftless_memory::ports(blobs.clone(), Arc::default(), Arc::default());
        let apps = ObjectRef::new(FluxKind::Kustomization, "team-a", "apps");
        let (old, new) = (deployment(1, "web:1"), deployment(2, "web:2"));
        let steps = [
            (Action::Created, "main@sha1:1"),
            (Action::Configured, "main@sha1:2"),
        ];
        for (second, (action, revision)) in (1_767_225_600..).zip(steps) {
            let recorder = Recorder::default();
            recorder.change(&new.id(), action, Some(&old), Some(&new));
            let end = End {
                started: Duration::from_secs(second),
                ended: Duration::from_millis(second * 1000 + 1500),
                cause: Cause::Push,
                revision,
                result: StepResult::Ready,
                ready: ("ReconciliationSucceeded", "Applied revision"),
            };
            journal::append(&ports, "eu", &apps, recorder.entry(end)).await;
        }
        Journals {
            blobs,
            hub: "eu".to_owned(),
        }
    }

    #[tokio::test]
    async fn steps_have_their_changes_and_fields() {
        let journals = journals().await;
        let apps = ObjectRef::new(FluxKind::Kustomization, "team-a", "apps");
        let steps = of_flux_object(&journals, &apps).await.unwrap();
        assert_eq!(
            render(&steps, false, true),
            "2026-01-01T00:00:02Z  main@sha1:2  ready  after a push  took 1.5s\n  \
             Deployment/team-a/web configured\n    \
             spec.replicas: 1 -> 2\n    \
             spec.template.spec.containers[name=web].image: web:1 -> web:2\n\
             2026-01-01T00:00:01Z  main@sha1:1  ready  after a push  took 1.5s\n  \
             Deployment/team-a/web created\n"
        );
        assert!(!render(&steps, false, false).contains("replicas"));
        let document = steps[0].document();
        assert_eq!(document["changes"][0]["fields"][0]["to"], "2");
    }

    #[tokio::test]
    async fn an_applied_object_has_the_steps_that_changed_it() {
        let journals = journals().await;
        let id = deployment(1, "").id();
        let steps = of_applied(&journals, &id).await.unwrap();
        let text = render(&steps, true, false);
        assert!(
            text.starts_with("2026-01-01T00:00:02Z  Kustomization/team-a/apps  main@sha1:2"),
            "{text}"
        );
        assert_eq!(steps.len(), 2);
        let other = ObjectId {
            name: "other".to_owned(),
            ..id
        };
        assert!(of_applied(&journals, &other).await.unwrap().is_empty());
    }
}
