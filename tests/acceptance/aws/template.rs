//! The SAM template: translated by SAM, linted by cfn-lint, and checked for rules
//! that neither of them knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use driftless_harness::aws::{lint, translate};
use driftless_harness::tools;
use serde_json::{Value, json};

const FUNCTIONS: [&str; 4] = [
    "WebhookFunction",
    "ReconcileFunction",
    "IsolatedFunction",
    "DriftFunction",
];

/// Returns the name of the role of a function, and of its code. The isolated function is a second
/// reconcile function.
fn role_of(function: &str) -> String {
    let role = function.replace("Function", "Role");
    role.replace("Isolated", "Reconcile")
}

pub(crate) fn template() -> &'static Value {
    static TEMPLATE: OnceLock<Value> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let source = tools::workspace().join("infra/template.yaml");
        translate(&source, &BTreeMap::new())
    })
}

pub(crate) fn properties(name: &str) -> &'static Value {
    let found = &template()["Resources"][name]["Properties"];
    assert!(found.is_object(), "the template has no resource {name}");
    found
}

pub(crate) fn of_type(kind: &str) -> Vec<(&'static String, &'static Value)> {
    let resources = template()["Resources"].as_object().expect("resources");
    resources
        .iter()
        .filter(|(_, r)| r["Type"] == kind)
        .collect()
}

/// Returns each `action resource` pair of a role, with references as `${..}`.
fn allowed(role: &str) -> BTreeSet<String> {
    let mut pairs = BTreeSet::new();
    for policy in properties(role)["Policies"].as_array().expect("policies") {
        for statement in policy["PolicyDocument"]["Statement"]
            .as_array()
            .expect("statements")
        {
            assert_eq!(statement["Effect"], "Allow");
            for action in list(&statement["Action"]) {
                for resource in list(&statement["Resource"]) {
                    pairs.insert(format!("{} {}", text(action), text(resource)));
                }
            }
        }
    }
    pairs
}

pub(crate) fn list(value: &Value) -> Vec<&Value> {
    value
        .as_array()
        .map_or_else(|| vec![value], |items| items.iter().collect())
}

/// Returns a value of the template for a stack that serves one hub alone, or all hubs.
fn served(value: &Value, one_hub: bool) -> &Value {
    match value["Fn::If"].as_array().map(Vec::as_slice) {
        Some([condition, one, all]) if condition == "OneHub" => match one_hub {
            true => one,
            false => all,
        },
        _ => value,
    }
}

/// Returns a string of the template, for a stack that serves all hubs; a `${..}` for a reference.
pub(crate) fn text(value: &Value) -> String {
    let value = served(value, false);
    if let Some(parts) = value["Fn::GetAtt"].as_array() {
        let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
        return format!("${{{}}}", parts.join("."));
    }
    let plain = value.as_str().or(value["Fn::Sub"].as_str());
    plain
        .unwrap_or_else(|| panic!("not a string: {value}"))
        .to_owned()
}

#[test]
fn sam_translates_it_and_the_linter_is_content() {
    assert_eq!(lint(template()), "");
    // The linter does find errors.
    let mut broken = template().clone();
    broken["Resources"]["ReconcileFunctionQueue"]["Properties"]["FunctionResponseTypes"] =
        json!(["ReportBatchFailures"]);
    assert!(lint(&broken).contains("E3030"));
}

#[test]
fn every_function_has_a_role_without_wildcards() {
    for function in FUNCTIONS {
        let role = role_of(function);
        assert_eq!(
            properties(function)["Role"],
            json!({"Fn::GetAtt": [role, "Arn"]})
        );
        // Lambda connects a function to a VPC with the function's role.
        let managed = &properties(&role)["ManagedPolicyArns"];
        let vpc =
            "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole";
        let none = json!({"Ref": "AWS::NoValue"});
        assert_eq!(
            managed,
            &json!({"Fn::If": ["InVpc", [{"Fn::Sub": vpc}], none]})
        );
        for pair in allowed(&role) {
            let (action, resource) = pair.split_once(' ').expect("a pair");
            assert!(!action.contains('*'), "{role}: {pair}");
            let broad =
                resource == "*" || resource.ends_with(":*") && !resource.contains("Logs}:*");
            assert!(!broad, "{role}: {pair}");
        }
    }
}

