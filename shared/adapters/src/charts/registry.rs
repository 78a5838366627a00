//! OCI registries: the parts of the distribution specification 1.1 that reading an artifact takes.
//!
//! Own code, because the registry names the address of its token service: every address must go through the same gate.

use crate::tenant_http::{self, Clients, FileRequest, Login};
use bytes::Bytes;
use driftless_core::ports::{Connection, ErrorKind, Layer, Manifest, PortError, Referrer, Result};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode, Url};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tokio::sync::OnceCell;

/// Bytes of a manifest, as registries have it.
const MANIFEST: u64 = 4 << 20;
/// Bytes of a page of tags, or of a token.
const SMALL: u64 = 4 << 20;
/// Pages of tags.
const PAGES: usize = 100;
/// Manifests that refer to one: far more than anybody looks at.
const REFERRERS: usize = 1000;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// One repository of a registry.
pub(super) struct Repository<'a> {
    clients: &'a Clients,
    how: &'a Connection,
    /// `https://HOST/v2/PATH/`
    base: Url,
    /// For messages.
    name: String,
    /// Once the registry said how it wants it.
    login: OnceCell<RegistryAuth>,
}

/// How the registry lets us in.
enum RegistryAuth {
    /// It wants something that we do not have.
    Nobody,
    /// By user and password.
    Basic,
    /// By a token of its token service.
    Token(String),
}

