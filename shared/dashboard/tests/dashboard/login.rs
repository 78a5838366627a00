//! Logins at GitHub and at an OpenID Connect provider.

use crate::world::{Fleets, NOW, Service, ask, github, logins};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use driftless_dashboard::auth::{Auth, Kind};
use driftless_dashboard::{Request, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ISSUER: &str = "https://id.example.com";

/// Returns a cookie that an answer sets, as a browser sends it back.
fn cookie_of(answer: &Response, name: &str) -> String {
    let set = answer
        .headers
        .iter()
        .filter(|(header, _)| *header == "set-cookie");
    let mut set = set.filter_map(|(_, value)| value.split(';').next());
    let found = set.find(|value| value.starts_with(&format!("{name}=")));
    found.unwrap_or_default().to_owned()
}

/// Returns a field of the query of the address that an answer leads to.
fn sent(answer: &Response, name: &str) -> String {
    let (_, query) = answer.header("location").unwrap().split_once('?').unwrap();
    driftless_dashboard::query::field(query, name)
}

/// Begins a login; returns the cookie and the answer.
async fn begin(auth: &Auth, service: &Service, to: &str) -> (String, Response) {
    let request = Request::get(&format!("/login?to={to}"));
    let answer = ask(&Fleets::new(), auth, service, &request).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    (cookie_of(&answer, "__Host-driftless-login"), answer)
}

async fn end(auth: &Auth, service: &Service, cookie: &str, query: &str) -> Response {
    let request = Request::get(&format!("/callback?{query}")).with("cookie", cookie);
    ask(&Fleets::new(), auth, service, &request).await
}

fn teams() -> Service {
    let answers = [
        (
            "https://github.com/login/oauth/access_token",
            json!({"access_token": "t"}),
        ),
        ("https://api.github.com/user", json!({"login": "alice"})),
        (
            "https://api.github.com/user/teams?per_page=100&page=1",
            json!([{"slug": "green", "organization": {"login": "acme"}},
                   {"slug": "other", "organization": {"login": "acme"}}]),
        ),
    ];
    Service {
        answers: answers.map(|(url, answer)| (url.to_owned(), answer)).into(),
        ..Service::default()
    }
}

#[tokio::test]
async fn a_login_at_github_gives_the_rights_of_the_teams() {
    let (auth, service) = (github(), teams());
    let (cookie, first) = begin(&auth, &service, "%2Fobjects%3Fq%3Dweb").await;
    assert_eq!(
        sent(&first, "redirect_uri"),
        "https://gitops.example.com/callback"
    );
    assert_eq!(sent(&first, "code_challenge_method"), "S256");
    let state = sent(&first, "state");
    let answer = end(&auth, &service, &cookie, &format!("code=c&state={state}")).await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/objects?q=web"))
    );
    let form = service.forms.lock().unwrap().join("");
    assert!(
        form.contains("code_verifier") && form.contains("hunter2"),
        "{form}"
    );
    let session = cookie_of(&answer, "__Host-driftless");
    let request = Request::get("/api/v1/objects").with("cookie", &session);
    let objects = ask(&Fleets::new(), &auth, &service, &request).await.text();
    assert!(objects.contains("\"total\":1"), "{objects}");
    // The secret of the dashboard is in no answer.
    assert!(!first.text().contains("hunter2") && !session.contains("hunter2"));
}