/// Statements for clusters and repositories that the operator names only read; all resources (`*`)
/// only for a login.
#[test]
fn resources_that_the_operator_names_are_only_read() {
    for policy in ["FindOwnClusters", "ReadOwnRepositories"] {
        for statement in list(&properties(policy)["PolicyDocument"]["Statement"]) {
            for action in list(&statement["Action"]) {
                let action = text(action);
                let (_, verb) = action.split_once(':').expect("an action");
                let reads = ["Describe", "Get", "List", "BatchGet", "BatchCheck"];
                assert!(
                    reads.iter().any(|start| verb.starts_with(start)),
                    "{action}"
                );
                let is_login = verb == "GetAuthorizationToken" || verb == "GetServiceBearerToken";
                assert_eq!(statement["Resource"] == "*", is_login, "{action}");
            }
        }
    }
}

/// Checks that each right to secrets of a hub names the stack's one hub.
#[test]
fn every_right_to_secrets_of_a_hub_follows_the_parameter_hub() {
    let mut count = 0;
    let mut check = |name: &str, policy: &Value| {
        for statement in list(&policy["PolicyDocument"]["Statement"]) {
            if list(&statement["Action"]) != [&json!("secretsmanager:GetSecretValue")] {
                continue;
            }
            for resource in list(&statement["Resource"]) {
                let of_all = text(resource);
                let Some((start, kind)) = ["hubs", "tenants", "remotes"]
                    .iter()
                    .find_map(|kind| Some((of_all.strip_suffix(&format!("{kind}/*"))?, *kind)))
                else {
                    assert!(!of_all.ends_with("${SecretsPrefix}*"), "{name}: {of_all}");
                    continue;
                };
                let rest = if kind == "hubs" { "-??????" } else { "/*" };
                let expected = json!({"Fn::Sub": format!("{start}{kind}/${{Hub}}{rest}")});
                assert_eq!(served(resource, true), &expected, "{name}");
                count += 1;
            }
        }
    };
    for (name, role) in of_type("AWS::IAM::Role") {
        for policy in list(&role["Properties"]["Policies"]) {
            check(name, policy);
        }
    }
    for (name, policy) in of_type("AWS::IAM::Policy") {
        check(name, &policy["Properties"]);
    }
    assert_eq!(count, 12);
}

#[test]
fn the_webhook_writes_its_version_alone_and_reads_no_cluster_credentials() {
    let allowed = allowed("WebhookRole");
    let actions: BTreeSet<&str> = allowed
        .iter()
        .filter_map(|pair| pair.split(' ').next())
        .collect();
    let expected = [
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "s3:ListBucket",
        "s3:PutObject",
        "secretsmanager:GetSecretValue",
        "sqs:SendMessage",
    ];
    assert_eq!(actions, expected.into());
    let mut writes = allowed.iter().filter(|pair| pair.starts_with("s3:Put"));
    assert!(writes.all(|pair| pair == "s3:PutObject ${Bucket.Arn}/versions/webhook.json"));
    let secrets: Vec<&String> = allowed
        .iter()
        .filter(|pair| pair.starts_with("secrets"))
        .collect();
    let is_webhook = |pair: &&String| pair.ends_with("/webhook-??????");
    assert_eq!(secrets.len(), 5, "{secrets:?}");
    assert!(secrets.iter().all(is_webhook), "{secrets:?}");
}

