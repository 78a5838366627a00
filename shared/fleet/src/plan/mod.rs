//! Compares two states of a fleet repository: what the clusters would have after a change.
//!
//! Each state is applied to API servers in this process, as a check does. Then the objects of every
//! cluster are compared, or with the live objects of the clusters ([`LiveClusters`]). Nothing that
//! was decrypted is in the result, and no value of a Secret.

mod compare;
mod diff;
mod immutable;
mod live;
mod markdown;
mod model;
mod prunes;
mod redact;
mod text;

use crate::check::{self, Checked, Diagnostic, Diagnostics, Progress};
use crate::error::Error;
use crate::fleet::Fleet;
use compare::Side;
use live::{Comparisons, States};
use redact::Redactor;
use std::collections::BTreeSet;

pub use diff::{bare, mask};
pub use live::{Installed, LiveClusters, Owner, Unreachable};
pub use markdown::{COMMENT_LIMIT, markdown};
pub use model::{Action, Basis, Change, ClusterPlan, Notice, Plan};
pub use text::{json, summary, text};

/// A state of the repository.
pub struct State<'a> {
    /// The fleet repository in this state.
    pub fleet: &'a Fleet,
    /// Its name in messages, such as a commit.
    pub name: String,
}

/// Applies both states to API servers in this process, and compares the objects of every cluster.
/// With `live`, the changed state is compared with the live objects of each cluster that can be
/// reached, by dry runs of server-side apply; nothing is written.
///
/// # Errors
/// A repository cannot be read, or an API server of this process fails. The errors of the fleet
/// are in the plan.
pub async fn plan(
    base: State<'_>,
    head: State<'_>,
    options: &check::Options,
    live: Option<&dyn LiveClusters>,
    progress: Progress<'_>,
) -> Result<Plan, Error> {
    let redactor = Redactor::new(&[base.fleet, head.fleet], &options.given_objects)?;
    let before = check::check_and_render(base.fleet, options.clone(), progress).await?;
    let after = check::check_and_render(head.fleet, options.clone(), progress).await?;
    let (old, new) = (Side::of(&before), Side::of(&after));
    let states = States {
        old: &old,
        new: &new,
        redactor: &redactor,
    };
    let compared = match live {
        Some(clusters) => live::compare(states, clusters, progress).await,
        None => Comparisons::default(),
    };
    let (clusters, mut warnings) = compare::compare(&old, &new, &redactor, compared.clusters);
    warnings.extend(compared.warnings);
    warnings.extend(prunes::blocked(&old, &new));
    warnings.extend(not_rendered(&after));
    let is_known = |error: &Diagnostic| {
        let mut known = before.report.errors.keys();
        known.any(|one| one.about == error.about && one.message == error.message)
    };
    let known_errors = after
        .report
        .errors
        .keys()
        .filter(|one| is_known(one))
        .count();
    let mut errors = notices(&after.report.errors, |error| !is_known(error));
    errors.extend(compared.errors);
    let hide = |mut notice: Notice| {
        notice.message = redactor.text(&notice.message);
        let excerpt = notice
            .place
            .as_mut()
            .and_then(|place| place.excerpt.as_mut());
        excerpt
            .into_iter()
            .for_each(|one| *one = redactor.text(one));
        notice
    };
    Ok(Plan {
        base: base.name,
        head: head.name,
        clusters,
        warnings: warnings.into_iter().map(hide).collect(),
        errors: errors.into_iter().map(hide).collect(),
        known_errors,
    })
}

fn notices(all: &Diagnostics, is_wanted: impl Fn(&Diagnostic) -> bool) -> Vec<Notice> {
    let all = all.iter().filter(|(one, _)| is_wanted(one));
    let notice = |(one, occurrences): (&Diagnostic, &check::Occurrences)| {
        let hubs: Vec<&str> = occurrences.hubs.iter().map(String::as_str).collect();
        let parts = [hubs.join(", "), one.about.clone().unwrap_or_default()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Notice {
            place: one.place.clone(),
            about: parts.join(": "),
            message: one.message.clone() + &occurrences.text(one),
        }
    };
    all.map(notice).collect()
}

/// Returns a notice about the Kustomizations and HelmReleases that a check assumes to be ready,
/// such as those whose chart is not here.
fn not_rendered(after: &Checked) -> Option<Notice> {
    let assumed = after.report.objects.iter().filter(|one| {
        let renders = ["Kustomization/", "HelmRelease/"];
        one.state == check::ASSUMED && renders.iter().any(|kind| one.object.starts_with(kind))
    });
    let names: BTreeSet<String> = assumed
        .map(|one| format!("{}: {}", one.hub, one.object))
        .collect();
    (!names.is_empty()).then(|| Notice {
        place: None,
        about: String::new(),
        message: format!(
            "the objects of {} Flux objects are not compared, because a source or chart is not here (give --source or --allow-charts): {}",
            names.len(),
            check::list(&names)
        ),
    })
}
