//! Alarms and the CloudWatch dashboard of the translated template.

use super::template::{list, of_type, properties, template, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Returns the string of an intrinsic function if all conditions are true; references stay `${..}`.
fn with_everything(value: &Value) -> String {
    if let Some(branches) = value["Fn::If"].as_array() {
        return with_everything(&branches[1]);
    }
    if let Some(parts) = value["Fn::Join"].as_array() {
        let items = list(&parts[1]).into_iter().map(with_everything);
        return items.collect::<Vec<_>>().join(&text(&parts[0]));
    }
    let Some(parts) = value["Fn::Sub"].as_array() else {
        return text(value);
    };
    let variables = parts[1].as_object().expect("variables");
    let mut result = text(&parts[0]);
    for (name, value) in variables {
        result = result.replace(&format!("${{{name}}}"), &with_everything(value));
    }
    result
}

fn references(functions: &[&str]) -> BTreeSet<String> {
    let reference = |name: &&str| format!("${{{name}}}");
    functions.iter().map(reference).collect()
}

/// Returns references to all functions of the template.
fn functions() -> BTreeSet<String> {
    let names: Vec<&str> = of_type("AWS::Lambda::Function")
        .into_iter()
        .map(|(name, _)| name.as_str())
        .collect();
    references(&names)
}

#[test]
fn alarms_are_made_for_a_topic_and_reach_it() {
    let alarms = of_type("AWS::CloudWatch::Alarm");
    let names: BTreeSet<&str> = alarms.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "DeadLetters",
        "FunctionsFail",
        "HubsNotSwept",
        "IsolatedStepsWait",
        "PlansWait",
        "StepsWait",
        "SweepsFail",
        "SweepsWait",
        "Throttled",
        "UrlsFail",
    ];
    assert_eq!(names, expected.into());
    for (name, alarm) in alarms {
        let condition = match name.as_str() {
            "PlansWait" => "PlanAlarms",
            _ => "Alarms",
        };
        assert_eq!(alarm["Condition"], condition, "{name}");
        let alarm = &alarm["Properties"];
        assert_eq!(alarm["AlarmActions"], json!([{"Ref": "AlarmTopic"}]));
        // Only the timer must run: without it, the drift function has no metric.
        let missing = match name.as_str() {
            "SweepsFail" => "breaching",
            _ => "notBreaching",
        };
        assert_eq!(alarm["TreatMissingData"], missing, "{name}");
    }
}

/// An alarm over several functions names every function that it is about.
#[test]
fn queries_of_alarms_name_every_function() {
    let queried = |alarm: &str| -> BTreeSet<String> {
        let query = with_everything(&properties(alarm)["Metrics"][0]["Expression"]);
        assert!(query.contains(" GROUP BY FunctionName "), "{query}");
        let names = query.split("FunctionName = '").skip(1);
        names
            .filter_map(|rest| Some(rest.split_once('\'')?.0.to_owned()))
            .collect()
    };
    assert_eq!(queried("Throttled"), functions());
    // The drift function has the alarm `SweepsFail`.
    let mut failing = functions();
    failing.remove("${DriftFunction}");
    assert_eq!(queried("FunctionsFail"), failing);
    let with_url = ["WebhookFunction", "DashboardFunction"];
    assert_eq!(queried("UrlsFail"), references(&with_url));
}

/// The metric filter and the alarm name each hub that is not swept.
#[test]
fn a_hub_that_is_not_swept_has_its_own_metric_and_alarm() {
    let filter = properties("HubNotSwept");
    assert_eq!(filter["LogGroupName"], json!({"Ref": "DriftLogs"}));
    let metric = &filter["MetricTransformations"][0];
    assert_eq!(metric["MetricName"], "HubNotSwept");
    assert_eq!(
        metric["Dimensions"],
        json!([{"Key": "hub", "Value": "$.hub"}])
    );
    let namespace = text(&metric["MetricNamespace"]);
    let query = text(&properties("HubsNotSwept")["Metrics"][0]["Expression"]);
    let from = format!("SELECT SUM(HubNotSwept) FROM SCHEMA(\"{namespace}\", hub) ");
    assert_eq!(query, from.clone() + "GROUP BY hub ORDER BY SUM() DESC");
    assert!(overview().to_string().contains(&from.replace('"', "\\\"")));
}

