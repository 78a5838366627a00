//! A bucket in this process as a source.

use driftless_kernel::ports::{
    AwsIdentity, AzureBucketLogin, BucketLogin, EntraProof, GoogleLogin,
};
use driftless_memory::MemoryBuckets;
use driftless_tests::buckets::*;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// The endpoint of a storage account of Azure.
const AZURE: &str = "https://acme.blob.core.windows.net";

/// Returns a bucket that requires keys.
fn memory() -> MemoryBuckets {
    let buckets = MemoryBuckets::default();
    buckets.create(BUCKET);
    buckets.require(BUCKET, "test", "test");
    buckets
}

#[test]
fn a_bucket_is_a_source_embedded() {
    let buckets = memory();
    let world = World::start(&buckets, Arc::new(buckets.clone()), "s3.acme.example");
    scenario(&world);
}

/// A failure is reported with the words of source-controller; the artifact is kept, and is current
/// again without a download.
#[test]
fn a_bucket_that_fails_keeps_its_artifact_embedded() {
    let buckets = memory();
    let world = World::start(&buckets, Arc::new(buckets.clone()), "s3.acme.example");
    world.hub().namespace("apps");
    world.store.put("apps/one.yaml", &config("one", "green"));
    let wrong = json!({"accesskey": "test"});
    world.hub().secret(SPACE, "half", &wrong);
    let with =
        |name: &str, field: &str, value: Value| world.source(name, |spec| spec[field] = value);
    let mut old = world.source("fleet", |_| {});
    old["apiVersion"] = "source.toolkit.fluxcd.io/v1beta2".into();
    world.push(&[
        old,
        kustomization(),
        with("missing", "bucketName", "nowhere".into()),
        with("half", "secretRef", json!({"name": "half"})),
        with("absent", "secretRef", json!({"name": "absent"})),
        with("stranger", "secretRef", Value::Null),
        world.source("cloud", |spec| {
            spec["provider"] = "azure".into();
            spec["endpoint"] = AZURE.into();
            spec["secretRef"] = Value::Null;
        }),
        world.source("role", |spec| {
            spec["provider"] = "aws".into();
            spec["secretRef"] = Value::Null;
        }),
    ]);
    world.expect("Bucket", "fleet", "True Succeeded");
    for (name, reason, message) in [
        (
            "missing",
            "BucketOperationFailed",
            "bucket 'nowhere' not found",
        ),
        (
            "half",
            "AuthenticationFailed",
            "invalid 'half' secret data: required fields 'accesskey' and 'secretkey'",
        ),
        (
            "absent",
            "AuthenticationFailed",
            "failed to get secret 'flux-system/absent': secrets \"absent\" not found",
        ),
        (
            "stranger",
            "BucketOperationFailed",
            "failed to confirm existence of 'acme-fleet' bucket: ",
        ),
        (
            "cloud",
            "NotSupported",
            "spec.provider 'azure' without a service account is not supported",
        ),
        (
            "role",
            "NotSupported",
            "spec.provider 'aws' without spec.secretRef",
        ),
    ] {
        let (status, found, actual) = ready(world.hub(), "Bucket", SPACE, name);
        assert_eq!((&*status, &*found), ("False", reason), "{name}: {actual}");
        assert!(actual.starts_with(message), "{name}: {actual}");
        let conditions = world.status("Bucket", name)["conditions"].clone();
        let failed = conditions.as_array().into_iter().flatten();
        let mut failed = failed.filter(|one| one["type"] == "FetchFailed");
        assert_eq!(failed.next().expect(name)["reason"], reason);
    }

    let revision = world.revision("fleet");
    buckets.require(BUCKET, "others", "only");
    world.take_requests();
    world.reconcile("Bucket", "fleet");
    world.expect("Bucket", "fleet", "False BucketOperationFailed");
    assert_eq!(world.revision("fleet"), revision);
    assert_eq!(world.data("one"), json!({"color": "green"}));
    buckets.require(BUCKET, "test", "test");
    world.reconcile("Bucket", "fleet");
    world.expect("Bucket", "fleet", "True Succeeded");
    assert_eq!(world.revision("fleet"), revision);
    assert!(
        world
            .take_requests()
            .iter()
            .all(|request| request == "list ")
    );
    let status = world.status("Bucket", "fleet");
    let kinds = status["conditions"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = kinds.map(|one| text(&one["type"])).collect();
    assert_eq!(kinds, ["Ready", "ArtifactInStorage"]);
}

/// Returns a login for messages, with the secrets that it is expected to have.
fn describe(login: &BucketLogin) -> String {
    let text = |secret: &driftless_kernel::ports::Secret| secret.expose_str().unwrap().to_owned();
    match login {
        BucketLogin::AccessKey => "an access key".to_owned(),
        BucketLogin::Aws { identity, sts } => match identity {
            AwsIdentity::Role { arn, session, .. } => format!("{arn} {session} {sts:?}"),
            other => format!("{other:?}"),
        },
        BucketLogin::Ldap(ldap) => {
            format!("{} {} {}", ldap.endpoint, ldap.user, text(&ldap.password))
        }
        BucketLogin::Google(GoogleLogin::Principal(one)) => {
            format!("{} {:?}", one.provider, one.account)
        }
        BucketLogin::Google(GoogleLogin::ServiceAccountKey { email, .. }) => email.clone(),
        BucketLogin::Azure(AzureBucketLogin::Entra(one)) => match &one.proof {
            EntraProof::Token(_) => format!("{} {}", one.tenant, one.client),
            EntraProof::ClientSecret(secret) => {
                format!("{} {} {}", one.tenant, one.client, text(secret))
            }
        },
        BucketLogin::Azure(AzureBucketLogin::AccountKey { account, key }) => {
            format!("{account} {}", text(key))
        }
        BucketLogin::Azure(AzureBucketLogin::Sas(query)) => text(query),
    }
}

fn service_account(world: &World<'_>) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "reader", "namespace": SPACE, "annotations": {
            "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/tenant",
            "azure.workload.identity/client-id": "tenant",
            "azure.workload.identity/tenant-id": "acme.example",
            "gcp.auth.fluxcd.io/workload-identity-provider":
                "projects/1/locations/global/workloadIdentityPools/a/providers/b"}}});
    let path = format!("/api/v1/namespaces/{SPACE}/serviceaccounts");
    let hub = world.hub();
    hub.send("POST", &path, "application/json", Some(&account))
        .unwrap();
}

