//! Admission policies: the requests that they apply to, their answers, and their changes. The
//! messages are those of k8s.io/apiserver 0.36 (pkg/admission/plugin/policy).

use super::client::Client;
use driftless_apiserver::Response;
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

impl Client {
    /// Sends an object; a patch is an apply.
    fn submit(&mut self, method: &str, target: &str, body: &Value) -> Response {
        let media = match method {
            "PATCH" => "application/apply-patch+yaml",
            _ => "application/json",
        };
        let body = match body.is_null() {
            true => String::new(),
            false => body.to_string(),
        };
        self.ask(method, target, media, body.as_bytes())
    }

    fn make(&mut self, target: &str, body: &Value) -> Value {
        let response = self.submit("POST", target, body);
        let value = response.value().unwrap().clone();
        assert_eq!(response.status, 201, "{value}");
        value
    }

    /// Creates a validating policy for ConfigMaps, and its binding.
    fn policy(&mut self, spec: Value, actions: &[&str]) {
        self.bound("validating", spec, json!({"validationActions": actions}));
    }

    fn bound(&mut self, kind: &str, mut spec: Value, mut binding: Value) {
        if spec["matchConstraints"].is_null() {
            spec["matchConstraints"] = json!({"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }]});
        }
        binding["policyName"] = "rule".into();
        let title = if kind == "validating" {
            "Validating"
        } else {
            "Mutating"
        };
        self.make(&format!("{POLICIES}/{kind}admissionpolicies"), &json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{title}AdmissionPolicy"),
            "metadata": {"name": "rule"}, "spec": spec,
        }));
        self.make(&format!("{POLICIES}/{kind}admissionpolicybindings"), &json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{title}AdmissionPolicyBinding"),
            "metadata": {"name": "bound"}, "spec": binding,
        }));
    }

    /// Creates an object. Returns the HTTP status, the message, and the warnings.
    fn create(&mut self, object: &Value) -> (u16, String, Vec<String>) {
        outcome(&self.submit("POST", MAPS, object))
    }
}

