//! Logins to clouds, compared with Flux's own library: the requests that it sends to each host, and
//! the login that it makes of the answers. One test server plays every host for the library, and
//! another one for driftless.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::Response;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftless_adapters::aws::{AwsLogins, settings_at};
use driftless_adapters::clouds::{AzureLogins, CloudHosts, GoogleLogins};
use driftless_harness::library::Library;
use driftless_harness::tools;
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, ClusterEndpoint, EcrRegistry, EntraIdentity,
    EntraProof, GkeCluster, Google, GoogleIdentity, RegistryLogin, Secret, Token,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TENANT: &str = "00000000-0000-0000-0000-000000000001";
const PROVIDER: &str = "projects/1/locations/global/workloadIdentityPools/a/providers/b";
const AKS: &str = "/subscriptions/00000000-0000-0000-0000-000000000002/resourceGroups/apps/providers/Microsoft.ContainerService/managedClusters/prod";
const GKE: &str = "projects/acme/locations/europe-west1/clusters/prod";

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time")
}

/// Returns what Flux's library answers to a case.
fn judge(case: &Value) -> Value {
    let mut library = Library::start(&tools::CLOUDS);
    library.ask(case);
    let answer = library.answer();
    assert_eq!(answer["error"], Value::Null, "{answer:#}");
    answer
}

/// One server that plays every host, each under a path with the host's name.
struct StandIn {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl StandIn {
    async fn start(answers: &Value) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (noted, answers) = (asked.clone(), answers.clone());
        let app = Router::new().fallback(move |request: Request| {
            let (noted, answers) = (noted.clone(), answers.clone());
            async move {
                let asked = read(request).await;
                let key = format!("{} {}", text(&asked["method"]), text(&asked["place"]));
                noted.lock().expect("the log").push(asked);
                let (status, body) = match &answers[&key] {
                    Value::Null => (404, "{}".to_owned()),
                    Value::String(text) => (200, text.clone()),
                    answer => (200, answer.to_string()),
                };
                let response = Response::builder().status(status);
                response.body(Body::from(body)).expect("a response")
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await.expect("served") });
        Self { url, asked }
    }

    fn hosts(&self) -> CloudHosts {
        CloudHosts {
            stand_in: Some(self.url.clone()),
            ..CloudHosts::default()
        }
    }

