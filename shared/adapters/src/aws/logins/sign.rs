//! Signs requests with AWS Signature Version 4.

use aws_sdk_s3::config::Credentials;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use driftless_kernel::ports::{ErrorKind, PortError, Result};
use http::{Method, Request};
use std::time::{Duration, UNIX_EPOCH};

/// A request to a service, with the scope of its signature.
pub struct SigningRequest<'a> {
    /// The method, `GET` or `POST`.
    pub method: Method,
    /// The name of the service in the signature: `eks`, `ecr`, `kms` or `sts`.
    pub service: &'static str,
    /// The region that the request is signed for.
    pub region: &'a str,
    /// The URL of the request.
    pub url: &'a str,
    /// The headers to sign.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body of the request.
    pub body: &'a str,
    /// The time of the signature, since 1970.
    pub now: Duration,
}

impl<'a> SigningRequest<'a> {
    /// Creates a GET request without headers or body.
    pub fn get(service: &'static str, region: &'a str, url: &'a str, now: Duration) -> Self {
        Self {
            method: Method::GET,
            service,
            region,
            url,
            headers: &[],
            body: "",
            now,
        }
    }

    /// Returns the request with its signature in headers.
    ///
    /// # Errors
    /// Fails if the URL or a header is not valid.
    pub fn signed(&self, credentials: Credentials) -> Result<Request<Vec<u8>>> {
        self.sign(credentials, SigningSettings::default())
    }

    /// Returns the URL with a signature in its query that is valid for `life`.
    ///
    /// # Errors
    /// Fails as [`SigningRequest::signed`] does.
    pub fn presigned(&self, credentials: Credentials, life: Duration) -> Result<String> {
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(life);
        let request = self.sign(credentials, settings)?;
        Ok(request.uri().to_string())
    }

    fn sign(
        &self,
        credentials: Credentials,
        settings: SigningSettings,
    ) -> Result<Request<Vec<u8>>> {
        let broken = || {
            let message = format!("a request to {} cannot be signed", self.service);
            PortError::new(ErrorKind::Invalid, message)
        };
        let identity = credentials.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(self.region)
            .name(self.service)
            .time(UNIX_EPOCH + self.now)
            .settings(settings)
            .build()
            .map_err(|_| broken())?;
        let mut request = Request::builder().method(&self.method).uri(self.url);
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        let body = self.body.as_bytes();
        let mut request = request.body(body.to_vec()).map_err(|_| broken())?;
        let headers = self.headers.iter().copied();
        let body = SignableBody::Bytes(body);
        let signable = SignableRequest::new(self.method.as_str(), self.url, headers, body)
            .map_err(|_| broken())?;
        let (instructions, _) = sign(signable, &params.into())
            .map_err(|_| broken())?
            .into_parts();
        instructions.apply_to_request_http1x(&mut request);
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Credentials {
        Credentials::new(
            "AKIDEXAMPLE",
            "secret",
            Some("session".into()),
            None,
            "test",
        )
    }

    #[test]
    fn in_headers_or_in_the_address() {
        let url = "https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity";
        let now = Duration::from_secs(1_700_000_000);
        let get = SigningRequest {
            headers: &[("x-k8s-aws-id", "prod")],
            ..SigningRequest::get("sts", "eu-west-1", url, now)
        };
        let signed = get.signed(key()).unwrap();
        let header = |name: &str| signed.headers()[name].to_str().unwrap();
        let prefix = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20231114/eu-west-1/sts/aws4_request, \
                    SignedHeaders=host;x-amz-date;x-amz-security-token;x-k8s-aws-id, Signature=";
        assert!(
            header("authorization").starts_with(prefix),
            "{}",
            header("authorization")
        );
        assert_eq!(header("x-amz-security-token"), "session");

        let url = get.presigned(key(), Duration::from_secs(900)).unwrap();
        for part in [
            "https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity&",
            "X-Amz-Date=20231114T221320Z",
            "X-Amz-Expires=900",
            "X-Amz-SignedHeaders=host%3Bx-k8s-aws-id",
            "X-Amz-Security-Token=session",
            "X-Amz-Signature=",
        ] {
            assert!(url.contains(part), "{part} in {url}");
        }
        assert!(!url.contains("=secret"));
        let other = SigningRequest {
            headers: &[("x-k8s-aws-id", "test")],
            ..get
        };
        assert_ne!(
            url,
            other.presigned(key(), Duration::from_secs(900)).unwrap()
        );
    }
}