/// Returns the body of the CloudWatch dashboard.
fn overview() -> Value {
    let body = with_everything(&properties("Overview")["DashboardBody"]);
    serde_json::from_str(&body).expect("JSON")
}

/// Returns the namespace, the name and the dimension of each metric of a widget. `...` repeats what
/// the row before has in these places, and `.` one of them.
fn metrics(widget: &Value) -> Vec<[String; 4]> {
    let mut before: [String; 4] = Default::default();
    let mut found = Vec::new();
    for row in list(&widget["properties"]["metrics"]) {
        let row: Vec<&str> = list(row).into_iter().filter_map(Value::as_str).collect();
        match row.as_slice() {
            [] => continue,
            ["...", value] => before[3] = (*value).to_owned(),
            parts => {
                assert_eq!(parts.len(), 4, "{parts:?}");
                let changed = before.iter_mut().zip(parts).filter(|(_, new)| **new != ".");
                changed.for_each(|(old, new)| *old = (*new).to_owned());
            }
        }
        found.push(before.clone());
    }
    found
}

/// Each metric is one that AWS documents for a function or a queue of the stack.
#[test]
fn the_dashboard_shows_every_function_and_queue() {
    let documented = |namespace: &str| -> &[&str] {
        match namespace {
            "AWS/Lambda" => &[
                "ConcurrentExecutions",
                "Duration",
                "Errors",
                "Throttles",
                "Url4xxCount",
                "Url5xxCount",
                "UrlRequestCount",
                "UrlRequestLatency",
            ],
            "AWS/SQS" => &[
                "ApproximateAgeOfOldestMessage",
                "ApproximateNumberOfMessagesDelayed",
                "ApproximateNumberOfMessagesNotVisible",
                "ApproximateNumberOfMessagesVisible",
                "NumberOfMessagesDeleted",
            ],
            other => panic!("{other}"),
        }
    };
    let resources = &template()["Resources"];
    let body = overview();
    let mut shown = BTreeSet::new();
    for widget in list(&body["widgets"]) {
        for [namespace, metric, dimension, value] in metrics(widget) {
            assert!(
                documented(&namespace).contains(&metric.as_str()),
                "{metric}"
            );
            let (suffix, kind) = match dimension.as_str() {
                "FunctionName" => ("}", "AWS::Lambda::Function"),
                "QueueName" => (".QueueName}", "AWS::SQS::Queue"),
                other => panic!("{other}"),
            };
            let name = value.trim_start_matches("${").trim_end_matches(suffix);
            assert_eq!(resources[name]["Type"], kind, "{value}");
            shown.insert(format!("{name} {metric}"));
        }
    }
    for (function, _) in of_type("AWS::Lambda::Function") {
        for metric in ["ConcurrentExecutions", "Duration", "Errors", "Throttles"] {
            assert!(
                shown.contains(&format!("{function} {metric}")),
                "{function} {metric}"
            );
        }
    }
    for (queue, _) in of_type("AWS::SQS::Queue") {
        let metric = match queue.as_str() {
            "DeadLetterQueue" => "ApproximateNumberOfMessagesVisible",
            _ => "ApproximateAgeOfOldestMessage",
        };
        assert!(shown.contains(&format!("{queue} {metric}")), "{queue}");
    }
}

/// Widgets fill a grid of 24 columns, and none covers another one.
#[test]
fn widgets_of_the_dashboard_do_not_overlap() {
    let body = overview();
    let mut cells = BTreeSet::new();
    for widget in list(&body["widgets"]) {
        let number = |name: &str| widget[name].as_u64().expect("a number");
        let (x, y) = (number("x"), number("y"));
        for column in x..x + number("width") {
            for row in y..y + number("height") {
                assert!(column < 24 && cells.insert((column, row)), "{widget}");
            }
        }
    }
}