    fn take(&self) -> Vec<Value> {
        let all = std::mem::take(&mut *self.asked.lock().expect("the log"));
        all.iter().map(normal).collect()
    }
}

/// Converts a request to the judge's JSON.
async fn read(request: Request) -> Value {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let body = String::from_utf8(body.to_vec()).expect("UTF-8");
    let pairs = |text: &str| {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in form(text) {
            all.entry(name).or_default().push(value);
        }
        json!(all)
    };
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let names = ["authorization", "content-type", "x-amz-target"];
    let headers: BTreeMap<&str, &str> = names
        .into_iter()
        .filter_map(|name| Some((name, header(name)?)))
        .collect();
    let is_form = header("content-type").is_some_and(|kind| kind.contains("form-urlencoded"));
    let mut request = json!({"method": head.method.as_str(), "place": head.uri.path().trim_start_matches('/'),
        "query": pairs(head.uri.query().unwrap_or_default()), "headers": headers});
    match is_form {
        true => request["form"] = pairs(&body),
        false if !body.is_empty() => request["body"] = json!(body),
        false => {}
    }
    request
}

/// Parses the fields of a URL-encoded form.
fn form(text: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            match byte {
                b'+' => bytes.push(b' '),
                b'%' => {
                    let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                    let digits = std::str::from_utf8(&digits).expect("ASCII");
                    bytes.push(u8::from_str_radix(digits, 16).expect("a byte"));
                }
                byte => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).expect("UTF-8")
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Removes from a request what differs between languages' libraries: the spelling of JSON and media
/// types, the parts of a signature that depend on the time, parameters that a library adds by
/// itself.
fn normal(request: &Value) -> Value {
    let mut request = request.clone();
    for name in ["alt", "prettyPrint"] {
        request["query"]
            .as_object_mut()
            .expect("a query")
            .remove(name);
    }
    let kind = text(&request["headers"]["content-type"])
        .split(';')
        .next()
        .unwrap_or_default();
    match kind.to_owned() {
        kind if kind.is_empty() => {}
        kind => request["headers"]["content-type"] = json!(kind),
    }
    if let Some(scope) =
        text(&request["headers"]["authorization"]).strip_prefix("AWS4-HMAC-SHA256 ")
    {
        let scope = scope.split(',').next().unwrap_or_default();
        let parts: Vec<&str> = scope.split('/').collect();
        request["headers"]["authorization"] = json!([parts[0], parts[2], parts[3]]);
    }
    if let Ok(body) = serde_json::from_str::<Value>(text(&request["body"])) {
        request["body"] = body;
    }
    if let Some(form) = request.get_mut("form").and_then(Value::as_object_mut) {
        // A client needs one scope of Entra ID: the others are for human users.
        form.remove("client_info");
        let scope = form
            .get("scope")
            .map(|scope| text(&scope[0]).replace(" openid offline_access profile", ""));
        if let Some(scope) = scope {
            form.insert("scope".to_owned(), json!([scope]));
        }
    }
    request
}

/// Returns the judge's requests without the discovery of Entra ID, whose addresses driftless has
/// built in.
fn requests(outcome: &Value) -> Vec<Value> {
    let all = outcome["requests"].as_array().expect("requests");
    let is_discovery = |one: &&Value| {
        let place = text(&one["place"]);
        place.ends_with("/discovery/instance") || place.ends_with("/openid-configuration")
    };
    all.iter()
        .filter(|one| !is_discovery(one))
        .map(normal)
        .collect()
}

fn token() -> Token {
    Token {
        secret: Secret::new("of-the-hub"),
        expires: now() + Duration::from_secs(3600),
    }
}

fn entra() -> EntraIdentity {
    EntraIdentity {
        tenant: TENANT.to_owned(),
        client: "client".to_owned(),
        proof: EntraProof::Token(token()),
    }
}

fn principal(account: Option<&str>) -> GoogleIdentity {
    GoogleIdentity {
        provider: format!("//iam.googleapis.com/{PROVIDER}"),
        account: account.map(str::to_owned),
        token: token(),
    }
}

/// Returns a JWT with an expiry.
fn refresh_token() -> String {
    let part = |claims: Value| URL_SAFE_NO_PAD.encode(claims.to_string());
    let claims = json!({"exp": 2_015_622_800, "aud": "acme.azurecr.io"});
    format!("{}.{}.c2ln", part(json!({"alg": "RS256"})), part(claims))
}

fn azure() -> Value {
    let login = "login.microsoftonline.com";
    let cluster = format!("management.azure.com{AKS}");
    let kubeconfig = |server: &str, authority: &str| {
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "prod",
            "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "clusterUser"}}],
            "clusters": [{"name": "prod", "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(authority)}}],
            "users": [{"name": "clusterUser", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1",
                "command": "kubelogin", "interactiveMode": "Never"}}}]});
        json!({"name": "clusterUser", "value": STANDARD.encode(text.to_string())})
    };
    let mut answers = json!({});
    for (key, answer) in [
        (
            format!("GET {login}/common/discovery/instance"),
            json!({"metadata": [], "tenant_discovery_endpoint":
                format!("https://{login}/{TENANT}/v2.0/.well-known/openid-configuration")}),
        ),
        (
            format!("GET {login}/{TENANT}/v2.0/.well-known/openid-configuration"),
            json!({"authorization_endpoint": format!("https://{login}/{TENANT}/oauth2/v2.0/authorize"),
                "token_endpoint": format!("https://{login}/{TENANT}/oauth2/v2.0/token"),
                "issuer": format!("https://{login}/{TENANT}/v2.0")}),
        ),
        (
            format!("POST {login}/{TENANT}/oauth2/v2.0/token"),
            json!({"access_token": "of-entra", "expires_in": 3599, "token_type": "Bearer"}),
        ),
        (
            "POST acme.azurecr.io/oauth2/exchange".to_owned(),
            json!({"refresh_token": refresh_token()}),
        ),
        (
            format!("GET {cluster}"),
            json!({"properties": {"aadProfile": {"managed": true}}}),
        ),
        (
            format!("POST {cluster}/listClusterUserCredential"),
            json!({"kubeconfigs": [kubeconfig("https://public.hcp.westeurope.azmk8s.io:443", "one"),
                kubeconfig("https://private.westeurope.azmk8s.io:443", "two")]}),
        ),
    ] {
        answers[key] = answer;
    }
    json!({"provider": "azure", "answers": answers, "annotations": {
        "azure.workload.identity/tenant-id": TENANT, "azure.workload.identity/client-id": "client"}})
}

