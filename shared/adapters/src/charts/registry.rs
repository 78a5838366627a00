//! OCI registries: the parts of the distribution specification 1.1 that are needed to read an
//! artifact.
//!
//! This is not left to a library, because the registry names the URL of its token service, and
//! every URL must pass the same checks.

use crate::tenant_http::{self, Clients, FileRequest, Login};
use bytes::Bytes;
use driftless_kernel::ports::{
    Connection, ErrorKind, Layer, Manifest, PortError, Referrer, Result,
};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode, Url};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tokio::sync::OnceCell;

/// The limit of a manifest in bytes: the one of registries.
const MANIFEST_LIMIT: u64 = 4 << 20;
/// The limit of a page of tags or of a token, in bytes.
const PAGE_LIMIT: u64 = 4 << 20;
/// The limit of the number of pages.
const PAGES: usize = 100;
/// The limit of the number of manifests that refer to one manifest: far more than are read.
const REFERRERS: usize = 1000;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// A client of one repository of a registry.
pub(super) struct Repository<'a> {
    clients: &'a Clients,
    connection: &'a Connection,
    /// The base URL, `https://HOST/v2/PATH/`.
    base: Url,
    /// The name `oci://HOST/PATH`, for messages.
    name: String,
    /// The login, after the registry has requested one.
    login: OnceCell<RegistryAuth>,
}

/// The login that a registry accepts.
enum RegistryAuth {
    /// The registry requires a login that the connection does not have.
    Anonymous,
    /// The user and password of the connection.
    Basic,
    /// A token of the registry's token service.
    Token(String),
}

impl<'a> Repository<'a> {
    /// Creates a client of the repository `HOST/PATH`.
    ///
    /// # Errors
    /// Fails if the name has another form.
    pub fn new(clients: &'a Clients, name: &str, connection: &'a Connection) -> Result<Self> {
        let fail = || {
            let message = format!("'oci://{name}' is not a repository, expected oci://HOST/PATH");
            PortError::new(ErrorKind::Invalid, message)
        };
        let (host, path) = name.split_once('/').ok_or_else(fail)?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-/".contains(&b);
        if path.is_empty() || !path.bytes().all(plain) || path.contains("..") {
            return Err(fail());
        }
        // The host of Docker Hub's registry differs from the name in references.
        let host = match host {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            host => host,
        };
        let scheme = if connection.insecure { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{host}/v2/{path}/")).map_err(|_| fail())?;
        if base.host_str().is_none() || !base.username().is_empty() {
            return Err(fail());
        }
        Ok(Self {
            clients,
            connection,
            base,
            name: format!("oci://{name}"),
            login: OnceCell::new(),
        })
    }

    /// Lists all tags.
    ///
    /// # Errors
    /// Fails if the registry does, or if there are too many pages.
    pub async fn tags(&self) -> Result<Vec<String>> {
        let mut url = self.at("tags/list")?;
        url.set_query(Some("n=1000"));
        let mut tags = Vec::new();
        for _ in 0..PAGES {
            let response = self.get(url, None).await?;
            let next = self.next_page(&response);
            let page = tenant_http::body(response, PAGE_LIMIT, &self.name).await?;
            let page: Value = serde_json::from_slice(&page).map_err(|_| self.unreadable("tags"))?;
            let names = page.get("tags").and_then(Value::as_array);
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            tags.extend(names.map(str::to_owned));
            match next {
                Some(next) => url = next,
                None => return Ok(tags),
            }
        }
        let message = format!("'{}' has more than {PAGES} pages of tags", self.name);
        Err(PortError::new(ErrorKind::Invalid, message))
    }

    /// Returns the URL of the next page, which must be on the same host.
    fn next_page(&self, page: &Response) -> Option<Url> {
        let link = page.headers().get(LINK)?;
        let next = self.base.join(&next_page(link.to_str().ok()?)?).ok()?;
        (next.origin() == self.base.origin()).then_some(next)
    }

    /// Lists the manifests that refer to the one of `digest`: from the referrers API, or from the
    /// referrers tag of a registry without that API.
    ///
    /// # Errors
    /// Fails if the registry does, or if a list is not valid or too long.
    pub async fn referrers(&self, digest: &str) -> Result<Vec<Referrer>> {
        let page = self
            .get(self.at(&format!("referrers/{digest}"))?, Some(INDEX))
            .await;
        let first = match page {
            Ok(page) if is_index(&page) => page,
            // Some registries without the API do not answer 404 but something other than an index.
            Ok(_) => return self.tagged_referrers(digest).await,
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Invalid) => {
                return self.tagged_referrers(digest).await;
            }
            Err(error) => return Err(error),
        };
        let (mut found, mut page) = (Vec::new(), first);
        for _ in 0..PAGES {
            let next = self.next_page(&page);
            found.extend(self.read_referrers(page).await?);
            match next {
                Some(next) if found.len() <= REFERRERS => {
                    page = self.get(next, Some(INDEX)).await?
                }
                Some(_) => break,
                None => return Ok(found),
            }
        }
        let message = format!(
            "'{}' lists more than {REFERRERS} manifests, or {PAGES} pages of them, that refer to {digest}",
            self.name
        );
        Err(PortError::new(ErrorKind::Invalid, message))
    }

