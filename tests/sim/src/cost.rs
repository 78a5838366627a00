//! The monthly price of an installation: requests and durations that the simulation measures, and
//! AWS's prices.

use crate::economy::{self, Cost, FLEET_SIZE};
use crate::gate::Kind;
use crate::scale::{DARK, PUSH_ALL, PUSH_ONE, Scale, Size};
use serde_json::{Value, json};
use std::fmt::{self, Write as _};
use std::time::Duration;

/// A price with its unit.
struct Price {
    /// The price in dollars.
    dollars: f64,
    /// The number of units that it is for.
    units: f64,
    /// The public page of AWS, region us-east-1, read in November 2026.
    source: &'static str,
}

impl Price {
    const fn new(dollars: f64, units: f64, source: &'static str) -> Self {
        Self {
            dollars,
            units,
            source,
        }
    }

    fn of(&self, count: f64) -> f64 {
        count / self.units * self.dollars
    }
}

const LAMBDA_REQUEST: Price = Price::new(0.20, 1e6, "AWS Lambda Pricing, requests");
const LAMBDA_GB_SECOND: Price = Price::new(
    0.000_013_333_4,
    1.0,
    "AWS Lambda Pricing, duration on Arm, first tier",
);
const SQS_REQUEST: Price = Price::new(0.40, 1e6, "Amazon SQS pricing, standard queues");
const S3_GET: Price = Price::new(0.000_4, 1e3, "Amazon S3 pricing, S3 Standard, GET");
const S3_PUT: Price = Price::new(0.005, 1e3, "Amazon S3 pricing, S3 Standard, PUT and LIST");
const SECRET: Price = Price::new(
    0.40,
    1.0,
    "AWS Secrets Manager Pricing, a secret for a month",
);
const SECRET_CALL: Price = Price::new(0.05, 1e4, "AWS Secrets Manager Pricing, API calls");
/// A node of 2 vCPUs and 8 GiB for an hour.
const NODE_HOUR: Price = Price::new(0.081_6, 1.0, "Amazon EC2 On-Demand Pricing, m7g.large");
/// A vCPU and a GB of a pod for an hour.
const FARGATE_CPU_HOUR: Price = Price::new(0.040_48, 1.0, "AWS Fargate Pricing, Linux/x86");
const FARGATE_GB_HOUR: Price = Price::new(0.004_445, 1.0, "AWS Fargate Pricing, Linux/x86");

const PRICES: [&Price; 10] = [
    &LAMBDA_REQUEST,
    &LAMBDA_GB_SECOND,
    &SQS_REQUEST,
    &S3_GET,
    &S3_PUT,
    &SECRET,
    &SECRET_CALL,
    &NODE_HOUR,
    &FARGATE_CPU_HOUR,
    &FARGATE_GB_HOUR,
];

/// The vCPUs that Flux's controllers request (`config/manager/deployment.yaml` of
/// source-controller: 50m; of kustomize-, helm- and notification-controller: 100m each).
const FLUX_CPU: f64 = 0.05 + 3.0 * 0.1;
/// The share of a node that this is: its 2 vCPUs are the scarcer resource.
const FLUX_SHARE: f64 = FLUX_CPU / 2.0;
/// Flux's controllers as pods of Fargate: the smallest pod has 0.25 vCPU and 0.5 GB.
const FLUX_PODS: f64 = 4.0;

const HOURS: f64 = 30.0 * 24.0;
const HOUR: Duration = Duration::from_secs(3600);
/// Lambda polls an empty queue with five connections, each for 20 s (AWS Lambda Developer Guide,
/// "Using Lambda with Amazon SQS"); infra/template.yaml has three queues.
const POLLS: f64 = 3.0 * 5.0 * HOURS * 3600.0 / 20.0;
/// The pushes of a fleet in a month: one of an object of each cluster, and of one object of one
/// cluster.
const PUSHES_OF_ALL: f64 = 30.0;
const PUSHES_OF_ONE: f64 = 300.0;
/// The sizes of the fleets in the table, in remote clusters.
const FLEETS: [usize; 4] = [10, 100, 1_000, 10_000];
/// The secrets of an installation with one hub: its kubeconfig, the webhook's secret and the login
/// at GitHub.
const SECRETS: f64 = 3.0;
/// The memory of the functions in GB: the defaults of infra/template.yaml.
const MEMORY: [(&str, f64); 3] = [("reconcile", 1.0), ("drift", 1.0), ("webhook", 0.25)];