impl<'a> Repository<'a> {
    /// A repository by its name, `HOST/PATH`.
    ///
    /// # Errors
    /// No such name.
    pub fn new(clients: &'a Clients, name: &str, how: &'a Connection) -> Result<Self> {
        let fail = || {
            let what = format!("'oci://{name}' is not a repository, expected oci://HOST/PATH");
            PortError::new(ErrorKind::Invalid, what)
        };
        let (host, path) = name.split_once('/').ok_or_else(fail)?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-/".contains(&b);
        if path.is_empty() || !path.bytes().all(plain) || path.contains("..") {
            return Err(fail());
        }
        // Docker Hub's registry has another name than the one people write.
        let host = match host {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            host => host,
        };
        let scheme = if how.insecure { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{host}/v2/{path}/")).map_err(|_| fail())?;
        if base.host_str().is_none() || !base.username().is_empty() {
            return Err(fail());
        }
        Ok(Self {
            clients,
            how,
            base,
            name: format!("oci://{name}"),
            login: OnceCell::new(),
        })
    }

    /// Every tag.
    ///
    /// # Errors
    /// The registry's.
    pub async fn tags(&self) -> Result<Vec<String>> {
        let mut url = self.at("tags/list")?;
        url.set_query(Some("n=1000"));
        let mut tags = Vec::new();
        for _ in 0..PAGES {
            let response = self.get(url, None).await?;
            let next = self.next_page(&response);
            let page = tenant_http::body(response, SMALL, &self.name).await?;
            let page: Value = serde_json::from_slice(&page).map_err(|_| self.unreadable("tags"))?;
            let names = page.get("tags").and_then(Value::as_array);
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            tags.extend(names.map(str::to_owned));
            match next {
                Some(next) => url = next,
                None => return Ok(tags),
            }
        }
        let what = format!("'{}' has more than {PAGES} pages of tags", self.name);
        Err(PortError::new(ErrorKind::Invalid, what))
    }

    /// The address of the page behind this one. A registry's pages are its own.
    fn next_page(&self, page: &Response) -> Option<Url> {
        let link = page.headers().get(LINK)?;
        let next = self.base.join(&next_page(link.to_str().ok()?)?).ok()?;
        (next.origin() == self.base.origin()).then_some(next)
    }

    /// What refers to the manifest of `digest`: from the referrers API, or where a registry has none from the tag of the same
    /// name as the digest.
    ///
    /// # Errors
    /// The registry's; lists that cannot be read, or have no end.
    pub async fn referrers(&self, digest: &str) -> Result<Vec<Referrer>> {
        let page = self
            .get(self.at(&format!("referrers/{digest}"))?, Some(INDEX))
            .await;
        let first = match page {
            Ok(page) if is_index(&page) => page,
            // Of registries that know no such address some say so, and some answer it with something else.
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
        let what = format!(
            "'{}' lists more than {REFERRERS} manifests, or {PAGES} pages of them, that refer to {digest}",
            self.name
        );
        Err(PortError::new(ErrorKind::Invalid, what))
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
        let page = tenant_http::body(page, MANIFEST, &self.name).await?;
        let page = serde_json::from_slice::<Value>(&page).ok();
        let list = page
            .as_ref()
            .and_then(|page| page.get("manifests")?.as_array());
        let list = list.ok_or_else(|| self.unreadable("list of referrers"))?;
        let referrers = list.iter().map(read_referrer).collect::<Option<Vec<_>>>();
        referrers.ok_or_else(|| self.unreadable("list of referrers"))
    }

    /// The manifest of a tag or digest.
    ///
    /// # Errors
    /// The registry's; a manifest with another digest than was asked for; an index of several artifacts.
    pub async fn manifest(&self, reference: &str) -> Result<Manifest> {
        let url = self.at(&format!("manifests/{reference}"))?;
        let response = self.get(url, Some(MANIFESTS)).await?;
        let bytes = tenant_http::body(response, MANIFEST, &self.name).await?;
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
        if reference.contains(':') && reference != digest {
            return Err(self.unreadable("manifest (its digest is another one)"));
        }
        let manifest: Value =
            serde_json::from_slice(&bytes).map_err(|_| self.unreadable("manifest"))?;
        if manifest.get("manifests").is_some() {
            let what = format!(
                "'{}' with '{reference}' is an index of several artifacts: name one by its digest",
                self.name
            );
            return Err(PortError::new(ErrorKind::Unsupported, what));
        }
        let layers = manifest.get("layers").and_then(Value::as_array);
        let layers = layers.ok_or_else(|| self.unreadable("manifest"))?;
        let artifact_type = match read_text(&manifest, "artifactType") {
            "" => manifest
                .get("config")
                .map_or("", |config| read_text(config, "mediaType")),
            told => told,
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

    /// The bytes of a layer.
    ///
    /// # Errors
    /// The registry's; more than `limit`; other bytes than the digest stands for.
    pub async fn layer(&self, layer: &Layer, limit: u64) -> Result<Bytes> {
        let url = self.at(&format!("blobs/{}", layer.digest))?;
        let response = self.get(url, None).await?;
        let bytes = tenant_http::body(response, limit, &self.name).await?;
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
        if digest != layer.digest {
            return Err(self.unreadable("layer (its digest is another one)"));
        }
        Ok(bytes)
    }

    fn at(&self, path: &str) -> Result<Url> {
        let joined = self.base.join(path).ok();
        joined
            .filter(|url| url.path().starts_with(self.base.path()))
            .ok_or_else(|| {
                let what = format!("'{}': '{path}' is not a tag or digest", self.name);
                PortError::new(ErrorKind::Invalid, what)
            })
    }

    fn unreadable(&self, what: &str) -> PortError {
        let what = format!("'{}': the registry's {what} cannot be used", self.name);
        PortError::new(ErrorKind::Unreadable, what)
    }

    /// Asks; logs in as the registry wants it when it says so.
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
        if matches!(login, RegistryAuth::Nobody) {
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
            how: self.how,
            headers: accept.into_iter().collect(),
            login: match login {
                Some(RegistryAuth::Token(token)) => Login::Bearer(token),
                Some(RegistryAuth::Basic) => Login::of(self.how),
                Some(RegistryAuth::Nobody) | None => Login::Nobody,
            },
            // A layer's bytes are often at another host, whose address is all it takes.
            everywhere: false,
            place: &self.name,
        };
        self.clients.ask(ask).await
    }

    async fn log_in(&self, challenge: &str) -> Result<RegistryAuth> {
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Ok(match self.how.login {
                Some(_) => RegistryAuth::Basic,
                None => RegistryAuth::Nobody,
            });
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Ok(RegistryAuth::Nobody);
        }
        let realm = parameter(rest, "realm").and_then(|realm| Url::parse(&realm).ok());
        let mut realm = realm.ok_or_else(|| self.unreadable("login"))?;
        if realm.scheme() != "https" && !self.how.insecure {
            let what = format!("'{}': its token service is not https", self.name);
            return Err(PortError::new(ErrorKind::Denied, what));
        }
        for name in ["service", "scope"] {
            if let Some(value) = parameter(rest, name) {
                realm.query_pairs_mut().append_pair(name, &value);
            }
        }
        let place = format!("{} (token service)", self.name);
        let ask = FileRequest {
            url: realm,
            how: self.how,
            headers: HeaderMap::new(),
            login: Login::of(self.how),
            everywhere: false,
            place: &place,
        };
        let response = tenant_http::accepted(self.clients.ask(ask).await?, &place)?;
        let token = tenant_http::body(response, SMALL, &place).await?;
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
        artifact_type: read_text(descriptor, "artifactType").to_owned(),
    })
}

fn read_digest(descriptor: &Value) -> Option<String> {
    let digest = descriptor.get("digest")?.as_str()?;
    let hash = digest.strip_prefix("sha256:")?;
    let whole = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    whole.then(|| digest.to_owned())
}

/// A text of a manifest; empty when absent.
fn read_text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn read_annotations(value: &Value) -> BTreeMap<String, String> {
    let all = value.get("annotations").and_then(Value::as_object);
    all.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// `</v2/a/tags/list?last=x>; rel="next"`
fn next_page(link: &str) -> Option<String> {
    let (address, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then(|| address.to_owned())
}

/// A parameter of a challenge: `realm="https://…",service="…"`.
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
        let how = Connection::default();
        let base = |name: &str| {
            let repository = Repository::new(&clients, name, &how);
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
        let repository = Repository::new(&clients, "ghcr.io/a/b", &how).unwrap();
        assert!(repository.at("manifests/1.0").is_ok());
        assert!(repository.at("manifests/../../../c/manifests/1.0").is_err());
    }
}