#[tokio::test]
async fn an_answer_to_another_login_is_refused() {
    let (auth, service) = (github(), teams());
    let (cookie, first) = begin(&auth, &service, "").await;
    let state = sent(&first, "state");
    for (cookie, query, expected) in [
        ("", format!("code=c&state={state}"), 400),
        (cookie.as_str(), "code=c&state=x".to_owned(), 400),
        (cookie.as_str(), "code=c".to_owned(), 400),
        (
            cookie.as_str(),
            format!("state={state}&error=access_denied"),
            403,
        ),
    ] {
        let answer = end(&auth, &service, cookie, &query).await;
        assert_eq!(answer.status, expected, "{query}");
        assert_eq!(cookie_of(&answer, "__Host-driftless"), "", "{query}");
    }
    assert!(service.forms.lock().unwrap().is_empty());
    let refused = Service {
        answers: BTreeMap::from([(
            "https://github.com/login/oauth/access_token".to_owned(),
            json!({"error": "bad_verification_code"}),
        )]),
        ..Service::default()
    };
    let answer = end(&auth, &refused, &cookie, &format!("code=c&state={state}")).await;
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn a_login_leads_back_to_the_dashboard_only() {
    let (auth, service) = (github(), teams());
    for foreign in [
        "https%3A%2F%2Fevil.example",
        "%2F%2Fevil.example",
        "%2F%5Cevil.example",
        "%2Flogin",
        "%2Fa%0Ab",
    ] {
        let (cookie, first) = begin(&auth, &service, foreign).await;
        let state = sent(&first, "state");
        let answer = end(&auth, &service, &cookie, &format!("code=c&state={state}")).await;
        assert_eq!(answer.header("location"), Some("/"), "{foreign}");
    }
}

/// An issuer with a key.
struct Issuer(EcdsaKeyPair);

impl Issuer {
    fn new() -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref()).unwrap())
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self
            .0
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn service(&self, token: &str) -> Service {
        let point = self.0.public_key().as_ref();
        let part = |range| URL_SAFE_NO_PAD.encode(&point[range]);
        let answers = [
            (
                "/.well-known/openid-configuration",
                json!({"issuer": ISSUER, "authorization_endpoint": format!("{ISSUER}/authorize"),
                       "token_endpoint": format!("{ISSUER}/token"), "jwks_uri": format!("{ISSUER}/keys")}),
            ),
            ("/token", json!({ "id_token": token })),
            (
                "/keys",
                json!({"keys": [{"kty": "future"}, {"kty": "EC", "crv": "P-256", "kid": "1",
                                 "x": part(1..33), "y": part(33..65)}]}),
            ),
        ];
        Service {
            answers: answers
                .map(|(path, answer)| (format!("{ISSUER}{path}"), answer))
                .into(),
            ..Service::default()
        }
    }
}

#[tokio::test]
async fn only_a_token_of_the_issuer_for_this_login_is_a_login() {
    let auth = logins(Kind::Oidc {
        issuer: ISSUER.to_owned(),
    });
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let (cookie, first) = begin(&auth, &issuer.service(""), "").await;
    let (state, nonce) = (sent(&first, "state"), sent(&first, "nonce"));
    let header = json!({"alg": "ES256", "kid": "1"});
    let seconds = NOW / 1000;
    let claims = json!({"iss": ISSUER, "aud": "client", "sub": "42", "nonce": nonce, "iat": seconds,
        "exp": seconds + 300, "email": "root", "email_verified": true, "groups": ["acme/green"]});
    let with = |changes: Value| {
        let mut claims = claims.clone();
        for (key, value) in changes.as_object().unwrap() {
            claims[key] = value.clone();
        }
        claims
    };
    let log_in = |token: String| {
        let (auth, issuer, cookie, state) = (&auth, &issuer, &cookie, &state);
        async move {
            let query = format!("code=c&state={state}");
            end(auth, &issuer.service(&token), cookie, &query).await
        }
    };
    let good = log_in(issuer.token(&header, &claims)).await;
    assert_eq!(good.status, 303, "{}", good.text());
    for (reason, token) in [
        ("another key", other.token(&header, &claims)),
        (
            "no key",
            issuer.token(&json!({"alg": "ES256", "kid": "2"}), &claims),
        ),
        (
            "no signature",
            issuer.token(&json!({"alg": "none"}), &claims),
        ),
        (
            "a symmetric signature",
            issuer.token(&json!({"alg": "HS256", "kid": "1"}), &claims),
        ),
        (
            "another issuer",
            issuer.token(&header, &with(json!({"iss": "https://evil.example"}))),
        ),
        (
            "another client",
            issuer.token(&header, &with(json!({"aud": "other"}))),
        ),
        (
            "several clients",
            issuer.token(&header, &with(json!({"aud": ["client", "other"]}))),
        ),
        (
            "another login",
            issuer.token(&header, &with(json!({"nonce": "x"}))),
        ),
        (
            "expired",
            issuer.token(&header, &with(json!({"exp": seconds - 100}))),
        ),
        (
            "not yet valid",
            issuer.token(&header, &with(json!({"nbf": seconds + 100}))),
        ),
        ("no token", String::new()),
    ] {
        let answer = log_in(token).await;
        assert_eq!(answer.status, 403, "{reason}");
        assert_eq!(cookie_of(&answer, "__Host-driftless"), "", "{reason}");
    }
    // An address that is not verified does not count: the user is the subject.
    let unverified = with(json!({"email_verified": false}));
    let answer = log_in(issuer.token(&header, &unverified)).await;
    let session = cookie_of(&answer, "__Host-driftless");
    let request = Request::get("/api/v1/objects").with("cookie", &session);
    let objects = ask(&Fleets::new(), &auth, &Service::default(), &request)
        .await
        .text();
    assert!(objects.contains("\"total\":1"), "{objects}");
}