fn google(account: Option<&str>) -> Value {
    let mut answers = json!({
        "POST sts.googleapis.com/v1/token": {"access_token": "of-sts", "expires_in": 3599, "token_type": "Bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"},
        "POST iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/reader@acme.iam.gserviceaccount.com:generateAccessToken":
            {"accessToken": "of-the-reader", "expireTime": "2033-11-14T23:13:20Z"},
    });
    answers[format!("GET container.googleapis.com/v1/{GKE}")] =
        json!({"endpoint": "203.0.113.7", "masterAuth": {"clusterCaCertificate": "Y2E="}});
    let mut annotations = json!({ "gcp.auth.fluxcd.io/workload-identity-provider": PROVIDER });
    if let Some(account) = account {
        annotations["iam.gke.io/gcp-service-account"] = json!(account);
    }
    json!({"provider": "gcp", "answers": answers, "annotations": annotations})
}

fn with(mut case: Value, more: &[(&str, &str)]) -> Value {
    for (key, value) in more {
        case[*key] = json!(value);
    }
    case
}

fn same_login(theirs: &Value, ours: &RegistryLogin) {
    assert_eq!(theirs["user"], ours.user.as_str());
    assert_eq!(
        theirs["password"],
        ours.password.expose_str().expect("text")
    );
}

fn same_end(theirs: &Value, ours: &Token) {
    let theirs = theirs["expires"].as_u64().expect("a time");
    assert!(
        theirs.abs_diff(ours.expires.as_secs()) < 60,
        "{theirs} {ours:?}"
    );
}

fn same_place(theirs: &Value, ours: &ClusterEndpoint) {
    assert_eq!(theirs["host"], ours.address.as_str());
    assert_eq!(text(&theirs["ca"]).as_bytes(), ours.certificate_authority);
}