#[test]
fn only_the_reconcile_function_takes_messages_and_keeps_artifacts() {
    for role in ["WebhookRole", "DriftRole"] {
        for pair in allowed(role) {
            for queue in ["Queue", "IsolatedQueue"] {
                assert_ne!(
                    pair,
                    format!("sqs:ReceiveMessage ${{{queue}.Arn}}"),
                    "{role}"
                );
            }
            assert!(!pair.contains("s3:DeleteObject"), "{role}: {pair}");
            assert!(!pair.contains("/artifacts/"), "{role}: {pair}");
        }
    }
    for (role, queue) in [
        ("ReconcileRole", "Queue"),
        ("ReconcileRole", "IsolatedQueue"),
        ("DriftRole", "Queue"),
    ] {
        let pair = format!("sqs:SendMessage ${{{queue}.Arn}}");
        assert!(allowed(role).contains(&pair), "{role}: {pair}");
    }
}

/// A role lists only the directories that it reads: keys are names of hubs, tenants and objects.
/// S3 also compares the prefix with the key of a GetObject, if the object does not exist.
#[test]
fn each_role_lists_only_what_it_reads() {
    for role in [
        "WebhookRole",
        "ReconcileRole",
        "DriftRole",
        "CapsuleRole",
        "DashboardRole",
        "PlanRole",
    ] {
        let policies = list(&properties(role)["Policies"]);
        let statements = policies
            .iter()
            .flat_map(|policy| list(&policy["PolicyDocument"]["Statement"]));
        let listing: Vec<&Value> = statements
            .filter(|statement| list(&statement["Action"]).contains(&&json!("s3:ListBucket")))
            .collect();
        assert_eq!(listing.len(), 1, "{role}");
        let prefixes = list(&listing[0]["Condition"]["StringLike"]["s3:prefix"]);
        let prefixes: BTreeSet<String> = prefixes.into_iter().map(text).collect();
        let read = allowed(role).into_iter().filter_map(|pair| {
            let key = pair.strip_prefix("s3:GetObject ${Bucket.Arn}/")?;
            Some(key.to_owned())
        });
        let mut expected: BTreeSet<String> = read.collect();
        // The notes of waiting objects have no content.
        expected.extend((role == "ReconcileRole").then(|| "waits/*".to_owned()));
        // The keys of notes have all that a delivery needs.
        let notes = ["index/*", "receivers/*"].map(str::to_owned);
        expected.extend(
            (role == "WebhookRole")
                .then_some(notes)
                .into_iter()
                .flatten(),
        );
        // The sweep queues the Providers that have events to send.
        expected.extend((role == "DriftRole").then(|| "notifications/*".to_owned()));
        assert_eq!(prefixes, expected, "{role}");
    }
}

/// The parts of the bucket (shared/core/docs/steps.md), and each role's actions on them.
#[test]
fn each_role_reaches_the_parts_of_the_bucket_that_its_code_uses() {
    let directories = |role: &str| -> BTreeSet<String> {
        let of_bucket = |pair: &String| {
            let (action, key) = pair.split_once(" ${Bucket.Arn}/")?;
            let directory = key.trim_end_matches("/*");
            Some(format!("{directory} {}", action.trim_start_matches("s3:")))
        };
        allowed(role).iter().filter_map(of_bucket).collect()
    };
    let expect = |role: &str, list: &[(&str, &[&str])]| {
        let pairs = list.iter().flat_map(|(directory, actions)| {
            actions
                .iter()
                .map(move |action| format!("{directory} {action}"))
        });
        assert_eq!(directories(role), pairs.collect::<BTreeSet<_>>(), "{role}");
    };
    let (read, keep) = (&["GetObject"][..], &["GetObject", "PutObject"][..]);
    let all = &["GetObject", "PutObject", "DeleteObject"][..];
    let write = &["PutObject"][..];
    expect("WebhookRole", &[("versions/webhook.json", write)]);
    expect(
        "DriftRole",
        &[
            ("hubs", read),
            ("index", read),
            ("objects", read),
            ("receivers", read),
            ("schedule", keep),
            ("limits", keep),
            ("versions/drift.json", write),
        ],
    );
    expect(
        "CapsuleRole",
        &[("hubs", read), ("versions/capsule.json", write)],
    );
    expect(
        "DashboardRole",
        &[
            ("hubs", read),
            ("journal", read),
            ("artifacts", read),
            ("objects", read),
            ("versions/dashboard.json", write),
        ],
    );
    expect(
        "PlanRole",
        &[
            ("hubs", read),
            ("artifacts", read),
            ("objects", read),
            ("plans", all),
            ("versions/plan.json", write),
        ],
    );
    expect(
        "ReconcileRole",
        &[
            ("hubs", read),
            ("commits", all),
            ("charts", all),
            ("artifacts", all),
            ("index", all),
            ("receivers", all),
            ("objects", all),
            ("journal", all),
            ("audit", write),
            ("notifications", all),
            ("limits", keep),
            ("waits", &["PutObject", "DeleteObject"]),
            ("versions/reconcile.json", write),
        ],
    );
}