    async fn tagged_referrers(&self, digest: &str) -> Result<Vec<Referrer>> {
        let url = self.at(&format!("manifests/{}", digest.replace(':', "-")))?;
        match self.get(url, Some(INDEX)).await {
            Ok(page) => self.read_referrers(page).await,
            Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn read_referrers(&self, page: Response) -> Result<Vec<Referrer>> {
        let page = tenant_http::body(page, MANIFEST_LIMIT, &self.name).await?;
        let page = serde_json::from_slice::<Value>(&page).ok();
        let list = page
            .as_ref()
            .and_then(|page| page.get("manifests")?.as_array());
        let list = list.ok_or_else(|| self.unreadable("list of referrers"))?;
        let referrers = list.iter().map(read_referrer).collect::<Option<Vec<_>>>();
        referrers.ok_or_else(|| self.unreadable("list of referrers"))
    }

    /// Reads the manifest of a tag or digest.
    ///
    /// # Errors
    /// Fails if the registry does, if the manifest has another digest than the requested one, or if
    /// it is an index of several artifacts.
    pub async fn manifest(&self, reference: &str) -> Result<Manifest> {
        let url = self.at(&format!("manifests/{reference}"))?;
        let response = self.get(url, Some(MANIFESTS)).await?;
        let bytes = tenant_http::body(response, MANIFEST_LIMIT, &self.name).await?;
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
        if reference.contains(':') && reference != digest {
            return Err(self.unreadable("manifest (unexpected digest)"));
        }
        let manifest: Value =
            serde_json::from_slice(&bytes).map_err(|_| self.unreadable("manifest"))?;
        if manifest.get("manifests").is_some() {
            let message = format!(
                "'{}' with '{reference}' is an index of several artifacts: name one by its digest",
                self.name
            );
            return Err(PortError::new(ErrorKind::Unsupported, message));
        }
        let layers = manifest.get("layers").and_then(Value::as_array);
        let layers = layers.ok_or_else(|| self.unreadable("manifest"))?;
        let artifact_type = match read_string(&manifest, "artifactType") {
            "" => manifest
                .get("config")
                .map_or("", |config| read_string(config, "mediaType")),
            artifact_type => artifact_type,
        };
        Ok(Manifest {
            layers: layers
                .iter()
                .map(|layer| read_layer(layer).ok_or_else(|| self.unreadable("manifest")))
                .collect::<Result<_>>()?,
            annotations: read_annotations(&manifest),
            artifact_type: artifact_type.to_owned(),
            digest,
        })
    }

    /// Reads the bytes of a layer.
    ///
    /// # Errors
    /// Fails if the registry does, or if the layer has more than `limit` bytes or another digest.
    pub async fn layer(&self, layer: &Layer, limit: u64) -> Result<Bytes> {
        let url = self.at(&format!("blobs/{}", layer.digest))?;
        let response = self.get(url, None).await?;
        let bytes = tenant_http::body(response, limit, &self.name).await?;
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
        if digest != layer.digest {
            return Err(self.unreadable("layer (unexpected digest)"));
        }
        Ok(bytes)
    }

    fn at(&self, path: &str) -> Result<Url> {
        let joined = self.base.join(path).ok();
        joined
            .filter(|url| url.path().starts_with(self.base.path()))
            .ok_or_else(|| {
                let message = format!("'{}': '{path}' is not a tag or digest", self.name);
                PortError::new(ErrorKind::Invalid, message)
            })
    }

    fn unreadable(&self, part: &str) -> PortError {
        let message = format!("'{}': the registry's {part} cannot be used", self.name);
        PortError::new(ErrorKind::Unreadable, message)
    }

    /// Sends a request, and logs in if the registry requires it.
    async fn get(&self, url: Url, accept: Option<&'static str>) -> Result<Response> {
        let known = self.login.get();
        let answer = self.ask(url.clone(), accept, known).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || known.is_some() {
            return tenant_http::accepted(answer, &self.name);
        }
        let challenge = answer.headers().get(WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|challenge| challenge.to_str().ok());
        let challenge = challenge.unwrap_or_default().to_owned();
        let login = self
            .login
            .get_or_try_init(|| self.log_in(&challenge))
            .await?;
        if matches!(login, RegistryAuth::Anonymous) {
            return tenant_http::accepted(answer, &self.name);
        }
        let again = self.ask(url, accept, Some(login)).await?;
        tenant_http::accepted(again, &self.name)
    }

    async fn ask(
        &self,
        url: Url,
        accept: Option<&'static str>,
        login: Option<&RegistryAuth>,
    ) -> Result<Response> {
        let accept = accept.map(|kinds| (ACCEPT, HeaderValue::from_static(kinds)));
        let ask = FileRequest {
            url,
            connection: self.connection,
            headers: accept.into_iter().collect(),
            login: match login {
                Some(RegistryAuth::Token(token)) => Login::Bearer(token),
                Some(RegistryAuth::Basic) => Login::of(self.connection),
                Some(RegistryAuth::Anonymous) | None => Login::Anonymous,
            },
            // A layer's bytes are often on another host, whose URL contains the authorization.
            everywhere: false,
            place: &self.name,
        };
        self.clients.ask(ask).await
    }

    async fn log_in(&self, challenge: &str) -> Result<RegistryAuth> {
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Ok(match self.connection.login {
                Some(_) => RegistryAuth::Basic,
                None => RegistryAuth::Anonymous,
            });
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Ok(RegistryAuth::Anonymous);
        }
        let realm = parameter(rest, "realm").and_then(|realm| Url::parse(&realm).ok());
        let mut realm = realm.ok_or_else(|| self.unreadable("login"))?;
        if realm.scheme() != "https" && !self.connection.insecure {
            let message = format!("'{}': the URL of the token service is not https", self.name);
            return Err(PortError::new(ErrorKind::Denied, message));
        }
        for name in ["service", "scope"] {
            if let Some(value) = parameter(rest, name) {
                realm.query_pairs_mut().append_pair(name, &value);
            }
        }
        let place = format!("{} (token service)", self.name);
        let ask = FileRequest {
            url: realm,
            connection: self.connection,
            headers: HeaderMap::new(),
            login: Login::of(self.connection),
            everywhere: false,
            place: &place,
        };
        let response = tenant_http::accepted(self.clients.ask(ask).await?, &place)?;
        let token = tenant_http::body(response, PAGE_LIMIT, &place).await?;
        let token: Value = serde_json::from_slice(&token).map_err(|_| self.unreadable("token"))?;
        let token = token.get("token").or_else(|| token.get("access_token"));
        let token = token.and_then(Value::as_str);
        let token = token.ok_or_else(|| self.unreadable("token"))?;
        Ok(RegistryAuth::Token(token.to_owned()))
    }
}

fn is_index(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.split(';').next() == Some(INDEX))
}