fn outcome(response: &Response) -> (u16, String, Vec<String>) {
    let message = response.value().unwrap()["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let warnings = response
        .headers
        .iter()
        .filter(|(name, _)| name == "Warning");
    (
        response.status,
        message,
        warnings.map(|(_, text)| text.clone()).collect(),
    )
}

fn map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

#[test]
fn a_validation_denies_with_the_message_of_the_real_server() {
    for (validation, status, reason, detail) in [
        (
            json!({"expression": "has(object.data)"}),
            422,
            "Invalid",
            "failed expression: has(object.data)",
        ),
        (
            json!({"expression": "has(object.data)", "message": " no data "}),
            422,
            "Invalid",
            "no data",
        ),
        (
            json!({"expression": "has(object.data)", "message": "x", "reason": "Forbidden",
                   "messageExpression": "object.metadata.name + ' of ' + request.userInfo.username"}),
            403,
            "Forbidden",
            "a of admin",
        ),
        (
            json!({"expression": "object.data.x == 'y'"}),
            422,
            "Invalid",
            "expression 'object.data.x == 'y'' resulted in error: no such key: data",
        ),
    ] {
        let mut client = Client::new();
        client.policy(json!({"validations": [validation]}), &["Deny"]);
        let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let response = client.submit("POST", MAPS, &bare);
        let answer = response.value().unwrap();
        let denied = format!(
            "ValidatingAdmissionPolicy 'rule' with binding 'bound' denied request: {detail}"
        );
        assert_eq!(response.status, status, "{answer}");
        assert_eq!(answer["reason"], reason);
        assert_eq!(
            answer["message"],
            format!("configmaps \"a\" is forbidden: {denied}")
        );
        assert_eq!(answer["details"]["causes"], json!([{"message": denied}]));
        let dry = client.submit(
            "PATCH",
            &format!("{MAPS}/a?fieldManager=t&dryRun=All"),
            &bare,
        );
        assert_eq!(dry.status, status);
        assert_eq!(client.create(&map("b", json!({"x": "y"}))).0, 201);
    }
}

#[test]
fn warnings_audits_conditions_and_failure_policies() {
    let refuse = json!([{"expression": "false", "message": "never"}]);
    let mut client = Client::new();
    client.policy(json!({"validations": refuse}), &["Warn", "Audit"]);
    let (status, _, warnings) = client.create(&map("a", json!({})));
    assert_eq!(status, 201);
    assert_eq!(
        warnings,
        [
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'rule' with binding 'bound': never\""
        ]
    );
    let broken = "object.data.nothing == 'x'";
    for (spec, status) in [
        (
            json!({"validations": refuse, "matchConditions": [{"name": "c", "expression": "object.metadata.name != 'a'"}]}),
            201,
        ),
        (
            json!({"validations": [{"expression": broken}], "failurePolicy": "Ignore"}),
            201,
        ),
        (json!({"validations": [{"expression": broken}]}), 422),
        (
            json!({"validations": [{"expression": "variables.ok || variables.bad == 1"}],
                "variables": [{"name": "ok", "expression": "true"}, {"name": "bad", "expression": broken}]}),
            201,
        ),
        (
            json!({"validations": [{"expression": "authorizer.group('').resource('pods').namespace('default').check('create').allowed()"}]}),
            201,
        ),
        (
            json!({"validations": [{"expression": "authorizer.serviceAccount('default', 'x').requestResource.check('get').allowed()"}]}),
            422,
        ),
        (
            json!({"validations": [{"expression": "namespaceObject.metadata.name == request.namespace && request.operation == 'CREATE' && oldObject == null"}]}),
            201,
        ),
    ] {
        let mut client = Client::new();
        client.policy(spec.clone(), &["Deny"]);
        let found = client.create(&map("a", json!({})));
        assert_eq!(found.0, status, "{spec}: {found:?}");
    }
}

#[test]
fn a_policy_applies_to_the_requests_that_its_constraints_select() {
    let rule = |change: Value| {
        let mut rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]});
        for (key, value) in change.as_object().unwrap() {
            rule[key] = value.clone();
        }
        rule
    };
    for (constraints, concerned) in [
        (json!({"resourceRules": [rule(json!({}))]}), true),
        (
            json!({"resourceRules": [rule(json!({"resources": ["secrets"]}))]}),
            false,
        ),
        (
            json!({"resourceRules": [rule(json!({"resources": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}))]}),
            true,
        ),
        (
            json!({"resourceRules": [rule(json!({"operations": ["UPDATE"]}))]}),
            false,
        ),
        (
            json!({"resourceRules": [rule(json!({"scope": "Cluster"}))]}),
            false,
        ),
        (
            json!({"resourceRules": [rule(json!({"resourceNames": ["b"]}))]}),
            false,
        ),
        (
            json!({"resourceRules": [rule(json!({}))], "excludeResourceRules": [rule(json!({"resourceNames": ["a"]}))]}),
            false,
        ),
        (
            json!({"resourceRules": [rule(json!({}))], "objectSelector": {"matchLabels": {"x": "y"}}}),
            false,
        ),
        (
            json!({"resourceRules": [rule(json!({}))], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            true,
        ),
        (
            json!({"resourceRules": [rule(json!({}))], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}),
            false,
        ),
    ] {
        let mut client = Client::new();
        client.policy(
            json!({"matchConstraints": constraints, "validations": [{"expression": "false"}]}),
            &["Deny"],
        );
        let found = client.create(&map("a", json!({})));
        assert_eq!(found.0 == 422, concerned, "{constraints}: {found:?}");
    }
    let mut client = Client::new();
    client.make(MAPS, &map("a", json!({"keep": "yes"})));
    client.policy(json!({"validations": [{"expression": "request.operation != 'DELETE' || oldObject.data.keep != 'yes'"}]}), &["Deny"]);
    assert_eq!(
        client
            .submit("DELETE", &format!("{MAPS}/a"), &Value::Null)
            .status,
        422
    );
}

#[test]
fn parameters_are_found_by_name_and_selector() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "params != null && object.data.size() <= int(params.metadata.labels.most)"}],
    });
    for (reference, status, message) in [
        (
            json!({"name": "limits", "parameterNotFoundAction": "Deny"}),
            422,
            "failed expression",
        ),
        (
            json!({"selector": {"matchLabels": {"most": "1"}}, "parameterNotFoundAction": "Deny"}),
            422,
            "failed expression",
        ),
        (
            json!({"name": "absent", "parameterNotFoundAction": "Allow"}),
            201,
            "",
        ),
        (
            json!({"name": "absent", "parameterNotFoundAction": "Deny"}),
            422,
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
    ] {
        let mut client = Client::new();
        client.make("/api/v1/namespaces/default/secrets", &json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "limits", "labels": {"most": "1"}},
        }));
        client.bound(
            "validating",
            spec.clone(),
            json!({"validationActions": ["Deny"], "paramRef": reference}),
        );
        let found = client.create(&map("a", json!({"b": "1", "c": "2"})));
        assert_eq!(found.0, status, "{reference}: {found:?}");
        assert!(found.1.contains(message), "{found:?}");
    }
}

#[test]
fn mutations_change_objects_before_they_are_validated() {
    for (mutation, expected) in [
        (
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: {'team': object.data.team}}}"}}),
            Ok(json!({"team": "x"})),
        ),
        (
            json!({"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: 'test', path: '/data/team', value: 'x'}, JSONPatch{op: 'add', path: '/metadata/labels', value: {'from': 'patch'}}]"}}),
            Ok(json!({"from": "patch"})),
        ),
        (
            json!({"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: 'test', path: '/data/team', value: 'z'}, JSONPatch{op: 'add', path: '/metadata/labels', value: {'from': 'patch'}}]"}}),
            Ok(Value::Null),
        ),
        (
            json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/data/none'}]"}}),
            Err("policy 'rule' with binding 'bound' denied request: JSON Patch: "),
        ),
    ] {
        let mut client = Client::new();
        let spec = json!({"mutations": [mutation], "reinvocationPolicy": "Never"});
        client.bound("mutating", spec, json!({}));
        let response = client.submit("POST", MAPS, &map("a", json!({"team": "x"})));
        let answer = response.value().unwrap();
        match expected {
            Ok(labels) => assert_eq!(answer["metadata"]["labels"], labels, "{answer}"),
            Err(message) => assert!(
                answer["message"].as_str().unwrap().starts_with(message),
                "{answer}"
            ),
        }
    }
}

#[test]
fn policies_that_do_not_compile_are_refused() {
    let mut client = Client::new();
    let response = client.submit("POST", &format!("{POLICIES}/validatingadmissionpolicies"), &json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "rule"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"],
            }]},
            "validations": [{"expression": "nothing == 1"}],
        },
    }));
    assert_eq!(response.status, 422);
    assert_eq!(
        response.value().unwrap()["message"],
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"rule\" is invalid: spec.validations[0].expression: Invalid value: \"nothing == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing == 1\n | ^"
    );
}
