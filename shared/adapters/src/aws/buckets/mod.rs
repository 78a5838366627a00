//! Buckets that users name, on any service with S3's API.

mod connector;
mod ldap;

use super::error::{status_and_code, to_error};
use super::logins::AwsLogins;
use crate::local::SystemClock;
use crate::tenant_http::Clients;
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials, Region, ResponseChecksumValidation,
    SharedCredentialsProvider,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::EncodingType;
use bytes::{Bytes, BytesMut};
use connector::Gate;
use driftless_kernel::ports::{
    Bucket, BucketAddress, BucketEntry, BucketLogin, BucketObject, Buckets, Clock as _, ErrorKind,
    PortError, Result,
};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// The limit of one page of a list, in bytes: 1,000 keys of 1,000 bytes, each byte written as
/// three, and their attributes.
const PAGE_LIMIT: usize = 8 << 20;
/// The number of successive pages without entries that are accepted.
const EMPTY_PAGES: usize = 10;
/// The delay before the second attempt. The step itself is also retried.
const BACKOFF: Duration = Duration::from_millis(200);
/// The greatest buffer that is allocated for an object before its bytes arrive, in bytes.
const INITIAL_CAPACITY: u64 = 1 << 20;

/// The adapter of the port [`Buckets`] for services with S3's API.
#[derive(Clone, Default)]
pub struct S3Buckets {
    clients: Arc<Clients>,
    logins: AwsLogins,
}

impl S3Buckets {
    /// Creates the adapter; the installation's own role is read from the environment when it is
    /// first needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the adapter with the installation's role from loaded settings.
    pub fn with_role(settings: &SdkConfig) -> Self {
        Self::with_logins(AwsLogins::with_role(settings))
    }

    /// Creates the adapter. It shares the cache of roles with these logins.
    pub fn with_logins(logins: AwsLogins) -> Self {
        Self {
            logins,
            ..Self::default()
        }
    }

    /// Returns the credentials for an address; `None` for anonymous access, without an access key
    /// or role.
    async fn login(
        &self,
        address: &BucketAddress,
        region: &str,
    ) -> Result<Option<SharedCredentialsProvider>> {
        let key = match &address.login {
            BucketLogin::Aws { identity, sts } => {
                let sts = sts.as_deref();
                let login = self
                    .logins
                    .for_buckets(region, identity, sts, SystemClock.now())
                    .await?;
                return Ok(Some(login));
            }
            BucketLogin::Ldap(user) => ldap::access_key(&self.clients, user).await?,
            BucketLogin::AccessKey => match &address.connection.login {
                Some((id, secret)) => {
                    let secret = secret.expose_str().unwrap_or_default();
                    Credentials::new(id, secret, None, None, "secretRef")
                }
                None => return Ok(None),
            },
            BucketLogin::Google(_) | BucketLogin::Azure(_) => {
                let message = format!("'{}' is not a bucket with S3's API", address.endpoint);
                return Err(PortError::new(ErrorKind::Unsupported, message));
            }
        };
        Ok(Some(SharedCredentialsProvider::new(key)))
    }

    fn client(
        &self,
        address: &BucketAddress,
        host: &str,
        login: Option<SharedCredentialsProvider>,
        limit: usize,
    ) -> Client {
        let connection = &address.connection;
        let gate = Gate::new(self.clients.clone(), connection.clone(), limit);
        let timeouts = TimeoutConfig::builder().operation_timeout(connection.timeout);
        let config = Builder::new()
            .behavior_version(BehaviorVersion::latest())
            .http_client(gate.into_client())
            .endpoint_url(endpoint_of(&address.endpoint, &address.region))
            .region(Region::new(region(&address.region, host)))
            .force_path_style(!puts_buckets_into_names(host))
            .disable_s3_express_session_auth(true)
            .timeout_config(timeouts.build())
            .retry_config(RetryConfig::standard().with_initial_backoff(BACKOFF))
            // Not all services support the header that requests checksums; TLS and the ETag protect
            // the content.
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        let config = match login {
            Some(login) => config.credentials_provider(login),
            None => config.allow_no_auth(),
        };
        Client::from_conf(config.build())
    }
}