/// A function's error makes Lambda receive fewer messages, also those of healthy hubs and objects.
#[test]
fn a_failed_message_is_no_error_of_its_function() {
    let sources = of_type("AWS::Lambda::EventSourceMapping");
    assert_eq!(sources.len(), 4);
    for (name, source) in sources {
        let types = &source["Properties"]["FunctionResponseTypes"];
        assert_eq!(types, &json!(["ReportBatchItemFailures"]), "{name}");
    }
}

#[test]
fn functions_are_in_the_vpc_of_the_parameters() {
    let vpc = json!({
        "SubnetIds": {"Ref": "SubnetIds"},
        "SecurityGroupIds": {"Ref": "SecurityGroupIds"},
    });
    let vpc = json!({"Fn::If": ["InVpc", vpc, {"Ref": "AWS::NoValue"}]});
    for function in
        FUNCTIONS
            .into_iter()
            .chain(["CapsuleFunction", "DashboardFunction", "PlanFunction"])
    {
        assert_eq!(properties(function)["VpcConfig"], vpc, "{function}");
    }
    let endpoints = of_type("AWS::EC2::VPCEndpoint");
    let services: BTreeSet<String> = endpoints
        .into_iter()
        .map(|(name, endpoint)| {
            assert_eq!(endpoint["Condition"], "OwnEndpoints", "{name}");
            text(&endpoint["Properties"]["ServiceName"])
        })
        .collect();
    let expected = ["s3", "secretsmanager", "sqs", "sts"];
    let expected = expected.map(|name| format!("com.amazonaws.${{AWS::Region}}.{name}"));
    assert_eq!(services, expected.into());
}

#[test]
fn isolated_steps_run_alone_under_the_same_rules() {
    let (queue, isolated) = (properties("Queue"), properties("IsolatedQueue"));
    for name in [
        "VisibilityTimeout",
        "MessageRetentionPeriod",
        "RedrivePolicy",
    ] {
        assert_eq!(queue[name], isolated[name], "{name}");
    }
    let (ordinary, isolated) = (
        properties("ReconcileFunction"),
        properties("IsolatedFunction"),
    );
    for name in ["Timeout", "Role", "RecursiveLoop", "Environment"] {
        assert_eq!(ordinary[name], isolated[name], "{name}");
    }
    assert_eq!(isolated["MemorySize"], json!({"Ref": "IsolatedMemory"}));
    assert_eq!(properties("IsolatedFunctionQueue")["BatchSize"], 1);
    let allow = &properties("DeadLetterQueue")["RedriveAllowPolicy"];
    assert_eq!(allow["redrivePermission"], "byQueue");
    let sources = list(&allow["sourceQueueArns"]).into_iter().map(text);
    let queues = ["Queue", "IsolatedQueue", "PlanQueue"];
    let names = queues.map(|queue| text(&properties(queue)["QueueName"]));
    let arn = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:";
    assert_eq!(
        sources.collect::<Vec<_>>(),
        names.map(|name| format!("{arn}{name}"))
    );
}

