//! From a request to a response.

use crate::access::User;
use crate::actions::Action;
use crate::api;
use crate::assets;
use crate::auth::{self, Auth, Key, Session, Web};
use crate::data::{Data, DataError};
use crate::http::{Method, Request, Response};
use crate::live::Live;
use crate::model::{Drift, Row, Snapshot};
use crate::query::{Filter, decode, field};
use crate::text::{self, segment};
use crate::views::{self, Details, Page};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::journal::{self, Push};
use driftless_kernel::ports::Cause;
use maud::Markup;
use std::sync::Arc;

/// The pushes of a page, and those of the first page.
const PUSHES: usize = 50;
const LAST_PUSHES: usize = 3;
/// The entries of the page of drift.
const DRIFT: usize = 200;
/// The most bytes of the body of a request.
pub const MAX_BODY: usize = 8 << 10;

/// The context of a request, in addition to the data.
pub struct Site<'a> {
    /// The way in which users are known.
    pub auth: &'a Auth,
    /// The key of cookies and tokens.
    pub key: &'a Key,
    /// The requests of logins.
    pub web: &'a dyn Web,
    /// The way in which pages follow changes.
    pub live: Live,
    /// The time, in milliseconds since 1970.
    pub now: u64,
    /// Random bytes for this request.
    pub random: [u8; 32],
}

