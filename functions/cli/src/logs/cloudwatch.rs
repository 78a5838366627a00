//! The log groups of an installation's functions in CloudWatch.

use super::entry::Entry;
use super::filter::{Filter, Printer};
use crate::age;
use crate::error::Error;
use aws_sdk_cloudwatchlogs::Client;
use aws_sdk_cloudwatchlogs::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use driftless_adapters::aws;
use futures::future::try_join_all;
use std::collections::BTreeSet;
use std::time::Duration;

/// The interval at which followed groups are read.
const POLL: Duration = Duration::from_secs(2);
/// The time that is read again while following: CloudWatch shows events some seconds late.
const OVERLAP: Duration = Duration::from_secs(30);
/// The most entries of the first part that are kept, the newest ones.
const MAX_ENTRIES: usize = 100_000;

/// The log groups to read.
pub struct Groups {
    client: Client,
    names: Vec<String>,
}

/// An event with its identity.
struct Event {
    id: String,
    time: i64,
    entry: Entry,
}

impl Groups {
    /// Finds the log groups of a stack; the named ones are read unconditionally.
    ///
    /// # Errors
    /// CloudWatch cannot be read, or the stack has no log groups.
    pub async fn find(stack: Option<&str>, named: &[String]) -> Result<Self, Error> {
        let client = Client::new(&aws::settings().await);
        let mut names: BTreeSet<String> = named.iter().cloned().collect();
        if let Some(stack) = stack {
            let request = client.describe_log_groups();
            let request = request.log_group_name_prefix(format!("{stack}-"));
            let mut pages = request.into_paginator().send();
            let mut count = 0;
            while let Some(page) = pages.next().await {
                let page = page.map_err(|error| failed("logs:DescribeLogGroups", &error))?;
                for group in page.log_groups() {
                    names.extend(group.log_group_name().map(str::to_owned));
                    count += 1;
                }
            }
            if count == 0 {
                return Err(Error::new(format!(
                    "--stack: no log group's name begins with '{stack}-'"
                ))
                .next(
                    "check the name of the stack and AWS_REGION, or name a group with --log-group",
                ));
            }
        }
        Ok(Self {
            client,
            names: names.into_iter().collect(),
        })
    }

    /// Prints the entries of all groups in the order of time.
    ///
    /// # Errors
    /// A group cannot be read.
    pub async fn run(&self, filter: &Filter, printer: &Printer) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let mut since = filter.since;
        let mut is_first = true;
        loop {
            let started = age::now();
            let events = self.read(since, filter).await?;
            let new: Vec<&Event> = events
                .iter()
                .filter(|event| !seen.contains(&event.id))
                .collect();
            let entries: Vec<Entry> = new.iter().map(|event| event.entry.clone()).collect();
            match is_first {
                true => printer.first(&entries)?,
                false => printer.more(&entries)?,
            }
            if !printer.follows {
                return Ok(());
            }
            is_first = false;
            // Older events are not read again.
            seen = events.into_iter().map(|event| event.id).collect();
            since = Some(started.saturating_sub(OVERLAP)).max(filter.since);
            tokio::time::sleep(POLL).await;
        }
    }

    async fn read(&self, since: Option<Duration>, filter: &Filter) -> Result<Vec<Event>, Error> {
        let reads = self
            .names
            .iter()
            .map(|name| self.read_group(name, since, filter));
        let mut events: Vec<Event> = try_join_all(reads).await?.into_iter().flatten().collect();
        events.sort_by(|a, b| (a.time, &a.id).cmp(&(b.time, &b.id)));
        let excess = events.len().saturating_sub(MAX_ENTRIES);
        events.drain(..excess);
        Ok(events)
    }

    async fn read_group(
        &self,
        group: &str,
        since: Option<Duration>,
        filter: &Filter,
    ) -> Result<Vec<Event>, Error> {
        let millis = since.and_then(|since| i64::try_from(since.as_millis()).ok());
        let request = self.client.filter_log_events().log_group_name(group);
        let mut pages = request.set_start_time(millis).into_paginator().send();
        let mut events = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| {
                failed(&format!("log group {group}: logs:FilterLogEvents"), &error)
            })?;
            for event in page.events() {
                let (Some(message), Some(time)) = (event.message(), event.timestamp()) else {
                    continue;
                };
                let Some(mut entry) = Entry::parse(message) else {
                    continue;
                };
                if entry.timestamp.is_empty() {
                    entry.timestamp = millis_text(time);
                }
                if filter.has(&entry) {
                    let id = event
                        .event_id()
                        .map_or_else(|| format!("{time}{message}"), str::to_owned);
                    events.push(Event { id, time, entry });
                }
            }
            if events.len() > MAX_ENTRIES {
                let excess = events.len() - MAX_ENTRIES;
                events.drain(..excess);
            }
        }
        Ok(events)
    }
}

/// Returns a time of CloudWatch, in milliseconds since 1970, as RFC 3339.
fn millis_text(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis);
    time.map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// Returns the error of a request, with the next step.
fn failed<E, R>(request: &str, error: &SdkError<E, R>) -> Error
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug,
{
    let message = format!("{request}: {}", DisplayErrorContext(error));
    match error.code() {
        Some("AccessDeniedException") => Error::new(message)
            .next("give the user logs:DescribeLogGroups and logs:FilterLogEvents on the groups"),
        Some("ResourceNotFoundException") => Error::new(message).next(
            "check the name of the group and AWS_REGION; --stack NAME finds the groups of a stack",
        ),
        _ => Error::new(message).next("check AWS_REGION and the credentials of AWS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_cloudwatch_are_printed_with_milliseconds() {
        assert_eq!(millis_text(1_767_225_600_250), "2026-01-01T00:00:00.250Z");
    }
}