/// The requests of a period.
#[derive(Clone, Debug, Default)]
struct Usage {
    objects: f64,
    invocations: f64,
    gb_seconds: f64,
    messages: f64,
    gets: f64,
    puts: f64,
    secret_calls: f64,
    api_requests: f64,
}

impl Usage {
    fn of(objects: usize, cost: &Cost) -> Self {
        let count = |kind: Kind| cost.of(kind) as f64;
        let memory = |function: &str| {
            let known = MEMORY.iter().find(|(name, _)| *name == function);
            known.expect("the memory of each function").1
        };
        let billed = cost.invocations.iter();
        let billed = billed.map(|(function, (_, time))| memory(function) * time.as_secs_f64());
        Self {
            objects: objects as f64,
            invocations: cost
                .invocations
                .values()
                .map(|(count, _)| *count as f64)
                .sum(),
            gb_seconds: billed.sum(),
            messages: cost.messages as f64 + count(Kind::Send),
            gets: count(Kind::BlobRead),
            puts: count(Kind::BlobWrite) + count(Kind::BlobList),
            secret_calls: count(Kind::Secret),
            api_requests: cost.api() as f64,
        }
    }

    /// Returns the sum of this usage and `factor` times another one.
    fn plus(&self, factor: f64, other: &Self) -> Self {
        Self {
            objects: self.objects,
            invocations: self.invocations + factor * other.invocations,
            gb_seconds: self.gb_seconds + factor * other.gb_seconds,
            messages: self.messages + factor * other.messages,
            gets: self.gets + factor * other.gets,
            puts: self.puts + factor * other.puts,
            secret_calls: self.secret_calls + factor * other.secret_calls,
            api_requests: self.api_requests + factor * other.api_requests,
        }
    }

    /// Returns the usage without negative figures: what does not grow differs by chance.
    fn at_least_zero(self) -> Self {
        Self {
            objects: self.objects,
            invocations: self.invocations.max(0.0),
            gb_seconds: self.gb_seconds.max(0.0),
            messages: self.messages.max(0.0),
            gets: self.gets.max(0.0),
            puts: self.puts.max(0.0),
            secret_calls: self.secret_calls.max(0.0),
            api_requests: self.api_requests.max(0.0),
        }
    }

    /// Returns the usage of another number of objects on the line through this and another one.
    fn extrapolated(&self, larger: &Self, objects: usize) -> Self {
        let step = (objects as f64 - larger.objects) / (larger.objects - self.objects);
        let growth = larger.plus(-1.0, self).at_least_zero();
        let objects = objects as f64;
        Self {
            objects,
            ..larger.plus(step, &growth)
        }
    }

    /// Returns the dollars of the requests and durations, without what an idle installation pays.
    fn dollars(&self) -> f64 {
        // A message is sent, received and deleted.
        LAMBDA_REQUEST.of(self.invocations)
            + LAMBDA_GB_SECOND.of(self.gb_seconds)
            + SQS_REQUEST.of(3.0 * self.messages)
            + S3_GET.of(self.gets)
            + S3_PUT.of(self.puts)
            + SECRET_CALL.of(self.secret_calls)
    }

    fn json(&self) -> Value {
        json!({"objects": self.objects, "lambdaInvocations": self.invocations,
            "lambdaGBSeconds": self.gb_seconds, "sqsMessages": self.messages, "s3Gets": self.gets,
            "s3PutsAndLists": self.puts, "secretsManagerCalls": self.secret_calls,
            "apiServerRequests": self.api_requests, "dollars": self.dollars()})
    }
}

/// Returns the dollars that an installation pays for a month without any object.
fn idle_dollars() -> f64 {
    SQS_REQUEST.of(POLLS) + SECRET.of(SECRETS)
}