#[async_trait]
impl Buckets for S3Buckets {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        let endpoint = Url::parse(&address.endpoint).map_err(|error| {
            let message = format!("'{}': {error}", address.endpoint);
            PortError::new(ErrorKind::Invalid, message)
        })?;
        let host = endpoint.host_str().unwrap_or_default();
        let region = region(&address.region, host);
        let login = self.login(address, &region).await?;
        Ok(Arc::new(S3Bucket {
            lists: self.client(address, host, login.clone(), PAGE_LIMIT),
            objects: self.client(address, host, login, usize::MAX),
            name: address.name.clone(),
            place: format!("{}/{}", address.endpoint, address.name),
        }))
    }
}

/// Returns the endpoint of a region in place of `s3.amazonaws.com`, which is the endpoint of one
/// region only.
fn endpoint_of(endpoint: &str, region: &str) -> String {
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match endpoint {
        "https://s3.amazonaws.com" if !region.is_empty() && is_name(region) => {
            format!("https://s3.{region}.amazonaws.com")
        }
        endpoint => endpoint.to_owned(),
    }
}

/// Returns the region that requests are signed for: the given one, or that of a host such as
/// `s3.eu-west-1.amazonaws.com`.
fn region(given: &str, host: &str) -> String {
    let from_host = || {
        let name = host.strip_suffix(".amazonaws.com")?;
        let (_, region) = name.split_once("s3.").or_else(|| name.split_once("s3-"))?;
        region.rsplit('.').next()
    };
    match given {
        "" => from_host().unwrap_or("us-east-1").to_owned(),
        given => given.to_owned(),
    }
}

/// Returns whether a host expects the bucket as a prefix of its name; other hosts expect it in the
/// path.
fn puts_buckets_into_names(host: &str) -> bool {
    [".amazonaws.com", ".amazonaws.com.cn", ".aliyuncs.com"]
        .iter()
        .any(|domain| host.ends_with(domain))
}

struct S3Bucket {
    lists: Client,
    objects: Client,
    name: String,
    /// The endpoint and the bucket, for messages.
    place: String,
}

#[async_trait]
impl Bucket for S3Bucket {
    async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<BucketEntry>> {
        let operation = format!("list '{}'", self.place);
        let broken =
            |reason: &str| PortError::new(ErrorKind::Unreadable, format!("{operation}: {reason}"));
        let (mut found, mut next, mut empty) = (Vec::new(), None, 0);
        loop {
            let request = self
                .lists
                .list_objects_v2()
                .bucket(&self.name)
                .encoding_type(EncodingType::Url)
                .set_prefix((!prefix.is_empty()).then(|| prefix.to_owned()))
                .set_continuation_token(next);
            let page = request
                .send()
                .await
                .map_err(|error| failure(&operation, &error))?;
            // The parser accepts a truncated page, so compare the number of entries with the
            // announced one.
            let entries = page.contents.as_ref().map_or(0, Vec::len);
            let count = page.key_count.and_then(|count| usize::try_from(count).ok());
            let (Some(is_truncated), true) =
                (page.is_truncated, count.is_none_or(|n| n == entries))
            else {
                return Err(broken("the response is not a complete page of the list"));
            };
            let is_encoded = page.encoding_type == Some(EncodingType::Url);
            let before = found.len();
            for object in page.contents.unwrap_or_default() {
                let key = object.key.ok_or_else(|| broken("an entry has no key"))?;
                let etag = object.e_tag.ok_or_else(|| broken("an entry has no ETag"))?;
                found.push(BucketEntry {
                    key: if is_encoded { decoded(&key) } else { key },
                    etag: bare(&etag),
                    size: u64::try_from(object.size.unwrap_or_default()).unwrap_or_default(),
                });
            }
            if found.len() > limit {
                let message = format!("{operation}: more than {limit} objects, which is the limit");
                return Err(PortError::new(ErrorKind::Invalid, message));
            }
            empty = if found.len() == before { empty + 1 } else { 0 };
            next = page.next_continuation_token;
            match (is_truncated, &next) {
                (false, _) => return Ok(found),
                (true, Some(_)) if empty < EMPTY_PAGES => {}
                (true, _) => {
                    return Err(broken(
                        "the list is truncated but has no continuation token",
                    ));
                }
            }
        }
    }

    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>> {
        let operation = format!("read '{}/{key}'", self.place);
        let request = self.objects.get_object().bucket(&self.name).key(key);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if status_and_code(&error).is_some_and(|(_, code)| code == "NoSuchKey") => {
                return Ok(None);
            }
            Err(error) => return Err(failure(&operation, &error)),
        };
        let Some(etag) = answer.e_tag else {
            let message = format!("{operation}: the answer has no ETag");
            return Err(PortError::new(ErrorKind::Unreadable, message));
        };
        let announced = answer
            .content_length
            .and_then(|length| u64::try_from(length).ok());
        let bytes = body(
            answer.body,
            announced.unwrap_or_default(),
            limit,
            &operation,
        )
        .await?;
        Ok(Some(BucketObject {
            etag: bare(&etag),
            bytes,
        }))
    }
}