/// The reason for another answer than a page.
enum Refused {
    NotFound,
    Forbidden(&'static str),
    Invalid(String),
    Unavailable(DataError),
}

impl From<DataError> for Refused {
    fn from(error: DataError) -> Self {
        Self::Unavailable(error)
    }
}

/// Answers a request.
pub async fn handle(request: &Request, data: &dyn Data, site: &Site<'_>) -> Response {
    if let Some(asset) = request.path.strip_prefix("/assets/") {
        let found = assets::serve(asset);
        return found.unwrap_or_else(|| Response::new(404, "text/plain", "not found\n"));
    }
    let (auth, key, now) = (site.auth, site.key, site.now);
    if let Some(answer) = auth::login(auth, key, site.web, request, now, &site.random).await {
        return answer;
    }
    let is_api = request.path.starts_with("/api/");
    let Some(session) = auth::session(auth, key, request, now) else {
        return match is_api || request.method != Some(Method::Get) {
            true => api::error(401, "log in at /login"),
            false => {
                let target = match request.query.as_str() {
                    "" => request.path.clone(),
                    query => format!("{}?{query}", request.path),
                };
                Response::redirect(&format!("/login?to={}", segment(&target)))
            }
        };
    };
    let answer = match request.method {
        Some(Method::Get) => get(request, data, site, &session).await,
        Some(Method::Post) => post(request, data, site, &session).await,
        None => return api::error(405, "only GET and POST are served"),
    };
    answer.unwrap_or_else(|refused| refusal(&refused, is_api, site, &session))
}

fn refusal(refused: &Refused, is_api: bool, site: &Site<'_>, session: &Session) -> Response {
    let (status, title, text) = match refused {
        Refused::NotFound => (
            404,
            "Not found",
            "This page does not exist, or you may not see it.".to_owned(),
        ),
        Refused::Forbidden(reason) => (403, "Refused", (*reason).to_owned()),
        Refused::Invalid(reason) => (400, "Not understood", reason.clone()),
        Refused::Unavailable(error) => {
            tracing::warn!("dashboard: {error}");
            // The errors of the installation are its operator's.
            let text = match session.user.reads.all {
                true => error.to_string(),
                false => "The state cannot be read now. Try again.".to_owned(),
            };
            (503, "Not available", text)
        }
    };
    if is_api {
        return api::error(status, &text);
    }
    let page = views::message(title, &text, Some(("/", "Overview")));
    Response::html(status, framed(site, session, title, "", "", &page))
}

/// Renders a page in its frame.
fn framed(
    site: &Site<'_>,
    session: &Session,
    title: &str,
    current: &str,
    version: &str,
    content: &Markup,
) -> Markup {
    let user = match site.auth {
        Auth::Local => None,
        Auth::Login(_) => Some(session.user.name.as_str()),
    };
    let frame = Page {
        title,
        current,
        user,
        csrf: &session.csrf,
        live: site.live,
        version,
    };
    views::page(&frame, content)
}

/// Returns the state of the fleets as a user sees it.
///
/// # Errors
/// Those of the data.
pub async fn seen(data: &dyn Data, user: &User) -> Result<Arc<Snapshot>, DataError> {
    Ok(user.reads.of(&data.snapshot().await?))
}

async fn get(
    request: &Request,
    data: &dyn Data,
    site: &Site<'_>,
    session: &Session,
) -> Result<Response, Refused> {
    let user = &session.user;
    if let Some(path) = request.path.strip_prefix("/api/v1/") {
        return get_json(path, request, data, user).await;
    }
    // The script asks for the current state when the page is shown; its own requests get it.
    let snapshot = match site.live == Live::None || request.header("sec-fetch-dest") != "document" {
        true => seen(data, user).await?,
        false => user.reads.of(&data.recent().await?),
    };
    let version = snapshot.fingerprint();
    let page = |title: &str, current: &str, content: Markup| {
        let page = framed(site, session, title, current, &version, &content);
        Ok(Response::html(200, page))
    };
    let filter = Filter::parse(&request.query);
    match request.path.as_str() {
        "/" => {
            let pushes = pushes(data, user, &snapshot, LAST_PUSHES).await?;
            page("Overview", "/", views::overview(&snapshot, &pushes))
        }
        "/objects" => page("Objects", "/objects", views::objects(&snapshot, &filter)),
        "/graph" => page("Graph", "/graph", views::graph(&snapshot, &filter)),
        "/pushes" => {
            let pushes = pushes(data, user, &snapshot, PUSHES).await?;
            page("Pushes", "/pushes", views::pushes(snapshot.taken, &pushes))
        }
        "/drift" => {
            let drift = drift(data, &snapshot).await?;
            page("Drift", "/drift", views::drift(snapshot.taken, &drift))
        }
        path => {
            let row = object(path, &snapshot).ok_or(Refused::NotFound)?;
            let journal = data.journal(&row.hub, &row.id).await;
            let place = match row.state {
                crate::model::State::Failed => data.place(row, &snapshot).await,
                _ => None,
            };
            let details = Details {
                place: place.as_ref(),
                journal: journal.as_ref().map_err(|_| "the bucket does not answer"),
                may_act: user.acts.has(&row.hub, &row.id.namespace),
                csrf: &session.csrf,
            };
            let content = views::object(&snapshot, row, &details);
            page(&row.id.name, "/objects", content)
        }
    }
}

async fn get_json(
    path: &str,
    request: &Request,
    data: &dyn Data,
    user: &User,
) -> Result<Response, Refused> {
    if path == "openapi.json" {
        return Ok(Response::json(200, &crate::openapi::document()));
    }
    let snapshot = seen(data, user).await?;
    let filter = Filter::parse(&request.query);
    let document = match path {
        "version" => api::version(&snapshot),
        "hubs" => api::hubs(&snapshot),
        "objects" => api::objects(&snapshot, &filter),
        "graph" => api::graph(&snapshot, &filter),
        "pushes" => api::pushes(&pushes(data, user, &snapshot, PUSHES).await?),
        "drift" => api::drift(&drift(data, &snapshot).await?),
        path => {
            let row = object(&format!("/{path}"), &snapshot).ok_or(Refused::NotFound)?;
            let journal = data.journal(&row.hub, &row.id).await?;
            let place = data.place(row, &snapshot).await;
            api::details(row, place.as_ref(), &journal)
        }
    };
    Ok(Response::json(200, &document))
}

/// Returns the object whose page has this path, if it is seen.
fn object<'s>(path: &str, snapshot: &'s Snapshot) -> Option<&'s Row> {
    let parts: Option<Vec<String>> = path
        .strip_prefix("/objects/")?
        .split('/')
        .map(decode)
        .collect();
    let [hub, kind, namespace, name] = parts?.try_into().ok()?;
    let id = ObjectRef::new(FluxKind::parse(&kind)?, namespace, name);
    snapshot.find(&hub, &id)
}

