//! Actions of controllers and platform teams in a real fleet.

use std::sync::{MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Cluster;
use super::certificates::ClientAuthority;

impl Cluster {
    /// Returns a kubeconfig for the administrator, with all data inline.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_with_token(self.token())
    }

    /// Returns a kubeconfig with another bearer token.
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        self.kubeconfig_of(&format!("token: {token}"))
    }

    /// Returns a kubeconfig with a client certificate of a user in a group, as kubeadm and Kamaji
    /// write it.
    pub fn kubeconfig_with_certificate(&self, user: &str, group: &str) -> String {
        let (certificate, key) = self.clients().sign(user, group);
        let (certificate, key) = (STANDARD.encode(certificate), STANDARD.encode(key));
        self.kubeconfig_of(&format!(
            "client-certificate-data: {certificate}\n    client-key-data: {key}"
        ))
    }

    /// Replaces the authority of the client certificates: the server refuses the certificates that
    /// were signed so far as soon as it has read the new authority.
    pub fn rotate_clients(&self) {
        *self.clients() = ClientAuthority::write(self.directory.path());
    }

    fn clients(&self) -> MutexGuard<'_, ClientAuthority> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kubeconfig_of(&self, user: &str) -> String {
        let (name, url, ca) = (self.name(), self.url(), STANDARD.encode(self.ca()));
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
             clusters:\n- name: {name}\n  cluster:\n    server: {url}\n    certificate-authority-data: {ca}\n\
             users:\n- name: {name}\n  user:\n    {user}\n\
             contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n"
        )
    }

    /// Stores `remote`'s kubeconfig in a Secret on this cluster, key `value`.
    pub fn add_remote(&self, namespace: &str, secret: &str, remote: &Cluster) {
        self.api()
            .apply(
                &format!("/api/v1/namespaces/{namespace}/secrets/{secret}"),
                "platform-team",
                &json!({
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": secret, "namespace": namespace},
                    "data": {"value": STANDARD.encode(remote.kubeconfig())},
                }),
            )
            .unwrap_or_else(|e| panic!("store the kubeconfig of {}: {e}", remote.name()));
    }

    /// Creates a namespace if it does not exist.
    pub fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api()
            .apply(
                &format!("/api/v1/namespaces/{name}"),
                "platform-team",
                &object,
            )
            .unwrap_or_else(|e| panic!("make the namespace {name}: {e}"));
    }

    /// Returns a token of a service account; creates the account if it does not exist.
    pub fn service_account_token(&self, namespace: &str, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}");
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        let request =
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let api = self.api();
        let answer = api
            .apply(&path, "platform-team", &account)
            .and_then(|_| api.create(&format!("{path}/token"), &request))
            .unwrap_or_else(|e| panic!("a token of {namespace}/{name}: {e}"));
        answer["status"]["token"]
            .as_str()
            .expect("a token")
            .to_owned()
    }

    /// Writes the status that the Deployment controller writes when all
    /// replicas of the newest generation are available.
    pub fn make_ready(&self, namespace: &str, deployment: &str) {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}");
        let result = self.api().get(&path).and_then(|object| {
            let status = json!({"status": ready_status(&object)});
            self.api().patch(&format!("{path}/status"), &status)
        });
        if let Err(e) = result {
            panic!("make the Deployment {namespace}/{deployment} ready: {e}");
        }
    }

    /// Plays the controllers of Deployments and Jobs in a namespace: sets all
    /// Deployments available and all Jobs complete. An object that is deleted
    /// meanwhile is ignored.
    pub fn run_workloads(&self, namespace: &str) {
        let kinds: [(&str, &str, Status); 2] = [
            ("apps", "deployments", ready_status),
            ("batch", "jobs", succeeded_status),
        ];
        for (group, kind, status) in kinds {
            let path = format!("/apis/{group}/v1/namespaces/{namespace}/{kind}");
            let objects = self.api().list(&path);
            for object in objects.unwrap_or_else(|e| panic!("list {path}: {e}")) {
                let status = status(&object);
                if has_status(&status, &object["status"]) {
                    continue;
                }
                let name = object["metadata"]["name"].as_str().expect("a name");
                let path = format!("{path}/{name}/status");
                match self.api().patch(&path, &json!({ "status": status })) {
                    Err(e) if e.code != 404 => panic!("{path}: {e}"),
                    _ => {}
                }
            }
        }
    }

    /// Removes the `kubernetes` finalizer of a namespace in deletion, which the
    /// namespace controller does once the namespace is empty.
    pub fn finish_namespace(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{name}");
        let result = self.api().get(&path).and_then(|mut object| {
            assert!(
                object["metadata"]["deletionTimestamp"].is_string(),
                "the namespace {name} is not in deletion"
            );
            object["spec"]["finalizers"] = json!([]);
            self.api().replace(&format!("{path}/finalize"), &object)
        });
        if let Err(e) = result {
            panic!("finish the deletion of the namespace {name}: {e}");
        }
    }
}

/// Returns the status that a controller writes for an object.
type Status = fn(&Value) -> Value;

/// Returns whether the live status has all fields of `status`, except for the conditions.
fn has_status(status: &Value, live: &Value) -> bool {
    let mut fields = status.as_object().into_iter().flatten();
    fields.all(|(field, value)| field == "conditions" || live[field] == *value)
}

/// Returns the status of a Job whose one Pod succeeded.
fn succeeded_status(job: &Value) -> Value {
    let then = &job["metadata"]["creationTimestamp"];
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"});
    json!({
        "startTime": then,
        "completionTime": then,
        "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    })
}

/// Returns the status of a Deployment whose replicas are all available.
fn ready_status(deployment: &Value) -> Value {
    let replicas = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": reason});
    json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "conditions": [
            condition("Available", "MinimumReplicasAvailable"),
            condition("Progressing", "NewReplicaSetAvailable"),
        ],
    })
}