/// A row of the table: its name, and its figure.
type Row = (&'static str, fn(&Usage) -> f64);

/// The table of costs.
pub struct Table {
    /// A month of 30 days at rest, for each number of objects.
    rest: Vec<Usage>,
    /// The number of objects whose usage is extrapolated.
    extrapolated: f64,
    /// A push of one file to [`FLEET_SIZE`] Kustomizations.
    push: Usage,
}

impl Table {
    /// Measures an hour at rest of both numbers of Kustomizations, and a push. The month is the
    /// hour 720 times, and a full step of each object a day, which costs as much as that of a push.
    pub fn measure(small: usize, large: usize, extrapolated: usize) -> Self {
        let push = Usage::of(FLEET_SIZE, &economy::push(FLEET_SIZE, None));
        let month = |objects: usize| {
            let hour = Usage::of(objects, &economy::rest(objects, HOUR));
            let full_steps = 30.0 * objects as f64 / FLEET_SIZE as f64;
            hour.plus(HOURS - 1.0, &hour).plus(full_steps, &push)
        };
        let (small, large) = (month(small), month(large));
        let largest = small.extrapolated(&large, extrapolated);
        Self {
            rest: vec![small, large, largest],
            extrapolated: extrapolated as f64,
            push,
        }
    }

    /// Returns the table as JSON.
    pub fn json(&self) -> Value {
        json!({"month": self.rest.iter().map(Usage::json).collect::<Vec<_>>(),
            "extrapolated": self.extrapolated, "push": self.push.json(),
            "idleDollars": idle_dollars(), "fluxNodeDollars": flux_node(),
            "fluxFargateDollars": flux_fargate()})
    }
}

/// Returns the dollars a month of the share of a node that Flux requests in one cluster.
fn flux_node() -> f64 {
    NODE_HOUR.of(HOURS * FLUX_SHARE)
}

/// Returns the dollars a month of Flux's controllers on Fargate in one cluster.
fn flux_fargate() -> f64 {
    let pod = FARGATE_CPU_HOUR.of(0.25) + FARGATE_GB_HOUR.of(0.5);
    FLUX_PODS * pod * HOURS
}

/// Writes a line of a table for each row, with the value of each usage.
fn write_rows(f: &mut fmt::Formatter<'_>, rows: &[Row], usages: &[&Usage]) -> fmt::Result {
    for (name, value) in rows {
        write!(f, "| {name} |")?;
        for usage in usages {
            write!(f, " {:.0} |", value(usage))?;
        }
        writeln!(f)?;
    }
    Ok(())
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut heads = String::from("| a month of 30 days, one hub |");
        for usage in &self.rest {
            let note = match usage.objects == self.extrapolated {
                true => " (extrapolated)",
                false => "",
            };
            write!(heads, " {} objects at rest{note} |", usage.objects)?;
        }
        writeln!(f, "{heads} a push to {FLEET_SIZE} Kustomizations |")?;
        writeln!(f, "| --- |{}", " --- |".repeat(self.rest.len() + 1))?;
        let rows: [Row; 7] = [
            ("Lambda invocations", |usage| usage.invocations),
            ("Lambda GB-seconds", |usage| usage.gb_seconds),
            ("SQS messages, at most", |usage| usage.messages),
            ("S3 GETs", |usage| usage.gets),
            ("S3 PUTs and LISTs", |usage| usage.puts),
            ("Secrets Manager calls, at most", |usage| usage.secret_calls),
            ("requests to API servers", |usage| usage.api_requests),
        ];
        let usages: Vec<&Usage> = self.rest.iter().chain([&self.push]).collect();
        write_rows(f, &rows, &usages)?;
        write!(f, "| dollars |")?;
        for usage in &self.rest {
            write!(f, " {:.2} |", usage.dollars() + idle_dollars())?;
        }
        writeln!(f, " {:.6} |", self.push.dollars())?;
        writeln!(
            f,
            "\nOf the dollars of a month, {:.2} are those of an installation without objects (polling of three queues, \
             three secrets; the timer is a rule of EventBridge, which has no price). Flux's controllers request {FLUX_CPU:.2} vCPU in each cluster: {:.2} dollars of an \
             m7g.large, or {:.2} on Fargate.",
            idle_dollars(),
            flux_node(),
            flux_fargate()
        )?;
        writeln!(f, "\nPrices of us-east-1, November 2026:\n")?;
        for price in PRICES {
            writeln!(
                f,
                "- {} dollars for {}: {}",
                price.dollars, price.units, price.source
            )?;
        }
        Ok(())
    }
}

/// The monthly price of fleets, next to that of controllers which always run.
pub struct Fleets {
    objects: usize,
    /// The usage of a month by the number of remote clusters, and whether it was measured.
    months: Vec<(usize, Usage, bool)>,
}

impl Fleets {
    /// Measures fleets of 10 and 100 remote clusters with as many objects as those of `scale`, and
    /// takes the larger ones from `scale` or from the line through the two largest that are known.
    pub fn measure(scale: &Scale) -> Self {
        let Size { objects, .. } = scale.size;
        let small = |clusters: usize| {
            let dark = HOUR;
            let size = Size {
                clusters,
                objects,
                dark,
            };
            month(&Scale::measure(size))
        };
        let mut known: Vec<Usage> = FLEETS[..2]
            .iter()
            .map(|clusters| small(*clusters))
            .collect();
        let largest = month(scale);
        if known.iter().all(|one| one.objects < largest.objects) {
            known.push(largest);
        }
        let months = FLEETS.into_iter().map(|clusters| {
            let measured = known.iter().find(|one| one.objects == clusters as f64);
            let line = || {
                let [.., smaller, larger] = known.as_slice() else {
                    unreachable!("two fleets are measured")
                };
                smaller.extrapolated(larger, clusters)
            };
            let usage = measured.cloned().unwrap_or_else(line);
            (clusters, usage, measured.is_some())
        });
        Self {
            objects,
            months: months.collect(),
        }
    }

