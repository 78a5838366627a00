//! MiniStack plays AWS as the tests need it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use driftless_harness::aws::{Messages, MiniStack};
use driftless_harness::http::Http;
use driftless_harness::process::PATIENCE;
use driftless_harness::tools;
use serde_json::{Value, json};

/// A function that needs no build: it returns the results of a call that its role
/// allows and of one that it does not.
const PROBE: &str = r#"#!/bin/sh
api="http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/invocation"
PYTHON -c '
import json, os, urllib.request, botocore.session, botocore.exceptions
api = "http://%s/2018-06-01/runtime/invocation/" % os.environ["AWS_LAMBDA_RUNTIME_API"]
session = botocore.session.get_session()
def outcome(service, operation, **parameters):
    try:
        getattr(session.create_client(service), operation)(**parameters)
        return "allowed"
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
while True:
    event = urllib.request.urlopen(api + "next")
    id = event.headers["Lambda-Runtime-Aws-Request-Id"]
    batch = "Records" in json.loads(event.read())
    bucket, queue = os.environ["DRIFTLESS_BUCKET"], os.environ["DRIFTLESS_QUEUE_URL"]
    answer = {} if batch else {
        "send": outcome("sqs", "send_message", QueueUrl=queue, MessageBody="{}"),
        "send batch": outcome("sqs", "send_message_batch", QueueUrl=queue, Entries=[{"Id": "a", "MessageBody": "{}"}]),
        "write": outcome("s3", "put_object", Bucket=bucket, Key="state/x", Body=b"x"),
        "read": outcome("s3", "get_object", Bucket=bucket, Key="index/x"),
        "list": outcome("s3", "list_objects_v2", Bucket=bucket, Prefix="index/"),
        "list all": outcome("s3", "list_objects_v2", Bucket=bucket),
        "list hubs": outcome("s3", "list_objects_v2", Bucket=bucket, Prefix="hubs/"),
        "foreign": outcome("secretsmanager", "get_secret_value", SecretId="driftless/hubs/one"),
        "own": outcome("secretsmanager", "get_secret_value", SecretId="driftless/github/webhook"),
        "github": os.environ.get("DRIFTLESS_GITHUB_API", ""),
    }
    body = json.dumps(answer).encode()
    urllib.request.urlopen(urllib.request.Request(api + id + "/response", data=body, method="POST"))
'
"#;

/// A function that needs no build: it returns the secrets of a list that its role may read.
const READER: &str = r#"#!/bin/sh
PYTHON -c '
import json, os, urllib.request, botocore.session, botocore.exceptions
api = "http://%s/2018-06-01/runtime/invocation/" % os.environ["AWS_LAMBDA_RUNTIME_API"]
client = botocore.session.get_session().create_client("secretsmanager")
def may_read(name):
    try:
        client.get_secret_value(SecretId=os.environ["DRIFTLESS_SECRETS_PREFIX"] + name)
        return True
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] != "AccessDeniedException":
            raise
        return False
while True:
    event = urllib.request.urlopen(api + "next")
    id = event.headers["Lambda-Runtime-Aws-Request-Id"]
    names = json.loads(event.read()).get("secrets", [])
    answer = {"hub": os.environ.get("DRIFTLESS_HUB"), "read": [name for name in names if may_read(name)]}
    body = json.dumps(answer).encode()
    urllib.request.urlopen(urllib.request.Request(api + id + "/response", data=body, method="POST"))
'
"#;

/// Writes a program of this text, which Python runs, as the code of functions.
fn program(directory: &Path, text: &str) -> PathBuf {
    let file = directory.join("bootstrap");
    let python = tools::MINISTACK.python().display().to_string();
    std::fs::write(&file, text.replace("PYTHON", &python)).expect("write the program");
    file
}