fn read_layer(layer: &Value) -> Option<Layer> {
    Some(Layer {
        media_type: layer.get("mediaType")?.as_str()?.to_owned(),
        digest: read_digest(layer)?,
        size: layer.get("size")?.as_u64()?,
        annotations: read_annotations(layer),
    })
}

fn read_referrer(descriptor: &Value) -> Option<Referrer> {
    Some(Referrer {
        digest: read_digest(descriptor)?,
        artifact_type: read_string(descriptor, "artifactType").to_owned(),
    })
}

fn read_digest(descriptor: &Value) -> Option<String> {
    let digest = descriptor.get("digest")?.as_str()?;
    let hash = digest.strip_prefix("sha256:")?;
    let whole = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    whole.then(|| digest.to_owned())
}

/// Returns a string of a manifest; an empty one if it is absent.
fn read_string<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn read_annotations(value: &Value) -> BTreeMap<String, String> {
    let all = value.get("annotations").and_then(Value::as_object);
    all.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Returns the URL of a header such as `</v2/a/tags/list?last=x>; rel="next"`.
fn next_page(link: &str) -> Option<String> {
    let (address, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then(|| address.to_owned())
}

/// Returns a parameter of a challenge such as `realm="https://…",service="…"`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let (key, after) = rest.split_once('=')?;
        let key = key.trim_start_matches([',', ' ']).trim();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges() {
        let text = r#"realm="https://auth.example.com/token?a=b",service=registry, scope="repository:a/b:pull,push""#;
        assert_eq!(
            parameter(text, "realm").unwrap(),
            "https://auth.example.com/token?a=b"
        );
        assert_eq!(parameter(text, "service").unwrap(), "registry");
        assert_eq!(
            parameter(text, "scope").unwrap(),
            "repository:a/b:pull,push"
        );
        assert_eq!(parameter(text, "error"), None);
        assert_eq!(parameter("nonsense", "realm"), None);
    }

    #[test]
    fn pages() {
        let link = r#"</v2/a/tags/list?n=2&last=x>; rel="next""#;
        assert_eq!(next_page(link).unwrap(), "/v2/a/tags/list?n=2&last=x");
        assert_eq!(next_page("nonsense"), None);
    }

    #[test]
    fn names() {
        let clients = Clients::default();
        let connection = Connection::default();
        let base = |name: &str| {
            let repository = Repository::new(&clients, name, &connection);
            repository
                .map(|repository| repository.base.to_string())
                .ok()
        };
        assert_eq!(base("ghcr.io/a/b").unwrap(), "https://ghcr.io/v2/a/b/");
        assert_eq!(
            base("docker.io/a/b").unwrap(),
            "https://registry-1.docker.io/v2/a/b/"
        );
        for bad in [
            "ghcr.io",
            "ghcr.io/",
            "ghcr.io/a/../b",
            "ghcr.io/A",
            "u:p@ghcr.io/a",
            "ghcr.io/a?b",
        ] {
            assert_eq!(base(bad), None, "{bad}");
        }
        let repository = Repository::new(&clients, "ghcr.io/a/b", &connection).unwrap();
        assert!(repository.at("manifests/1.0").is_ok());
        assert!(repository.at("manifests/../../../c/manifests/1.0").is_err());
    }
}