    /// Returns the table as JSON.
    pub fn json(&self) -> Value {
        let months = self.months.iter().map(|(clusters, usage, is_measured)| {
            json!({"clusters": clusters, "measured": is_measured, "month": usage.json(),
                "dollars": usage.dollars() + idle_dollars(),
                "fluxNodeDollars": flux_node() * *clusters as f64,
                "fluxFargateDollars": flux_fargate() * *clusters as f64})
        });
        json!({"objectsOfEach": self.objects, "fleets": months.collect::<Vec<_>>()})
    }
}

/// Returns the usage of a month of a fleet with one dark cluster; `objects` is the number of remote
/// clusters.
fn month(scale: &Scale) -> Usage {
    let usage = |event| Usage::of(scale.size.clusters, scale.cost(event));
    let dark = scale.cost(DARK);
    let hours = HOURS * HOUR.as_secs_f64() / dark.time.as_secs_f64();
    let none = Usage {
        objects: scale.size.clusters as f64,
        ..Usage::default()
    };
    none.plus(hours, &usage(DARK))
        .plus(PUSHES_OF_ALL, &usage(PUSH_ALL))
        .plus(PUSHES_OF_ONE, &usage(PUSH_ONE))
}

impl fmt::Display for Fleets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "A month of one hub with remote clusters of {} objects each, {PUSHES_OF_ALL} pushes to all clusters, {PUSHES_OF_ONE} to \
             one, and one cluster dark:\n",
            self.objects
        )?;
        write!(f, "| remote clusters |")?;
        for (clusters, _, is_measured) in &self.months {
            let note = if *is_measured { "" } else { " (extrapolated)" };
            write!(f, " {clusters}{note} |")?;
        }
        writeln!(f, "\n| --- |{}", " --- |".repeat(self.months.len()))?;
        let rows: [Row; 7] = [
            ("Lambda invocations", |usage| usage.invocations),
            ("Lambda GB-seconds", |usage| usage.gb_seconds),
            ("SQS messages, at most", |usage| usage.messages),
            ("S3 GETs", |usage| usage.gets),
            ("S3 PUTs and LISTs", |usage| usage.puts),
            ("requests to API servers", |usage| usage.api_requests),
            ("dollars", |usage| usage.dollars() + idle_dollars()),
        ];
        let usages: Vec<&Usage> = self.months.iter().map(|(_, usage, _)| usage).collect();
        write_rows(f, &rows, &usages)?;
        let others: [(&str, f64); 2] = [
            ("dollars of Flux's controllers on nodes", flux_node()),
            ("dollars of Flux's controllers on Fargate", flux_fargate()),
        ];
        for (name, dollars) in others {
            write!(f, "| {name} |")?;
            for (clusters, _, _) in &self.months {
                write!(f, " {:.0} |", dollars * *clusters as f64)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-6
    }

    #[test]
    fn dollars_of_fixed_counts() {
        let usage = Usage {
            objects: 1.0,
            invocations: 1e6,
            gb_seconds: 1e5,
            messages: 1e6,
            gets: 1e6,
            puts: 1e5,
            secret_calls: 1e4,
            api_requests: 7.0,
        };
        // 0.20 + 1.33334 + 1.20 + 0.40 + 0.50 + 0.05
        assert!(near(usage.dollars(), 3.683_34), "{}", usage.dollars());
        // 1,944,000 polls, three secrets.
        assert!(near(idle_dollars(), 0.7776 + 1.2));
        assert!(near(flux_node(), 10.2816), "{}", flux_node());
        assert!(near(flux_fargate(), 4.0 * 720.0 * (0.01012 + 0.002_222_5)));
    }

    #[test]
    fn extrapolation_is_linear() {
        let usage = |objects: f64, gets: f64| Usage {
            objects,
            gets,
            ..Usage::default()
        };
        let largest = usage(100.0, 300.0).extrapolated(&usage(1000.0, 1200.0), 10_000);
        assert!(near(largest.gets, 10_200.0) && near(largest.objects, 10_000.0));
    }
}