/// Converts the error of an operation: the host's answer, or the reason why the request was not
/// sent.
fn failure<E: ProvideErrorMetadata>(
    operation: &str,
    error: &SdkError<E, HttpResponse>,
) -> PortError {
    match connector::port_error(error) {
        Some(not_sent) => PortError {
            message: format!("{operation}: {not_sent}"),
            ..not_sent.clone()
        },
        None => {
            let mut failure = to_error(operation, error);
            let raw = error.raw_response();
            if let Some(region) = raw.and_then(|raw| raw.headers().get("x-amz-bucket-region")) {
                let safe = |c: char| c.is_ascii_alphanumeric() || c == '-';
                let region: String = region.chars().filter(|c| safe(*c)).take(32).collect();
                failure
                    .message
                    .push_str(&format!(" (the bucket's region is {region})"));
            }
            failure
        }
    }
}

/// Reads the bytes of an object. Fails if there are more than `limit`.
async fn body(
    mut stream: ByteStream,
    announced: u64,
    limit: u64,
    operation: &str,
) -> Result<Bytes> {
    let too_long = || {
        let message = format!("{operation}: larger than {limit} bytes, which is the limit");
        PortError::new(ErrorKind::Invalid, message)
    };
    if announced > limit {
        return Err(too_long());
    }
    let mut bytes = BytesMut::with_capacity(announced.min(INITIAL_CAPACITY) as usize);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| {
            PortError::new(
                ErrorKind::Unavailable,
                format!("{operation}: the body is incomplete"),
            )
        })?;
        if (bytes.len() + chunk.len()) as u64 > limit {
            return Err(too_long());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// Decodes a key of a list, which is URL-encoded.
fn decoded(key: &str) -> String {
    let pairs = format!("k={}", key.replace('&', "%26"));
    let mut pairs = url::form_urlencoded::parse(pairs.as_bytes());
    pairs
        .next()
        .map(|(_, key)| key.into_owned())
        .unwrap_or_default()
}

fn bare(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_and_styles() {
        for (given, host, expected, in_name) in [
            ("", "s3.amazonaws.com", "us-east-1", true),
            ("", "s3.eu-west-1.amazonaws.com", "eu-west-1", true),
            ("", "s3-eu-west-1.amazonaws.com", "eu-west-1", true),
            (
                "",
                "s3.dualstack.eu-west-1.amazonaws.com",
                "eu-west-1",
                true,
            ),
            ("eu-north-1", "s3.amazonaws.com", "eu-north-1", true),
            ("", "minio.example.com", "us-east-1", false),
            ("home", "minio.example.com", "home", false),
            ("", "10.0.0.1", "us-east-1", false),
        ] {
            assert_eq!(region(given, host), expected, "{host}");
            assert_eq!(puts_buckets_into_names(host), in_name, "{host}");
        }
    }

    #[test]
    fn endpoints_of_regions() {
        assert_eq!(
            endpoint_of("https://s3.amazonaws.com", "eu-west-1"),
            "https://s3.eu-west-1.amazonaws.com"
        );
        for (given, region) in [
            ("https://s3.amazonaws.com", ""),
            ("https://s3.amazonaws.com", "acme.example/"),
            ("https://minio.example.com", "eu-west-1"),
            ("https://s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ] {
            assert_eq!(endpoint_of(given, region), given);
        }
    }

    #[test]
    fn keys_of_a_list() {
        assert_eq!(decoded("a/b%2Bc+d%26e&f%3Dg"), "a/b+c d&e&f=g");
        assert_eq!(decoded("%01%C3%BC%252e"), "\u{1}ü%2e");
    }
}
