//! A plan as a check run, and the texts of what is not a plan.

use crate::states::Planned;
use driftless_fleet::Location;
use driftless_fleet::plan::{Plan, markdown, summary};
use driftless_kernel::ports::{Annotation, AnnotationLevel, Check, Conclusion};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The most annotations of a check run; the comment has the others.
const MAX_ANNOTATIONS: usize = 200;

/// The content of a comment and of a check run.
pub struct Made {
    /// The check run.
    pub check: Check,
    /// The body of the comment.
    pub body: Body,
}

/// The body of a comment.
pub enum Body {
    /// A plan, and notes in Markdown about how it was made.
    Plan(Box<Plan>, Vec<String>),
    /// Another message as Markdown.
    Text(String),
}

impl Made {
    /// Returns the report of a plan.
    pub fn of(planned: Planned, hubs: usize) -> Self {
        let Planned { plan, notes, head } = planned;
        let title = summary(&plan);
        let conclusion = match (plan.errors.is_empty(), plan.warning_count()) {
            (false, _) => Conclusion::Failure,
            (true, 0) => Conclusion::Success,
            (true, _) => Conclusion::Neutral,
        };
        let hubs = match hubs {
            1 => "1 hub".to_owned(),
            count => format!("{count} hubs"),
        };
        Self {
            check: Check {
                conclusion: Some(conclusion),
                title,
                summary: format!(
                    "Compared with the common commit of both branches, for {hubs}. The comment of the pull request has the changes."
                ),
                annotations: annotations(&plan, &head),
            },
            body: Body::Plan(Box::new(plan), notes),
        }
    }

    /// Returns the report of a change that has no plan because of its files.
    pub fn refused(message: &str) -> Self {
        Self::text(
            "the change has no plan",
            format!(
                "### Plan: none\n\nThe repository cannot be rendered:\n\n{}\n",
                fenced(message)
            ),
        )
    }

    /// Returns the report of a plan that failed for a reason of the installation.
    pub fn failed() -> Self {
        Self::text(
            "the plan failed",
            "### Plan: failed\n\nThe plan could not be made because of an internal failure. The log of the function has the \
             reason. A new commit, or closing and opening the pull request, starts a new plan.\n"
                .to_owned(),
        )
    }

    fn text(title: &str, text: String) -> Self {
        Self {
            check: Check {
                conclusion: Some(Conclusion::Failure),
                title: title.to_owned(),
                summary: "The comment of the pull request has the reason.".to_owned(),
                annotations: Vec::new(),
            },
            body: Body::Text(text),
        }
    }
}

impl Body {
    /// Renders the body within a limit; a plan with no room for its diffs ends with `link`.
    pub fn render(&self, limit: usize, link: Option<&str>) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Plan(plan, notes) => {
                let notes: String = notes.iter().map(|note| format!("\n> {note}\n")).collect();
                markdown(plan, limit.saturating_sub(notes.len()), link) + &notes
            }
        }
    }
}

/// Returns the check run of a plan that is being made.
pub fn in_progress() -> Check {
    Check {
        conclusion: None,
        title: "the plan is being made".to_owned(),
        summary: "The comment of the pull request will have the changes.".to_owned(),
        annotations: Vec::new(),
    }
}

/// Returns the check run of a plan that is no longer wanted.
pub fn superseded() -> Check {
    Check {
        conclusion: Some(Conclusion::Neutral),
        title: "the pull request has changed meanwhile".to_owned(),
        summary: "A later plan has the changes.".to_owned(),
        annotations: Vec::new(),
    }
}

/// Returns the errors and warnings that have a file of the head, errors first. Those of other
/// repositories, and of files that the change deletes, are only in the comment.
fn annotations(plan: &Plan, head: &BTreeSet<PathBuf>) -> Vec<Annotation> {
    let mut all = Vec::new();
    let mut add = |place: Option<&Location>, level, message: String| {
        let Some(place) = place.filter(|place| head.contains(&place.file)) else {
            return;
        };
        let annotation = Annotation {
            file: place.file.clone(),
            line: place.line.unwrap_or(1),
            level,
            message,
        };
        if !all.contains(&annotation) {
            all.push(annotation);
        }
    };
    let text = |about: &str, message: &str| match about.is_empty() {
        true => message.to_owned(),
        false => format!("{about}: {message}"),
    };
    for error in &plan.errors {
        let message = text(&error.about, &error.message);
        add(error.place.as_ref(), AnnotationLevel::Failure, message);
    }
    for warning in &plan.warnings {
        let message = text(&warning.about, &warning.message);
        add(warning.place.as_ref(), AnnotationLevel::Warning, message);
    }
    for cluster in &plan.clusters {
        for change in &cluster.changes {
            for warning in &change.warnings {
                let message = format!("{}: {}: {warning}", cluster.cluster, change.id);
                add(change.place.as_ref(), AnnotationLevel::Warning, message);
            }
        }
    }
    all.truncate(MAX_ANNOTATIONS);
    all
}

/// Renders a string in a fence that it cannot end.
fn fenced(text: &str) -> String {
    let longest = text.split(|one| one != '`').map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}
