//! The time for which blobs are kept, by the prefix of their keys: that of the lifecycle rules of
//! the bucket on AWS (`infra/template.yaml`). The server deletes a message whose time is over.

use std::time::Duration;

const DAY: u64 = 24 * 3600;

/// The prefixes of keys, and the days after the last write for which their blobs are kept. Blobs
/// with other keys, such as the registrations of hubs, are kept for ever.
const DAYS: [(&str, u64); 13] = [
    ("artifacts/", 90),
    ("commits/", 90),
    ("charts/", 90),
    ("objects/", 90),
    ("journal/", 90),
    ("audit/", 400),
    ("waits/", 1),
    ("limits/", 1),
    ("notifications/", 1),
    ("plans/", 30),
    ("schedule/", 90),
    ("versions/", 90),
    ("doctor/", 1),
];

/// The time for which a blob that was set aside is kept, as superseded versions in the bucket.
pub(crate) const ASIDE: Duration = Duration::from_secs(7 * DAY);

/// Returns the time for which a blob is kept after its last write; `None` for ever.
pub(crate) fn of(key: &str) -> Option<Duration> {
    let rule = DAYS.iter().find(|(prefix, _)| key.starts_with(prefix));
    rule.map(|(_, days)| Duration::from_secs(days * DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rule of the bucket on AWS for a prefix, and only those, is also one here.
    #[test]
    fn the_rules_are_those_of_the_template() {
        let template = include_str!("../../../infra/template.yaml");
        let lines: Vec<&str> = template.lines().map(str::trim).collect();
        let rules = lines.windows(2).filter_map(|pair| {
            let prefix = pair[0].strip_prefix("Prefix: ")?;
            let days = pair[1].strip_prefix("ExpirationInDays: ")?;
            Some((prefix, days.parse::<u64>().unwrap()))
        });
        let mut rules: Vec<_> = rules.collect();
        let mut ours = DAYS.to_vec();
        rules.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, rules);
    }

    #[test]
    fn registrations_are_kept() {
        assert_eq!(of("hubs/staging.json"), None);
        assert_eq!(of("waits/a"), Some(Duration::from_secs(86_400)));
    }
}
