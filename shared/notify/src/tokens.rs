//! Tokens for keys of a Secret: installation tokens of GitHub Apps and access tokens of service
//! accounts of Google Cloud. Each is requested with a signed JWT.

use crate::Failure;
use crate::notification::{Call, Notification};
use crate::rest::Rest;
use crate::url::{Url, form, segment};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// The time by which the clock of GitHub may be late, in seconds.
const DRIFT: i64 = 30;
/// The life of the JWT of a GitHub App, in seconds.
const APP_LIFE: i64 = 120;
/// The life of the JWT of a service account, in seconds.
const ACCOUNT_LIFE: i64 = 3600;
const GOOGLE_TOKENS: &str = "https://oauth2.googleapis.com/token";
const GOOGLE_SCOPE: &str = "https://www.googleapis.com/auth/pubsub";
/// The media type of answers of GitHub.
pub(crate) const JSON: &str = "application/vnd.github.v3+json";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The token of an installation of a GitHub App.
pub(crate) struct AppToken {
    pub token: String,
    /// The name of the App in URLs; empty if it was not asked for.
    pub slug: String,
}

/// Returns the headers of requests to GitHub.
pub(crate) fn headers(token: &str) -> Vec<(&'static str, String)> {
    vec![
        ("accept", JSON.to_owned()),
        ("x-github-api-version", "2022-11-28".to_owned()),
        ("authorization", format!("Bearer {token}")),
    ]
}

impl Rest<'_> {
    /// Returns the id of the installation of an owner, an organization or a user.
    async fn installation(&self, owner: &str) -> Result<Value, Failure> {
        let owner = segment(owner);
        let action = "find the installation of the GitHub App";
        let call = self.call(Method::GET, &format!("orgs/{owner}/installation"));
        let response = self.notification.exchange(call).await?;
        if response.status() == StatusCode::OK {
            return self.notification.parse(&response, action);
        }
        let path = format!("users/{owner}/installation");
        self.read(&path, action).await
    }
}

/// Requests the installation token of the GitHub App of the Secret. `None` if it has no App.
///
/// # Errors
/// The keys of the Secret are not complete, or GitHub refuses the App.
pub(crate) async fn github_app(
    notification: &Notification<'_>,
    wants_slug: bool,
) -> Result<Option<AppToken>, Failure> {
    let value = |key: &str| notification.secret_text(key);
    let Some(id) = value("githubAppID") else {
        return Ok(None);
    };
    let number = |key: &str, value: &str| {
        let number: Option<u64> = value.parse().ok().filter(|number| *number != 0);
        number.ok_or_else(|| notification.refusal(format!("'{key}' of the Secret is not a number")))
    };
    let id = number("githubAppID", &id)?;
    let owner = value("githubAppInstallationOwner").filter(|owner| !owner.is_empty());
    let installation = match (value("githubAppInstallationID"), &owner) {
        (Some(installation), None) => Some(number("githubAppInstallationID", &installation)?),
        (None, Some(_)) => None,
        _ => {
            let keys = "'githubAppInstallationID' and 'githubAppInstallationOwner'";
            return Err(notification.refusal(format!("the Secret needs one of {keys}")));
        }
    };
    let base = match value("githubAppBaseURL").filter(|url| !url.is_empty()) {
        Some(url) if Url::parse(&url).is_some() => format!("{}/", url.trim_end_matches('/')),
        Some(_) => {
            return Err(notification.refusal("'githubAppBaseURL' of the Secret is not a URL"));
        }
        None => "https://api.github.com/".to_owned(),
    };
    let issued = notification.now - DRIFT;
    let claims = json!({"iss": id.to_string(), "iat": issued, "exp": issued + APP_LIFE});
    let key = value("githubAppPrivateKey").unwrap_or_default();
    let key = notification.required(&key, "the key of the GitHub App ('githubAppPrivateKey')")?;
    let app = Rest {
        notification,
        base,
        headers: headers(&jwt(notification, &claims, key).await?),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let slug = match wants_slug {
        true => text(&app.read("app", "read the GitHub App").await?["slug"]),
        false => String::new(),
    };
    let installation = match (installation, owner) {
        (Some(installation), _) => installation,
        (None, owner) => {
            let found = app.installation(&owner.unwrap_or_default()).await?;
            found["id"].as_u64().unwrap_or_default()
        }
    };
    let path = format!("app/installations/{installation}/access_tokens");
    let action = "request the token of the GitHub App";
    // Without options GitHub's client sends the JSON of nothing.
    let call = app
        .call(Method::POST, &path)
        .body("application/json", "null");
    let token = text(&notification.ask(call, action).await?["token"]);
    notification.required(&token, "the token in GitHub's answer")?;
    Ok(Some(AppToken { token, slug }))
}

/// Requests an access token for the service account whose key, as JSON, is `token` of the Secret.
///
/// # Errors
/// The key is not one of a service account, or Google refuses it.
pub(crate) async fn google_account(notification: &Notification<'_>) -> Result<String, Failure> {
    let invalid = || {
        let form = "the JSON of a key of a service account of Google Cloud";
        notification.refusal(format!("'token' of the Secret is not {form}"))
    };
    let key: Value = serde_json::from_str(&notification.login.token).map_err(|_| invalid())?;
    let field = |name: &str| key[name].as_str().filter(|value| !value.is_empty());
    let (Some("service_account"), Some(email)) = (field("type"), field("client_email")) else {
        return Err(invalid());
    };
    let private_key = field("private_key").ok_or_else(invalid)?;
    // The address of the key is not used: it could lead to any server.
    let claims = json!({
        "iss": email, "scope": GOOGLE_SCOPE, "aud": GOOGLE_TOKENS, "iat": notification.now,
        "exp": notification.now + ACCOUNT_LIFE,
    });
    let assertion = jwt(notification, &claims, private_key).await?;
    let body = form(&[("assertion", &assertion), ("grant_type", GRANT)]);
    let call = Call::post(GOOGLE_TOKENS).body("application/x-www-form-urlencoded", body);
    let action = "request an access token of Google Cloud";
    // The body of an answer may repeat the assertion.
    let response = notification.exchange(call).await?;
    if !response.status().is_success() {
        return Err(notification.settings.answer(action, response.status(), b""));
    }
    let token = notification.parse(&response, action)?;
    let token = token["access_token"].as_str().unwrap_or_default();
    let token = notification.required(token, "the access token in Google's answer")?;
    Ok(token.to_owned())
}

/// Returns a JWT that is signed with RS256 by a key in PEM.
async fn jwt(
    notification: &Notification<'_>,
    claims: &Value,
    key: &str,
) -> Result<String, Failure> {
    let encode = |value: &Value| {
        let json = notification.json(value)?;
        Ok::<_, Failure>(URL_SAFE_NO_PAD.encode(json))
    };
    let header = json!({"alg": "RS256", "typ": "JWT"});
    let signed = format!("{}.{}", encode(&header)?, encode(claims)?);
    let transport = notification.transport;
    let signature = transport
        .sign_rs256(key.as_bytes(), signed.as_bytes())
        .await;
    let signature = signature.map_err(|error| notification.settings.unreachable(&error))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