/// Each provider is read with the login of the object's Secret, or as the identity of its service
/// account.
#[test]
fn buckets_of_clouds_have_logins_of_clouds() {
    let buckets = MemoryBuckets::default();
    buckets.put(BUCKET, "apps/one.yaml", config("one", "green"));
    let world = World::start(&buckets, Arc::new(buckets.clone()), "s3.acme.example");
    world.hub().namespace("apps");
    service_account(&world);
    let key = json!({"type": "service_account", "client_email": "reader@acme.iam.gserviceaccount.com",
        "private_key": "s3cret"});
    for (name, entries) in [
        ("google", json!({"serviceaccount": key.to_string()})),
        (
            "application",
            json!({"tenantId": "acme.example", "clientId": "app", "clientSecret": "s3cret"}),
        ),
        ("account", json!({"accountKey": "a2V5"})),
        ("sas", json!({"sasKey": "?sig=a"})),
        ("ldap", json!({"username": "ann", "password": "s3cret"})),
    ] {
        world.hub().secret(SPACE, name, &entries);
    }
    let secret = |name: &str| json!({"secretRef": {"name": name}});
    let reader = json!({"secretRef": null, "serviceAccountName": "reader"});
    let ldap = json!({"secretRef": null, "sts": {"provider": "ldap", "endpoint": "https://sts.acme.example",
        "secretRef": {"name": "ldap"}}});
    let sts = json!({"secretRef": null, "serviceAccountName": "reader", "region": "eu-west-1",
        "sts": {"provider": "aws", "endpoint": "https://sts.eu-west-1.amazonaws.com"}});
    let role = "arn:aws:iam::1:role/tenant reader.flux-system";
    for (provider, change, expected) in [
        ("gcp", secret("google"), "reader@acme.iam.gserviceaccount.com".to_owned()),
        (
            "gcp",
            reader.clone(),
            "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b None".to_owned(),
        ),
        ("azure", secret("application"), "acme.example app s3cret".to_owned()),
        ("azure", secret("account"), "acme a2V5".to_owned()),
        ("azure", secret("sas"), "sig=a".to_owned()),
        ("azure", reader.clone(), "acme.example tenant".to_owned()),
        ("aws", reader, format!("{role}.us-east-1.fluxcd.io None")),
        (
            "aws",
            sts,
            format!("{role}.eu-west-1.fluxcd.io Some(\"https://sts.eu-west-1.amazonaws.com\")"),
        ),
        ("generic", ldap, "https://sts.acme.example ann s3cret".to_owned()),
    ] {
        world.take_logins();
        let source = world.source("fleet", |spec| {
            spec["provider"] = provider.into();
            if provider == "azure" {
                spec["endpoint"] = AZURE.into();
            }
            for (field, value) in change.as_object().unwrap() {
                spec[field] = value.clone();
            }
        });
        world.push(&[source]);
        world.expect("Bucket", "fleet", "True Succeeded");
        let logins: Vec<String> = world.take_logins().iter().map(describe).collect();
        assert_eq!(logins.last(), Some(&expected), "{provider}");
    }
}

