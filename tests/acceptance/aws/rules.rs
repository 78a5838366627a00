//! Rules of security that cfn-lint does not know, for the translated template.

use super::template::{list, of_type, properties, template, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The key of the parameter `EncryptionKey`; none if it is empty.
fn customer_key() -> Value {
    let own = json!({"Fn::GetAtt": ["Key", "Arn"]});
    let key = json!({"Fn::If": ["StackKey", own, {"Ref": "EncryptionKey"}]});
    json!({"Fn::If": ["CustomerKey", key, {"Ref": "AWS::NoValue"}]})
}

/// Returns `without` if AWS has the keys, else `with`.
fn by_key(with: impl Into<Value>, without: impl Into<Value>) -> Value {
    json!({"Fn::If": ["CustomerKey", with.into(), without.into()]})
}

#[test]
fn whatever_is_stored_is_encrypted_by_the_key_of_the_parameter() {
    let none = || json!({"Ref": "AWS::NoValue"});
    for (name, queue) in of_type("AWS::SQS::Queue") {
        let queue = &queue["Properties"];
        assert_eq!(queue["KmsMasterKeyId"], customer_key(), "{name}");
        assert_eq!(
            queue["SqsManagedSseEnabled"],
            by_key(none(), true),
            "{name}"
        );
    }
    for (name, logs) in of_type("AWS::Logs::LogGroup") {
        let logs = &logs["Properties"];
        assert_eq!(logs["KmsKeyId"], customer_key(), "{name}");
        assert_eq!(
            logs["RetentionInDays"],
            json!({"Ref": "LogRetentionDays"}),
            "{name}"
        );
    }
    let buckets = of_type("AWS::S3::Bucket");
    assert_eq!(buckets.len(), 1);
    let rule = &properties("Bucket")["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    let default = &rule["ServerSideEncryptionByDefault"];
    assert_eq!(default["SSEAlgorithm"], by_key("aws:kms", "AES256"));
    assert_eq!(default["KMSMasterKeyID"], customer_key());
    assert_eq!(rule["BucketKeyEnabled"], by_key(true, none()));
}

/// The retained bucket cannot be read without its key. Only CloudWatch Logs uses the key in its own
/// name, for the stack's log groups.
#[test]
fn the_key_is_rotated_retained_and_used_through_services() {
    let key = &template()["Resources"]["Key"];
    assert_eq!(
        (&key["Condition"], &key["DeletionPolicy"]),
        (&json!("StackKey"), &json!("Retain"))
    );
    assert_eq!(key["Properties"]["EnableKeyRotation"], true);
    let statements = list(&key["Properties"]["KeyPolicy"]["Statement"]);
    assert_eq!(statements.len(), 2);
    let logs = &statements[1]["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"];
    assert!(
        text(logs).ends_with(":log-group:${AWS::StackName}-*"),
        "{logs}"
    );

    let policy = properties("UseTheKey");
    let statement = &policy["PolicyDocument"]["Statement"][0];
    assert_eq!(
        statement["Action"],
        json!(["kms:Decrypt", "kms:GenerateDataKey"])
    );
    let services = &statement["Condition"]["StringEquals"]["kms:ViaService"];
    let services: BTreeSet<String> = list(services).into_iter().map(text).collect();
    let expected = ["s3", "secretsmanager", "sqs"];
    let expected = expected.map(|service| format!("{service}.${{AWS::Region}}.amazonaws.com"));
    assert_eq!(services, expected.into());
    // Every function reads an encrypted bucket, and Lambda receives from the queues with its role.
    is_for_every_role("UseTheKey");
}

/// Checks that a policy is attached to each role of the template.
fn is_for_every_role(policy: &str) {
    let roles = properties(policy)["Roles"].to_string();
    for (name, _) in of_type("AWS::IAM::Role") {
        let reference = json!({"Ref": name}).to_string();
        assert!(roles.contains(&reference), "{policy}: {name}");
    }
}

#[test]
fn every_function_is_traced_by_the_parameter() {
    for (name, function) in of_type("AWS::Lambda::Function") {
        let mode = &function["Properties"]["TracingConfig"]["Mode"];
        assert_eq!(mode, &json!({"Ref": "Tracing"}), "{name}");
    }
    assert_eq!(template()["Resources"]["SendTraces"]["Condition"], "Traced");
    is_for_every_role("SendTraces");
}

/// Actions whose services have no resources that a policy could name.
const WITHOUT_RESOURCE: [&str; 5] = [
    "ecr-public:GetAuthorizationToken",
    "ecr:GetAuthorizationToken",
    "sts:GetServiceBearerToken",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
];

#[test]
fn no_right_has_a_wildcard_for_its_action_or_all_resources() {
    let of_roles = of_type("AWS::IAM::Role")
        .into_iter()
        .flat_map(|(name, role)| {
            let policies = list(&role["Properties"]["Policies"]).into_iter();
            policies.map(move |policy| (name, policy))
        });
    let alone = of_type("AWS::IAM::Policy").into_iter();
    let alone = alone.map(|(name, policy)| (name, &policy["Properties"]));
    let mut count = 0;
    for (name, policy) in of_roles.chain(alone) {
        for statement in list(&policy["PolicyDocument"]["Statement"]) {
            if statement["Effect"] == "Deny" {
                continue;
            }
            for action in list(&statement["Action"]).into_iter().map(text) {
                count += 1;
                assert!(!action.contains('*'), "{name}: {action}");
                let is_broad = list(&statement["Resource"]).contains(&&json!("*"));
                let expected = WITHOUT_RESOURCE.contains(&action.as_str());
                assert_eq!(is_broad, expected, "{name}: {action}");
            }
        }
    }
    assert!(count > 50, "{count}");
}

/// A message that fails repeatedly is kept. A sweep is requested again each minute instead.
#[test]
fn every_queue_of_work_has_the_dead_letter_queue() {
    let target = json!({"Fn::GetAtt": ["DeadLetterQueue", "Arn"]});
    for (name, queue) in of_type("AWS::SQS::Queue") {
        let found = &queue["Properties"]["RedrivePolicy"]["deadLetterTargetArn"];
        let expected = match name.as_str() {
            "SweepQueue" | "DeadLetterQueue" => &Value::Null,
            _ => &target,
        };
        assert_eq!(found, expected, "{name}");
    }
}

/// Without a log group in the template, Lambda would create one without encryption and without an
/// end.
#[test]
fn every_function_writes_its_log_group() {
    for (name, function) in of_type("AWS::Lambda::Function") {
        let logs = name.replace("Function", "Logs");
        let group = &function["Properties"]["LoggingConfig"]["LogGroup"];
        assert_eq!(group, &json!({"Ref": logs}), "{name}");
        properties(&logs);
    }
}

#[test]
fn the_bucket_and_every_queue_refuse_requests_without_tls() {
    let refuses = |policy: &Value, action: &str, resources: &[Value]| {
        let statement = &policy["PolicyDocument"]["Statement"][0];
        let expected = json!({"Bool": {"aws:SecureTransport": "false"}});
        statement["Effect"] == "Deny"
            && statement["Principal"] == "*"
            && statement["Action"] == action
            && statement["Condition"] == expected
            && list(&statement["Resource"]) == resources.iter().collect::<Vec<_>>()
    };
    let arn = |name: &str| json!({"Fn::GetAtt": [name, "Arn"]});
    for (name, queue) in of_type("AWS::SQS::Queue") {
        let policy = &template()["Resources"][format!("{name}Policy")];
        assert_eq!(policy["Condition"], queue["Condition"], "{name}");
        let policy = &policy["Properties"];
        assert_eq!(policy["Queues"], json!([{"Ref": name}]));
        assert!(refuses(policy, "sqs:*", &[arn(name)]), "{name}: {policy}");
    }
    let objects = json!({"Fn::Sub": "${Bucket.Arn}/*"});
    let policy = properties("BucketPolicy");
    assert!(
        refuses(policy, "s3:*", &[arn("Bucket"), objects]),
        "{policy}"
    );
}