/// Returns the last pushes that a user sees.
async fn pushes(
    data: &dyn Data,
    user: &User,
    snapshot: &Snapshot,
    most: usize,
) -> Result<Vec<Push>, DataError> {
    let mut journals = Vec::new();
    for hub in &snapshot.hubs {
        journals.push((hub.name.as_str(), data.journals(&hub.name).await?));
    }
    let all = journals.iter().flat_map(|(hub, journals)| {
        let journals = journals.iter();
        journals.map(move |(object, journal)| (*hub, object, journal))
    });
    let pushes = journal::pushes(all, most).into_iter();
    Ok(pushes.filter_map(|push| user.reads.of_push(push)).collect())
}

/// Returns the drift that was found on the objects of a snapshot, the newest first.
async fn drift(data: &dyn Data, snapshot: &Snapshot) -> Result<Vec<Drift>, DataError> {
    let mut found = Vec::new();
    for row in &snapshot.objects {
        if let Some(message) = &row.drift {
            found.push(Drift {
                hub: row.hub.clone(),
                object: row.id.clone(),
                at: row.since,
                corrected: Vec::new(),
                message: message.clone(),
            });
        }
    }
    for hub in &snapshot.hubs {
        for (object, journal) in data.journals(&hub.name).await?.iter() {
            if snapshot.find(&hub.name, object).is_none() {
                continue;
            }
            let entries = journal.entries.iter();
            let corrections =
                entries.filter(|entry| entry.cause == Cause::Drift && !entry.changes.is_empty());
            found.extend(corrections.map(|entry| Drift {
                hub: hub.name.clone(),
                object: object.clone(),
                at: entry.ended,
                corrected: entry.changes.clone(),
                message: entry.message.clone(),
            }));
        }
    }
    found.sort_by(|a, b| (b.at, &b.object).cmp(&(a.at, &a.object)));
    found.truncate(DRIFT);
    Ok(found)
}

async fn post(
    request: &Request,
    data: &dyn Data,
    site: &Site<'_>,
    session: &Session,
) -> Result<Response, Refused> {
    // Before everything else: a foreign page must not learn what exists.
    check_origin(request, site, session)?;
    if request.path == "/logout" {
        return Ok(auth::log_out());
    }
    let form = String::from_utf8_lossy(&request.body);
    let path = request.path.strip_suffix("/actions");
    let snapshot = seen(data, &session.user).await?;
    let row = path
        .and_then(|path| object(path, &snapshot))
        .ok_or(Refused::NotFound)?;
    if !session.user.acts.has(&row.hub, &row.id.namespace) {
        return Err(Refused::Forbidden(
            "You may see this object, but not change it.",
        ));
    }
    let (name, revision) = (field(&form, "action"), field(&form, "revision"));
    let action = Action::parse(&name, &revision, &text::time(site.now))
        .map_err(|error| Refused::Invalid(error.to_string()))?;
    if !action.fits(&row.id) {
        let reason = format!("{} has no action {}", row.id.kind, action.name());
        return Err(Refused::Invalid(reason));
    }
    tracing::info!(
        user = session.user.name, hub = row.hub, object = %row.id, action = action.name(),
        "action of the dashboard"
    );
    data.act(&row.hub, &row.id, &action).await?;
    Ok(Response::redirect(&row.href()))
}

/// Checks that a form is one of our own pages.
fn check_origin(request: &Request, site: &Site<'_>, session: &Session) -> Result<(), Refused> {
    let fetch_site = request.header("sec-fetch-site");
    if !matches!(fetch_site, "" | "same-origin" | "none") {
        return Err(Refused::Forbidden("The request came from another site."));
    }
    if let Auth::Login(login) = site.auth
        && !request.header("origin").is_empty()
        && request.header("origin") != login.origin
    {
        return Err(Refused::Forbidden("The request came from another site."));
    }
    if request.body.len() > MAX_BODY {
        return Err(Refused::Invalid("The form is too large.".to_owned()));
    }
    let token = field(&String::from_utf8_lossy(&request.body), "csrf");
    match site.key.is_token(&token, &session.csrf) {
        true => Ok(()),
        false => Err(Refused::Forbidden(
            "The form is not one of this session: load the page again.",
        )),
    }
}