/// A Secret or an account that does not fit is refused with the words of source-controller, and
/// without a byte of the Secret.
#[test]
fn logins_of_clouds_that_do_not_fit_are_refused() {
    let buckets = MemoryBuckets::default();
    buckets.create(BUCKET);
    let world = World::start(&buckets, Arc::new(buckets.clone()), "s3.acme.example");
    for (name, entries) in [
        (
            "other",
            json!({"serviceaccount": r#"{"type": "authorized_user", "private_key": "s3cret"}"#}),
        ),
        ("broken", json!({"serviceaccount": "s3cret"})),
        ("managed", json!({"clientId": "s3cret"})),
        ("half", json!({"tenantId": "s3cret"})),
        (
            "certificate",
            json!({"tenantId": "a", "clientId": "b", "clientCertificate": "s3cret"}),
        ),
    ] {
        world.hub().secret(SPACE, name, &entries);
    }
    let none = Value::Null;
    let secret = |name: &str| json!({"name": name});
    for (provider, secret, account, sts, reason, message) in [
        (
            "gcp",
            secret("other"),
            &none,
            &none,
            "AuthenticationFailed",
            "invalid 'other' secret data: 'serviceaccount' must contain a service account key with 'type' set to 'service_account'",
        ),
        (
            "gcp",
            secret("broken"),
            &none,
            &none,
            "AuthenticationFailed",
            "invalid 'broken' secret data: failed to parse 'serviceaccount' as JSON",
        ),
        (
            "gcp",
            secret("half"),
            &none,
            &none,
            "AuthenticationFailed",
            "invalid 'half' secret data: required fields 'serviceaccount'",
        ),
        (
            "gcp",
            none.clone(),
            &none,
            &none,
            "NotSupported",
            "spec.provider 'gcp' without a service account",
        ),
        (
            "azure",
            secret("managed"),
            &none,
            &none,
            "NotSupported",
            "the secret 'managed' has clientId without tenantId",
        ),
        (
            "azure",
            secret("half"),
            &none,
            &none,
            "AuthenticationFailed",
            "invalid 'half' secret data: requires a 'clientId' or 'accountKey' field",
        ),
        (
            "azure",
            secret("certificate"),
            &none,
            &none,
            "NotSupported",
            "the entry 'clientCertificate'",
        ),
        (
            "aws",
            none.clone(),
            &json!("absent"),
            &none,
            "AuthenticationFailed",
            "failed to get service account 'flux-system/absent'",
        ),
        (
            "generic",
            none.clone(),
            &none,
            &json!({"provider": "ldap", "endpoint": "https://sts.acme.example",
            "secretRef": {"name": "half"}}),
            "AuthenticationFailed",
            "invalid 'half' secret data for 'ldap' STS provider: required fields username, password",
        ),
    ] {
        let source = world.source("fleet", |spec| {
            spec["provider"] = provider.into();
            if provider == "azure" {
                spec["endpoint"] = AZURE.into();
            }
            spec["secretRef"] = secret.clone();
            spec["serviceAccountName"] = account.clone();
            spec["sts"] = sts.clone();
        });
        world.push(&[source]);
        let (_, found, actual) = ready(world.hub(), "Bucket", SPACE, "fleet");
        assert_eq!(found, reason, "{provider}: {actual}");
        assert!(actual.starts_with(message), "{provider}: {actual}");
        assert!(!actual.contains("s3cret"), "{actual}");
    }
}
