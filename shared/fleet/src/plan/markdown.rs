//! A plan as a comment of a pull request: a summary, then the diffs folded by object.

use super::model::{Action, Change, Notice, Plan};
use super::text::{cluster_counts, cluster_name, drift_title, place, summary};

/// The longest comment that GitHub accepts, in bytes.
pub const COMMENT_LIMIT: usize = 65_536;
/// The room for the line about what was left out.
const RESERVE: usize = 512;

/// Renders a plan as Markdown of at most `limit` bytes. Diffs that have no room are left out, and
/// then whole lines; `whole` names the place of the whole plan in that case.
pub fn markdown(plan: &Plan, limit: usize, whole: Option<&str>) -> String {
    let mut out = Page {
        text: String::new(),
        limit: limit.saturating_sub(RESERVE),
        diffs_left_out: 0,
        lines_left_out: 0,
    };
    out.line(&format!("### Plan: {}\n", code_free(&summary(plan))));
    let (base, head) = (code(&plan.base), code(&plan.head));
    out.line(&format!("From {base} to {head}.\n"));
    for (word, notices) in [("Errors", &plan.errors), ("Warnings", &plan.warnings)] {
        if notices.is_empty() {
            continue;
        }
        out.line(&format!("**{word}**\n"));
        notices
            .iter()
            .for_each(|notice| out.line(&of_notice(notice)));
        out.line("");
    }
    for cluster in &plan.clusters {
        let (name, counts) = (cluster_name(cluster), cluster_counts(cluster));
        out.line(&format!("#### {}: {counts}\n", code_free(&name)));
        cluster.changes.iter().for_each(|change| out.change(change));
        if !cluster.drift.is_empty() {
            out.line(&format!("\n{}\n", code_free(&drift_title(cluster))));
            cluster.drift.iter().for_each(|change| out.change(change));
        }
        out.line("");
    }
    out.end(whole)
}

/// The Markdown so far, with its limit.
struct Page {
    text: String,
    limit: usize,
    diffs_left_out: usize,
    lines_left_out: usize,
}

impl Page {
    fn has_room(&self, length: usize) -> bool {
        self.text.len() + length < self.limit
    }

    fn line(&mut self, line: &str) {
        match self.has_room(line.len() + 1) {
            true => self.text.push_str(&format!("{line}\n")),
            false => self.lines_left_out += 1,
        }
    }

    fn change(&mut self, change: &Change) {
        let word = match change.action {
            Action::Create => "create",
            Action::Change => "change",
            Action::Delete => "**delete**",
            Action::Keep => "keep",
        };
        let place = match place(change) {
            place if place.is_empty() => String::new(),
            place => format!(", {}", code(&place)),
        };
        let title = format!(
            "{word} {} ({}{place})",
            code(&change.id.to_string()),
            code(&change.owner)
        );
        self.line(&format!("- {title}"));
        for warning in &change.warnings {
            self.line(&format!("  - ⚠ {}", code_free(warning)));
        }
        if change.diff.is_empty() {
            return;
        }
        let fence = "`".repeat(longest_run(&change.diff).max(2) + 1);
        let lines: String = change
            .diff
            .lines()
            .map(|line| format!("  {line}\n"))
            .collect();
        let block = format!(
            "\n  <details><summary>diff</summary>\n\n  {fence}diff\n{lines}  {fence}\n\n  </details>\n"
        );
        match self.has_room(block.len()) {
            true => self.text.push_str(&block),
            false => self.diffs_left_out += 1,
        }
    }

    fn end(mut self, whole: Option<&str>) -> String {
        if self.diffs_left_out + self.lines_left_out > 0 {
            let place = match whole {
                Some(link) => format!("; [the whole plan]({link})"),
                None => "; `driftless plan` prints the whole plan".to_owned(),
            };
            self.text.push_str(&format!(
                "\n{} diffs and {} lines have no room here{place}.\n",
                self.diffs_left_out, self.lines_left_out
            ));
        }
        self.text
    }
}

fn of_notice(notice: &Notice) -> String {
    let place = notice
        .place
        .as_ref()
        .map(|place| code(&place.to_string()) + ": ");
    let about = match notice.about.is_empty() {
        true => String::new(),
        false => code(&notice.about) + ": ",
    };
    format!(
        "- {}{about}{}",
        place.unwrap_or_default(),
        code_free(&notice.message)
    )
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|one| one != '`').map(str::len);
    runs.max().unwrap_or_default()
}

/// Renders a string as code, in which nothing is markup or a mention.
fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let fence = "`".repeat(longest_run(&text) + 1);
    let room = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{room}{text}{room}{fence}")
}

/// Renders a string outside code, with its markup escaped.
fn code_free(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '!' | '|' | '~' | '#' => {
                out.push('\\');
                out.push(one);
            }
            _ => out.push(one),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::model::{Basis, ClusterPlan};
    use driftless_manifest::ObjectId;

    fn plan(diff: &str, count: usize) -> Plan {
        let change = |number: usize| Change {
            id: ObjectId {
                group: String::new(),
                kind: "ConfigMap".to_owned(),
                namespace: "apps".to_owned(),
                name: format!("a{number}"),
            },
            action: Action::Change,
            owner: "Kustomization/flux-system/apps".to_owned(),
            place: None,
            diff: diff.to_owned(),
            warnings: Vec::new(),
        };
        Plan {
            base: "main".to_owned(),
            head: "the working tree".to_owned(),
            clusters: vec![ClusterPlan {
                hub: "one".to_owned(),
                cluster: "one".to_owned(),
                basis: Basis::Base,
                drift: Vec::new(),
                changes: (0..count).map(change).collect(),
            }],
            warnings: vec![Notice {
                place: None,
                about: "one".to_owned(),
                message: "<img src=x> @everyone [a](b)".to_owned(),
            }],
            errors: Vec::new(),
            known_errors: 0,
        }
    }

    #[test]
    fn markup_of_messages_and_diffs_is_text() {
        let text = markdown(&plan("-a\n+````\n+</details>\n", 1), COMMENT_LIMIT, None);
        assert!(
            text.contains("&lt;img src=x&gt; &#64;everyone \\[a\\](b)"),
            "{text}"
        );
        assert!(
            text.contains("  `````diff\n  -a\n  +````\n  +</details>\n  `````\n"),
            "{text}"
        );
    }

    #[test]
    fn a_long_plan_has_at_most_the_limit() {
        let long = plan(&"+line of the diff\n".repeat(100), 2000);
        let text = markdown(&long, COMMENT_LIMIT, Some("https://bucket.example/plan"));
        assert!(text.len() <= COMMENT_LIMIT, "{}", text.len());
        assert!(
            text.ends_with("[the whole plan](https://bucket.example/plan).\n"),
            "{}",
            text.len()
        );
        assert!(text.contains("diffs and"), "it says what is left out");
    }
}