#[test]
fn the_queue_outlives_the_function_and_loses_nothing() {
    let queue = properties("Queue");
    let timeout = properties("ReconcileFunction")["Timeout"]
        .as_u64()
        .expect("a timeout");
    assert_eq!(timeout, 120);
    // AWS recommends six times the timeout, so that a throttled batch is not delivered again
    // meanwhile.
    assert_eq!(queue["VisibilityTimeout"], 6 * timeout);
    assert_eq!(queue["RedrivePolicy"]["maxReceiveCount"], 5);
    assert_eq!(
        queue["RedrivePolicy"]["deadLetterTargetArn"],
        json!({"Fn::GetAtt": ["DeadLetterQueue", "Arn"]})
    );
    // A standard queue: work is level-triggered, order does not matter.
    assert_eq!(queue["FifoQueue"], Value::Null);
    let kept = |name: &str| {
        properties(name)["MessageRetentionPeriod"]
            .as_u64()
            .expect("seconds")
    };
    assert!(kept("DeadLetterQueue") > kept("Queue"));

    let source = properties("ReconcileFunctionQueue");
    assert_eq!(
        source["FunctionResponseTypes"],
        json!(["ReportBatchItemFailures"])
    );
    assert_eq!(source["BatchSize"], json!({"Ref": "BatchSize"}));
    // Above 10, AWS demands a batching window.
    assert_eq!(template()["Parameters"]["BatchSize"]["MaxValue"], 10);
    assert_eq!(
        source["ScalingConfig"]["MaximumConcurrency"],
        json!({"Ref": "Concurrency"})
    );
}

/// A plan writes nothing but its own records, and sends no message. Without the parameter, nothing
/// of it exists.
#[test]
fn plans_are_made_on_request_and_reach_no_cluster_for_writes() {
    for name in [
        "PlanFunction",
        "PlanRole",
        "PlanQueue",
        "PlanLogs",
        "RequestPlans",
    ] {
        let condition = &template()["Resources"][name]["Condition"];
        assert_eq!(condition, "PullRequestPlans", "{name}");
    }
    let allowed = allowed("PlanRole");
    let has = |start: &str| allowed.iter().any(|pair| pair.starts_with(start));
    assert!(!has("sqs:SendMessage") && !has("kms:"), "{allowed:?}");
    for pair in allowed.iter().filter(|pair| pair.starts_with("secrets")) {
        let names = ["hubs/*", "tenants/*", "remotes/*", "github/*"];
        assert!(names.iter().any(|name| pair.ends_with(name)), "{pair}");
    }
    let (queue, function) = (properties("PlanQueue"), properties("PlanFunction"));
    let timeout = function["Timeout"].as_u64().expect("a timeout");
    assert_eq!(queue["VisibilityTimeout"], 6 * timeout);
    let receives = u64::from(plan::MAX_RECEIVES);
    assert_eq!(queue["RedrivePolicy"]["maxReceiveCount"], receives);
    assert_eq!(properties("PlanFunctionQueue")["BatchSize"], 1);
    assert_eq!(function["Role"], json!({"Fn::GetAtt": ["PlanRole", "Arn"]}));
    let request = &properties("RequestPlans")["PolicyDocument"]["Statement"][0];
    assert_eq!(request["Action"], "sqs:SendMessage");
}

/// A message of a sweep expires after a minute, and a failed sweep is not retried.
#[test]
fn sweeps_of_hubs_do_not_pile_up() {
    let queue = properties("SweepQueue");
    assert_eq!(queue["MessageRetentionPeriod"], 60);
    assert_eq!(queue["RedrivePolicy"], Value::Null);
    let timeout = properties("DriftFunction")["Timeout"].as_u64();
    assert_eq!(
        queue["VisibilityTimeout"].as_u64(),
        timeout.map(|timeout| 6 * timeout)
    );
    let source = properties("DriftFunctionHub");
    assert_eq!(source["BatchSize"], 1);
    let role = allowed("DriftRole");
    assert!(
        role.contains("sqs:ReceiveMessage ${SweepQueue.Arn}"),
        "{role:?}"
    );
}

