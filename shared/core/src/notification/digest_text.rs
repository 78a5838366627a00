//! The message about a push. Pure.

use driftless_flux::{duration_text, shorten};
use std::time::Duration;

/// The most failed objects that a message names.
const MAX_FAILED: usize = 10;
/// The most bytes of the message of a failed object.
const MAX_FAILURE: usize = 300;
/// The most bytes of the line about the source.
const MAX_SOURCE: usize = 300;

/// The result of a push for the objects of an Alert.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The number of objects that landed.
    pub landed: usize,
    /// The number of clusters on which they landed.
    pub clusters: usize,
    /// The time from the push to the last landing.
    pub took: Option<Duration>,
    /// The objects that failed, as `Kind/namespace/name`, and their messages.
    pub failed: Vec<(String, String)>,
    /// The number of objects that wait for others.
    pub waiting: usize,
    /// The number of objects that have not landed within the time limit, and that limit.
    pub unfinished: Option<(usize, Duration)>,
    /// The message of the source, if the Alert names it.
    pub source: Option<String>,
}

impl Digest {
    /// Returns whether the push did nothing that the Alert is about.
    pub fn is_empty(&self) -> bool {
        let is_quiet = self.landed == 0 && self.failed.is_empty() && self.waiting == 0;
        is_quiet && self.unfinished.is_none() && self.source.is_none()
    }

    /// Returns the message: how many objects landed, then those that failed, then the source.
    pub fn message(&self) -> String {
        let mut message = match self.landed {
            0 => "no object changed".to_owned(),
            landed => {
                let (objects, clusters) =
                    (count(landed, "object"), count(self.clusters, "cluster"));
                format!("{objects} in {clusters} landed")
            }
        };
        if let Some(took) = self.took {
            message.push_str(&format!(" in {}", time(took)));
        }
        let others = [
            (self.failed.len(), "failed".to_owned()),
            (
                self.waiting,
                match self.waiting {
                    1 => "waits for another".to_owned(),
                    _ => "wait for others".to_owned(),
                },
            ),
            self.unfinished
                .map_or((0, String::new()), |(count, limit)| {
                    (count, format!("not finished after {}", time(limit)))
                }),
        ];
        for (count, state) in others {
            if count > 0 {
                message.push_str(&format!(", {count} {state}"));
            }
        }
        let lines = self.failed.iter().take(MAX_FAILED);
        let lines = lines.map(|(object, text)| format!("{object}: {}", line(text, MAX_FAILURE)));
        match self.failed.len() {
            0 => {}
            1 => lines.for_each(|line| message.push_str(&format!(": {line}"))),
            _ => lines.for_each(|line| message.push_str(&format!("\n{line}"))),
        }
        if let Some(more) = self
            .failed
            .len()
            .checked_sub(MAX_FAILED)
            .filter(|more| *more > 0)
        {
            message.push_str(&format!("\nand {more} more that failed"));
        }
        if let Some(source) = &self.source {
            message.push_str(&format!("\n{}", line(source, MAX_SOURCE)));
        }
        message
    }
}

fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Returns a string as one line of at most `most` bytes.
fn line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    shorten(&words.join(" "), most)
}

fn time(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => duration_text(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_landed_and_what_failed() {
        let mut digest = Digest {
            landed: 12,
            clusters: 3,
            took: Some(Duration::from_millis(4_080)),
            ..Digest::default()
        };
        assert_eq!(digest.message(), "12 objects in 3 clusters landed in 4.1 s");
        let failure = |name: &str| (format!("Kustomization/team-a/{name}"), "a\n b".to_owned());
        digest.failed = vec![failure("apps")];
        assert_eq!(
            digest.message(),
            "12 objects in 3 clusters landed in 4.1 s, 1 failed: Kustomization/team-a/apps: a b"
        );
        digest.failed = (0..12).map(|at| failure(&at.to_string())).collect();
        digest.waiting = 1;
        digest.unfinished = Some((2, Duration::from_secs(600)));
        digest.source = Some("stored artifact for commit 'one'".to_owned());
        digest.took = Some(Duration::from_secs(125));
        let message = digest.message();
        assert!(
            message.starts_with(
                "12 objects in 3 clusters landed in 2m5s, 12 failed, 1 waits for another, 2 not finished after 10m0s\n\
                 Kustomization/team-a/0: a b\n"
            ),
            "{message}"
        );
        assert!(
            message.ends_with("9: a b\nand 2 more that failed\nstored artifact for commit 'one'"),
            "{message}"
        );
    }

    #[test]
    fn messages_are_short_whatever_tenants_write() {
        let text = "x".repeat(100_000);
        let digest = Digest {
            failed: vec![("a".repeat(500), text.clone()); 1000],
            source: Some(text),
            ..Digest::default()
        };
        assert!(digest.message().len() < 10_000);
    }
}