#[test]
fn the_stack_of_one_hub_reads_no_secret_of_another() {
    let ministack = MiniStack::start();
    let aws = ministack.aws();
    // The third hub's name begins with that of the stack's hub, and has the form of the six
    // characters that Secrets Manager adds to a name.
    let hubs = ["staging", "production", "staging-abcdef"];
    let names = |hub: &str| {
        [
            format!("hubs/{hub}"),
            format!("remotes/{hub}/apps/edge"),
            format!("tenants/{hub}/apps"),
        ]
    };
    let mut secrets: Vec<String> = hubs.into_iter().flat_map(names).collect();
    secrets.push("github/token".to_owned());
    for name in &secrets {
        aws.put_secret(&format!("driftless/{name}"), "secret");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let reader = program(directory.path(), READER);
    let [hub, remote, tenant] = names("staging");
    let token = "github/token".to_owned();
    let expected = [
        ("WebhookFunction", vec![&hub]),
        ("ReconcileFunction", vec![&hub, &remote, &tenant, &token]),
        ("DriftFunction", vec![&hub, &remote, &tenant, &token]),
        ("CapsuleFunction", vec![&hub]),
        ("DashboardFunction", vec![&hub]),
        ("PlanFunction", vec![&hub, &remote, &tenant, &token]),
    ];
    let parameters = [
        ("Hub", "staging"),
        ("Capsule", "true"),
        ("Receivers", "true"),
        ("Plans", "true"),
        ("Dashboard", "github"),
    ];
    let stack = ministack.deploy(
        "staging",
        &tools::workspace().join("infra/template.yaml"),
        &parameters,
        &expected
            .each_ref()
            .map(|(function, _)| (*function, reader.clone())),
    );
    for (function, expected) in expected {
        let event = json!({"secrets": secrets});
        let answer = aws.invoke(stack.output(function), &event);
        let answer = answer.unwrap_or_else(|error| panic!("{error:?}\n{}", ministack.log_tail()));
        assert_eq!(
            answer,
            json!({"hub": "staging", "read": expected}),
            "{function}"
        );
    }
}

#[test]
fn the_template_deploys_and_its_roles_are_enforced() {
    let ministack = MiniStack::start();
    let aws = ministack.aws();
    aws.put_secret("driftless/github/webhook", "secret");
    aws.put_secret("driftless/hubs/one", "kubeconfig");

    let directory = tempfile::tempdir().expect("a directory");
    let probe = program(directory.path(), PROBE);
    let functions = [
        "WebhookFunction",
        "ReconcileFunction",
        "IsolatedFunction",
        "DriftFunction",
    ];
    let subnets = aws.must("ec2", "describe_subnets", json!({}));
    let subnet = &subnets["Subnets"][0];
    let groups = aws.must("ec2", "describe_security_groups", json!({}));
    let tables = aws.must("ec2", "describe_route_tables", json!({}));
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let stack = ministack.deploy(
        "driftless",
        &tools::workspace().join("infra/template.yaml"),
        &[
            ("GitHubApi", "http://127.0.0.1:1"),
            ("EncryptionKey", "stack"),
            ("AlarmTopic", "arn:aws:sns:us-east-1:000000000000:alarms"),
            ("SubnetIds", &text(&subnet["SubnetId"])),
            ("VpcId", &text(&subnet["VpcId"])),
            (
                "SecurityGroupIds",
                &text(&groups["SecurityGroups"][0]["GroupId"]),
            ),
            (
                "RouteTableIds",
                &text(&tables["RouteTables"][0]["RouteTableId"]),
            ),
        ],
        &functions.map(|function| (function, probe.clone())),
    );
    let endpoints = aws.must("ec2", "describe_vpc_endpoints", json!({}));
    assert_eq!(endpoints["VpcEndpoints"].as_array().map(Vec::len), Some(4));
    // MiniStack does not connect a function to its subnets; the role may.
    let role = stack.output("ReconcileRole").rsplit('/').next();
    let policies = aws.must(
        "iam",
        "list_attached_role_policies",
        json!({"RoleName": role}),
    );
    let managed = &policies["AttachedPolicies"][0]["PolicyName"];
    assert_eq!(managed, "AWSLambdaVPCAccessExecutionRole");
    let bucket = stack.output("Bucket");
    // MiniStack does not read the encryption of a bucket from a template.
    let attributes = json!({"QueueUrl": stack.output("QueueUrl"), "AttributeNames": ["All"]});
    let attributes = aws.must("sqs", "get_queue_attributes", attributes);
    let key = &attributes["Attributes"]["KmsMasterKeyId"];
    let key = aws.must("kms", "describe_key", json!({"KeyId": key}));
    assert_eq!(key["KeyMetadata"]["Enabled"], true);
    aws.put_object(bucket, "index/x", b"{}");
    // MiniStack has no alarms on queries.
    let alarms = aws.must("cloudwatch", "describe_alarms", json!({}));
    assert_eq!(alarms["MetricAlarms"].as_array().map(Vec::len), Some(5));
    let name = json!({"DashboardName": "driftless-us-east-1"});
    let shown = aws.must("cloudwatch", "get_dashboard", name);
    let body = shown["DashboardBody"].as_str().expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    let metric = &body["widgets"][1]["properties"]["metrics"][0][3];
    assert_eq!(metric, "driftless-steps", "{body}");

    let url = ministack.reach(stack.output("WebhookUrl"));
    let answer = Http::plain().post(&url, &json!({}));
    assert_eq!(
        answer.status,
        200,
        "{}\n{}",
        answer.text(),
        ministack.log_tail()
    );
    let expected = json!({
        "send": "allowed",
        "send batch": "allowed",
        "write": "AccessDenied",
        "read": "AccessDenied",
        "list": "allowed",
        "list all": "AccessDenied",
        "list hubs": "AccessDenied",
        "foreign": "AccessDeniedException",
        "own": "allowed",
        "github": "http://127.0.0.1:1",
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(aws.keys(bucket, ""), ["index/x"]);

    // The functions of both queues take the messages and return no failures: they are deleted from
    // the queue. A standard queue accepts messages with a group.
    let queues = ["QueueUrl", "IsolatedQueueUrl"].map(|name| stack.output(name));
    for url in queues {
        let message = json!({"QueueUrl": url, "MessageBody": "{}", "MessageGroupId": "eu/team-a"});
        aws.must("sqs", "send_message", message);
    }
    let start = Instant::now();
    while queues
        .iter()
        .any(|url| aws.messages(url) != Messages::default())
    {
        let tail = ministack.log_tail();
        assert!(
            start.elapsed() < PATIENCE,
            "the messages stay in the queue:\n{tail}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