#[test]
fn the_functions_are_what_cargo_lambda_builds() {
    for name in FUNCTIONS {
        let function = properties(name);
        assert_eq!(function["Runtime"], "provided.al2023");
        assert_eq!(function["Handler"], "bootstrap");
        assert_eq!(function["Architectures"], json!([{"Ref": "Architecture"}]));
        let variables = function["Environment"]["Variables"]
            .as_object()
            .expect("variables");
        let names: Vec<&str> = variables.keys().map(String::as_str).collect();
        let mut expected = vec![
            "AZURE_AUTHORITY_HOST",
            "DRIFTLESS_BUCKET",
            "DRIFTLESS_GITHUB_API",
            "DRIFTLESS_GITHUB_HOSTS",
            "DRIFTLESS_HUB",
            "DRIFTLESS_ISOLATED_QUEUE_URL",
            "DRIFTLESS_LOG",
            "DRIFTLESS_METRICS_NAMESPACE",
            "DRIFTLESS_OTLP_HEADERS_SECRET",
            "DRIFTLESS_QUEUE_URL",
            "DRIFTLESS_SECRETS_PREFIX",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ];
        // The drift function requests the sweeps.
        expected.extend((name == "DriftFunction").then_some("DRIFTLESS_SWEEP_QUEUE_URL"));
        // The webhook function requests the plans.
        let requests_plans = name == "WebhookFunction";
        expected.extend(requests_plans.then_some("DRIFTLESS_PLAN_QUEUE_URL"));
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
    let source = std::fs::read_to_string(tools::workspace().join("infra/template.yaml"))
        .expect("the template");
    for function in FUNCTIONS {
        let name = role_of(function).replace("Role", "").to_lowercase();
        assert!(
            source.contains(&format!("CodeUri: ../target/lambda/{name}/")),
            "{name}"
        );
    }
}

#[test]
fn the_webhook_is_public_and_the_timer_runs_each_minute() {
    assert_eq!(properties("WebhookFunctionUrl")["AuthType"], "NONE");
    let public: BTreeSet<&str> = of_type("AWS::Lambda::Permission")
        .into_iter()
        .filter(|(_, permission)| permission["Properties"]["Principal"] == "*")
        .map(|(_, permission)| {
            let function = &permission["Properties"]["FunctionName"];
            let public = ["WebhookFunction", "DashboardFunction"];
            assert!(
                public.iter().any(|name| *function == json!({"Ref": name})),
                "{function}"
            );
            let properties = &permission["Properties"];
            let by_url = properties["FunctionUrlAuthType"] == "NONE"
                || properties["InvokedViaFunctionUrl"] == true;
            assert!(by_url, "{properties}");
            properties["Action"].as_str().expect("an action")
        })
        .collect();
    // AWS requires both since October 2025; SAM adds them to a function URL without login.
    let expected = ["lambda:InvokeFunction", "lambda:InvokeFunctionUrl"];
    assert_eq!(public, expected.into());

    let rules = of_type("AWS::Events::Rule");
    assert_eq!(rules.len(), 2);
    for (name, rule) in rules {
        let schedule = &rule["Properties"]["ScheduleExpression"];
        assert_eq!(schedule, "rate(1 minute)", "{name}");
    }
    for function in ["DriftFunction", "CapsuleFunction"] {
        let timeout = properties(function)["Timeout"].as_u64();
        let timeout = timeout.expect("a timeout");
        assert!(
            timeout < 60,
            "{function}: a run ends before the next one begins"
        );
    }
}

#[test]
fn the_bucket_is_closed_and_cleans_up() {
    let bucket = properties("Bucket");
    assert_eq!(bucket["VersioningConfiguration"]["Status"], "Enabled");
    for block in [
        "BlockPublicAcls",
        "BlockPublicPolicy",
        "IgnorePublicAcls",
        "RestrictPublicBuckets",
    ] {
        assert_eq!(
            bucket["PublicAccessBlockConfiguration"][block], true,
            "{block}"
        );
    }
    assert_eq!(
        template()["Resources"]["Bucket"]["DeletionPolicy"],
        "Retain"
    );
    let rules = bucket["LifecycleConfiguration"]["Rules"]
        .as_array()
        .expect("rules");
    assert!(
        rules
            .iter()
            .any(|rule| rule["NoncurrentVersionExpiration"].is_object()
                && rule["ExpiredObjectDeleteMarker"] == true)
    );
}
