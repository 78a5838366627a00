//! What a request may not see or do.

use crate::world::{Fleets, NOW, Service, ask, cookie, github, key};
use driftless_dashboard::auth::Auth;
use driftless_dashboard::{Request, Response};

const WEB: &str = "/objects/eu/Kustomization/green/web";
/// Every address that shows data.
const ADDRESSES: [&str; 14] = [
    "/",
    "/objects",
    "/objects?q=secret-of-blue",
    "/graph",
    "/pushes",
    "/drift",
    WEB,
    "/api/v1/version",
    "/api/v1/hubs",
    "/api/v1/objects",
    "/api/v1/graph",
    "/api/v1/pushes",
    "/api/v1/drift",
    "/api/v1/objects/eu/Kustomization/green/web",
];

async fn as_user(fleets: &Fleets, cookie: &str, request: Request) -> Response {
    let request = request.with("cookie", cookie);
    ask(fleets, &github(), &Service::default(), &request).await
}

fn green() -> String {
    cookie("alice", &["acme/green"], NOW + 1000)
}

fn form(user: &str, action: &str) -> String {
    let id = if user.is_empty() { "1" } else { user };
    format!("csrf={}&action={action}", key().token("csrf", id))
}

#[tokio::test]
async fn without_a_session_nothing_is_shown() {
    let fleets = Fleets::new();
    for address in ADDRESSES {
        let answer = as_user(&fleets, "", Request::get(address)).await;
        let expected = if address.starts_with("/api/") {
            401
        } else {
            303
        };
        assert_eq!(answer.status, expected, "{address}");
        assert!(!answer.text().contains("web"), "{address}");
    }
    let answer = as_user(
        &fleets,
        "",
        Request::post(&format!("{WEB}/actions"), &form("", "suspend")),
    )
    .await;
    assert_eq!(answer.status, 401);
    assert!(fleets.acted.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_forged_or_expired_cookie_is_refused() {
    let fleets = Fleets::new();
    let valid = cookie("root", &[], NOW + 1000);
    assert_eq!(
        as_user(&fleets, &valid, Request::get("/")).await.status,
        200
    );
    let (_, value) = valid.split_once('=').unwrap();
    let (text, signature) = value.split_once('.').unwrap();
    let (_, other) = green()
        .split_once('.')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let other_key = driftless_dashboard::auth::Key::new(&[8; 32]).unwrap();
    let ticket = serde_json::json!({"name": "root", "groups": [], "end": NOW + 1000, "id": "1"});
    for forged in [
        format!("__Host-driftless={text}.{other}"),
        format!("__Host-driftless={text}"),
        format!("__Host-driftless=.{signature}"),
        format!("__Host-driftless={}", other_key.seal("session", &ticket)),
        // A value that was signed for another purpose.
        format!("__Host-driftless={}", key().seal("login", &ticket)),
        format!("driftless={value}"),
        cookie("root", &[], NOW),
    ] {
        assert_eq!(
            as_user(&fleets, &forged, Request::get("/")).await.status,
            303,
            "{forged}"
        );
    }
}

#[tokio::test]
async fn a_tenant_sees_its_namespaces_alone() {
    let fleets = Fleets::new();
    for address in ADDRESSES {
        let answer = as_user(&fleets, &green(), Request::get(address)).await;
        assert_eq!(answer.status, 200, "{address}");
        let text = answer.text();
        let text = text.replace("value=\"secret-of-blue\"", "");
        assert!(!text.contains("secret-of-blue"), "{address}: {text}");
        let root = cookie("root", &[], NOW + 1000);
        let all = as_user(&fleets, &root, Request::get(address)).await.text();
        let shows_more = !matches!(address, "/api/v1/version");
        assert_eq!(all.contains("secret-of-blue"), shows_more, "{address}");
    }
    for address in [
        "/objects/eu/Kustomization/blue/secret-of-blue",
        "/api/v1/objects/eu/Kustomization/blue/secret-of-blue",
        "/objects/eu/Kustomization/blue/does-not-exist",
        "/objects/eu/Kustomization/green%2F..%2Fblue/secret-of-blue",
    ] {
        let answer = as_user(&fleets, &green(), Request::get(address)).await;
        assert_eq!(answer.status, 404, "{address}");
    }
    let stranger = cookie("eve", &["other/team"], NOW + 1000);
    let answer = as_user(&fleets, &stranger, Request::get("/api/v1/objects")).await;
    assert!(answer.text().contains("\"total\":0"), "{}", answer.text());
}

/// The version of a tenant does not depend on what the tenant does not see.
#[tokio::test]
async fn the_version_of_a_tenant_is_of_its_namespaces() {
    let fleets = Fleets::new();
    let version = |cookie: String| {
        let fleets = &fleets;
        async move {
            as_user(fleets, &cookie, Request::get("/api/v1/version"))
                .await
                .text()
        }
    };
    let readers = cookie("bob", &["acme/readers"], NOW + 1000);
    assert_eq!(version(green()).await, version(readers).await);
    assert_ne!(
        version(green()).await,
        version(cookie("root", &[], NOW + 1000)).await
    );
}

#[tokio::test]
async fn actions_need_a_token_a_right_and_our_own_page() {
    let fleets = Fleets::new();
    let address = format!("{WEB}/actions");
    let send = |cookie: String, request: Request| {
        let fleets = &fleets;
        async move { as_user(fleets, &cookie, request).await.status }
    };
    let valid = || Request::post(&address, &form("", "suspend"));
    for (cookie, request, expected) in [
        (green(), Request::post(&address, "action=suspend"), 403),
        (
            green(),
            Request::post(&address, "action=suspend&csrf="),
            403,
        ),
        (
            green(),
            Request::post(&address, &form("another session", "suspend")),
            403,
        ),
        (green(), valid().with("sec-fetch-site", "cross-site"), 403),
        (green(), valid().with("origin", "https://evil.example"), 403),
        (cookie("bob", &["acme/readers"], NOW + 1000), valid(), 403),
        (
            green(),
            Request::post(
                "/objects/eu/Kustomization/blue/secret-of-blue/actions",
                &form("", "suspend"),
            ),
            404,
        ),
        // It sees no sources.
        (
            green(),
            Request::post(
                "/objects/eu/GitRepository/flux-system/fleet/actions",
                &form("", "reconcile"),
            ),
            404,
        ),
        (green(), Request::post(&address, &form("", "delete")), 400),
        (
            green(),
            Request::post(&address, &form("", "approve-prune")),
            400,
        ),
        (
            green(),
            Request::post("/objects", &form("", "suspend")),
            404,
        ),
        (
            green(),
            Request::post(&address, &form("", &"x".repeat(9000))),
            400,
        ),
        (green(), Request::get(&address), 404),
    ] {
        let shown = format!("{request:?}");
        assert_eq!(send(cookie, request).await, expected, "{shown}");
    }
    assert!(fleets.acted.lock().unwrap().is_empty());
    let own = valid()
        .with("origin", "https://gitops.example.com")
        .with("sec-fetch-site", "same-origin");
    assert_eq!(send(green(), own).await, 303);
    let approve = form("", "approve-prune") + "&revision=main%40sha1%3Aabc";
    assert_eq!(send(green(), Request::post(&address, &approve)).await, 303);
    let acted = fleets.acted.lock().unwrap();
    assert_eq!(
        *acted,
        [
            "suspend eu Kustomization/green/web {\"spec\":{\"suspend\":true}}",
            "approve-prune eu Kustomization/green/web \
             {\"metadata\":{\"annotations\":{\"driftless.dev/prune-approved\":\"main@sha1:abc\"}}}",
        ]
    );
}

#[tokio::test]
async fn every_answer_has_the_headers_that_protect_it() {
    let fleets = Fleets::new();
    for address in ADDRESSES
        .iter()
        .chain(&["/nothing", "/assets/x/style.css", "/login"])
    {
        let answer = as_user(&fleets, &green(), Request::get(address)).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"));
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{address}");
        let text = answer.text();
        let is_page = answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html");
        for inline in ["<style", "style=\"", "onclick=", "javascript:", "<script>"] {
            assert!(!is_page || !text.contains(inline), "{address}: {inline}");
        }
    }
    // On this machine as well.
    let local = ask(
        &fleets,
        &Auth::Local,
        &Service::default(),
        &Request::get(WEB),
    )
    .await;
    assert!(
        local
            .text()
            .contains("&lt;script&gt;alert(1)&lt;/script&gt;")
    );
    let post = Request::post(&format!("{WEB}/actions"), "action=suspend");
    let refused = ask(&fleets, &Auth::Local, &Service::default(), &post).await;
    assert_eq!(refused.status, 403);
    assert!(fleets.acted.lock().unwrap().is_empty());
}
