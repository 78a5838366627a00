//! A plan for a terminal and for programs.

use super::model::{Action, Basis, Change, ClusterPlan, Notice, Plan};
use serde_json::{Value, json};

/// Renders the numbers of a plan in one line.
pub fn summary(plan: &Plan) -> String {
    let changes = counts(|action| plan.count(action));
    let mut text = match plan.changed_clusters() {
        0 => "no object changes".to_owned(),
        1 => format!("{changes} in 1 cluster"),
        count => format!("{changes} in {count} clusters"),
    };
    for (count, word) in [
        (plan.drift_count(), "drifted object"),
        (plan.warning_count(), "warning"),
        (plan.errors.len(), "new error"),
    ] {
        let end = if count == 1 { "" } else { "s" };
        if count > 0 {
            text.push_str(&format!(", {count} {word}{end}"));
        }
    }
    if plan.known_errors > 0 {
        let count = plan.known_errors;
        text.push_str(&format!(" ({count} known errors of the base remain)"));
    }
    text
}

/// Renders the numbers of the changes of a cluster.
pub fn cluster_counts(cluster: &ClusterPlan) -> String {
    let all = &cluster.changes;
    counts(|action| all.iter().filter(|change| change.action == action).count())
}

/// Renders the name of a cluster, with its hub if it is a remote one.
pub fn cluster_name(cluster: &ClusterPlan) -> String {
    let live = match cluster.basis {
        Basis::Base => "",
        Basis::Live => " (live)",
    };
    match cluster.hub == cluster.cluster {
        true => format!("hub {}{live}", cluster.hub),
        false => format!("cluster {} of hub {}{live}", cluster.cluster, cluster.hub),
    }
}

/// Renders the line above the drift of a cluster.
pub fn drift_title(cluster: &ClusterPlan) -> String {
    let count = cluster.drift.len();
    let end = if count == 1 { "" } else { "s" };
    format!("drift that an apply puts back, {count} object{end}:")
}

fn counts(of: impl Fn(Action) -> usize) -> String {
    let mut text = format!(
        "{} to create, {} to change, {} to delete",
        of(Action::Create),
        of(Action::Change),
        of(Action::Delete)
    );
    let kept = of(Action::Keep);
    if kept > 0 {
        text.push_str(&format!(", {kept} to keep"));
    }
    text
}

/// Renders `FILE:LINE`, or an empty string.
pub fn place(change: &Change) -> String {
    change
        .place
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Renders a plan for a terminal: the changes grouped by cluster, then warnings and errors.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for cluster in &plan.clusters {
        let (name, counts) = (cluster_name(cluster), cluster_counts(cluster));
        out.push_str(&format!("{name}: {counts}\n"));
        for change in &cluster.changes {
            out.push_str(&of_change(change));
        }
        if !cluster.drift.is_empty() {
            out.push_str(&format!("  {}\n", drift_title(cluster)));
        }
        for change in &cluster.drift {
            out.push_str(&of_change(change));
        }
        out.push('\n');
    }
    for (word, notices) in [("warning", &plan.warnings), ("error", &plan.errors)] {
        notices
            .iter()
            .for_each(|notice| out.push_str(&line(word, notice)));
    }
    out
}

fn of_change(change: &Change) -> String {
    let sign = match change.action {
        Action::Create => '+',
        Action::Change => '~',
        Action::Delete => '-',
        Action::Keep => '=',
    };
    let origin = match place(change) {
        place if place.is_empty() => change.owner.clone(),
        place => format!("{}, {place}", change.owner),
    };
    let mut out = format!("  {sign} {} ({origin})\n", change.id);
    for warning in &change.warnings {
        out.push_str(&format!("    warning: {warning}\n"));
    }
    for line in change.diff.lines() {
        out.push_str(&format!("      {line}\n"));
    }
    out
}

/// Renders `FILE:LINE: WORD: ABOUT: MESSAGE`, without the parts that are empty, and the excerpt of
/// the file.
fn line(word: &str, notice: &Notice) -> String {
    let place = notice.place.as_ref().map(ToString::to_string);
    let message = notice.message.replace('\n', " ");
    let parts = [
        place.unwrap_or_default(),
        word.to_owned(),
        notice.about.clone(),
        message,
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let excerpt = notice
        .place
        .as_ref()
        .and_then(|place| place.excerpt.clone());
    parts.join(": ") + "\n" + &excerpt.unwrap_or_default()
}

/// Returns a plan as a JSON document.
pub fn json(plan: &Plan) -> Value {
    let notice = |notice: &Notice| {
        let place = notice.place.as_ref();
        json!({"file": place.map(|place| place.file.display().to_string()),
            "line": place.and_then(|place| place.line), "about": notice.about, "message": notice.message})
    };
    let change = |change: &Change| {
        let place = change.place.as_ref();
        json!({"action": change.action.as_str(), "object": change.id.to_string(), "group": change.id.group,
            "owner": change.owner, "file": place.map(|place| place.file.display().to_string()),
            "line": place.and_then(|place| place.line), "diff": change.diff, "warnings": change.warnings})
    };
    let cluster = |cluster: &ClusterPlan| {
        let changes: Vec<Value> = cluster.changes.iter().map(change).collect();
        let drift: Vec<Value> = cluster.drift.iter().map(change).collect();
        json!({"hub": cluster.hub, "cluster": cluster.cluster, "comparedWith": cluster.basis.as_str(),
            "changes": changes, "drift": drift})
    };
    json!({
        "base": plan.base, "head": plan.head,
        "summary": {
            "create": plan.count(Action::Create), "change": plan.count(Action::Change),
            "delete": plan.count(Action::Delete), "keep": plan.count(Action::Keep),
            "drift": plan.drift_count(),
            "warnings": plan.warning_count(), "errors": plan.errors.len(), "knownErrors": plan.known_errors,
        },
        "clusters": plan.clusters.iter().map(cluster).collect::<Vec<_>>(),
        "warnings": plan.warnings.iter().map(notice).collect::<Vec<_>>(),
        "errors": plan.errors.iter().map(notice).collect::<Vec<_>>(),
    })
}