#[tokio::test]
async fn a_registry_of_azure() {
    let case = with(azure(), &[("registry", "acme.azurecr.io/charts/web")]);
    let theirs = judge(&case);
    let stand_in = StandIn::start(&case["answers"]).await;
    let azure = AzureLogins::new(stand_in.hosts());
    let registry = AcrRegistry::parse("acme.azurecr.io").expect("a registry");
    let who = entra();
    let login = azure.registry(&registry, &who, now()).await;
    same_login(&theirs, &login.expect("a login"));
    assert_eq!(stand_in.take(), requests(&theirs));
    assert_eq!(theirs["audiences"], json!(["api://AzureADTokenExchange"]));
    // The login is cached for the same identity.
    azure
        .registry(&registry, &who, now())
        .await
        .expect("a login");
    assert_eq!(stand_in.take(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_cluster_of_azure() {
    let case = with(azure(), &[("cluster", AKS)]);
    let theirs = judge(&case);
    let stand_in = StandIn::start(&case["answers"]).await;
    let azure = AzureLogins::new(stand_in.hosts());
    let who = entra();
    let cluster = AksCluster::parse(AKS).expect("a cluster");
    let token = azure.token(&who, now()).await.expect("a token");
    let places = azure.describe(&cluster, &who, now()).await.expect("places");
    assert_eq!(theirs["token"], token.secret.expose_str().expect("text"));
    same_end(&theirs, &token);
    same_place(&theirs, &places[0]);
    assert_eq!(stand_in.take(), requests(&theirs));
    // Of several endpoints, the judge takes the one with the given address.
    let private = "https://private.westeurope.azmk8s.io";
    let theirs = judge(&with(case, &[("address", private)]));
    assert_eq!(
        text(&theirs["ca"]).as_bytes(),
        places[1].certificate_authority
    );
}

#[tokio::test]
async fn registries_and_clusters_of_google() {
    for account in [None, Some("reader@acme.iam.gserviceaccount.com")] {
        let (case, who) = (google(account), principal(account));
        let theirs = judge(&with(
            case.clone(),
            &[("registry", "europe-docker.pkg.dev/acme/charts/web")],
        ));
        let stand_in = StandIn::start(&case["answers"]).await;
        let google = GoogleLogins::new(stand_in.hosts());
        let token = google.token(&who, now()).await.expect("a token");
        assert_eq!(theirs["user"], "oauth2accesstoken");
        assert_eq!(theirs["password"], token.secret.expose_str().expect("text"));
        same_end(&theirs, &token);
        assert_eq!(theirs["audiences"], json!([who.provider]));
        assert_eq!(stand_in.take(), requests(&theirs));

        let theirs = judge(&with(case.clone(), &[("cluster", GKE)]));
        let google = GoogleLogins::new(stand_in.hosts());
        let cluster = GkeCluster::parse(GKE).expect("a cluster");
        let place = google.describe(&cluster, &who, now()).await;
        same_place(&theirs, &place.expect("a place"));
        assert_eq!(stand_in.take(), requests(&theirs));
        // The token that read the endpoint also serves for the cluster.
        let token = google.token(&who, now()).await.expect("a token");
        assert_eq!(theirs["token"], token.secret.expose_str().expect("text"));
        assert_eq!(stand_in.take(), Vec::<Value>::new());
    }
}

#[tokio::test]
async fn registries_of_amazon() {
    let role = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>\
        <SecretAccessKey>s</SecretAccessKey><SessionToken>session</SessionToken><Expiration>2033-11-14T23:13:20Z</Expiration></Credentials>\
        </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
    let given = json!({"authorizationToken": "QVdTOnB3", "expiresAt": 2.0156228E9});
    let arn = "arn:aws:iam::1:role/reader";
    for (host, service, region, given) in [
        (
            "012345678901.dkr.ecr.eu-west-1.amazonaws.com",
            "ecr",
            "eu-west-1",
            json!([given]),
        ),
        (
            "012345678901.dkr.ecr.cn-north-1.amazonaws.com.cn",
            "ecr",
            "cn-north-1",
            json!([given]),
        ),
        ("public.ecr.aws", "ecr-public", "us-east-1", given.clone()),
    ] {
        let domain = if region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else {
            "amazonaws.com"
        };
        let (sts, ecr) = (
            format!("sts.{region}.{domain}/"),
            format!("api.{service}.{region}.{domain}/"),
        );
        let mut answers = json!({});
        answers[format!("POST {sts}")] = json!(role);
        answers[format!("POST {ecr}")] = json!({ "authorizationData": given });
        let theirs = judge(
            &json!({"provider": "aws", "registry": format!("{host}/charts/web"), "answers": answers,
            "annotations": {"eks.amazonaws.com/role-arn": arn}}),
        );
        let requests = requests(&theirs);
        assert_eq!(
            (text(&requests[0]["place"]), text(&requests[1]["place"])),
            (sts.as_str(), ecr.as_str())
        );

        // Like the emulators, this server has one address for all of Amazon's services: the
        // requests distinguish them.
        let stand_in = StandIn::start(&json!({"POST ": {"authorizationData": given}})).await;
        let settings = settings_at(&stand_in.url, region, "AKID", "secret").await;
        let aws = AwsLogins::with_role(&settings);
        let registry = EcrRegistry::parse(host).expect("a registry");
        let login = aws
            .registry(&registry, &AwsIdentity::Installation, now())
            .await;
        same_login(&theirs, &login.expect("a login"));
        let mut ours = stand_in.take().remove(0);
        ours["place"] = requests[1]["place"].clone();
        ours["headers"]["authorization"][0] = json!("Credential=ASIAROLE");
        assert_eq!(ours, requests[1]);
    }
}
