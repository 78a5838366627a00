//! AWS CodeCommit: the user and password of a Git repository, which is a signature over its URL, as
//! github.com/aws/git-remote-codecommit makes it.

use super::Shared;
use aws_sdk_s3::config::Credentials;
use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use driftless_kernel::ports::{
    AwsIdentity, CodeCommit, ErrorKind, PortError, RegistryLogin, Result, Secret,
};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::time::{Duration, UNIX_EPOCH};

const SERVICE: &str = "codecommit";
/// The time for which CodeCommit accepts a signature.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

impl Shared {
    /// Makes a login; returns it with its expiry.
    pub(super) async fn git(
        &self,
        repository: &CodeCommit,
        identity: &AwsIdentity,
        now: Duration,
    ) -> Result<(RegistryLogin, Duration)> {
        let credentials = self.credentials(&repository.region, identity, now).await?;
        let end = credentials.expiry();
        let end = end.and_then(|end| end.duration_since(UNIX_EPOCH).ok());
        let end = end.map_or(now + LIFETIME, |end| end.min(now + LIFETIME));
        Ok((login(repository, &credentials, now)?, end))
    }
}

/// Signs the URL of a repository.
fn login(
    repository: &CodeCommit,
    credentials: &Credentials,
    now: Duration,
) -> Result<RegistryLogin> {
    let broken = || PortError::new(ErrorKind::Invalid, "the time cannot be signed");
    let seconds = i64::try_from(now.as_secs()).map_err(|_| broken())?;
    let time = Timestamp::from_second(seconds).map_err(|_| broken())?;
    let stamp = time.strftime("%Y%m%dT%H%M%S").to_string();
    let (day, _) = stamp.split_once('T').ok_or_else(broken)?;
    let CodeCommit { host, region, path } = repository;
    let request = format!("GIT\n{path}\n\nhost:{host}\n\nhost\n");
    let request = hex::encode(Sha256::digest(request));
    let text =
        format!("AWS4-HMAC-SHA256\n{stamp}\n{day}/{region}/{SERVICE}/aws4_request\n{request}");
    let secret = credentials.secret_access_key();
    let key = generate_signing_key(secret, UNIX_EPOCH + now, region, SERVICE);
    let signature = calculate_signature(key, text.as_bytes());
    let user = match credentials.session_token() {
        Some(session) => format!("{}%{session}", credentials.access_key_id()),
        None => credentials.access_key_id().to_owned(),
    };
    Ok(RegistryLogin {
        user,
        password: Secret::new(format!("{stamp}Z{signature}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_as_botocore_signs_them() {
        let url = "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet";
        let repository = CodeCommit::parse(url).unwrap();
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let session = Some("session/token+=".to_owned());
        let credentials = Credentials::new("AKIDEXAMPLE", secret, session, None, "test");
        let now = Duration::from_secs(1_767_225_600);
        let found = login(&repository, &credentials, now).unwrap();
        assert_eq!(found.user, "AKIDEXAMPLE%session/token+=");
        // Written by botocore 1.43 with the algorithm of git-remote-codecommit 1.17.
        assert_eq!(
            found.password.expose_str().unwrap(),
            "20260101T000000Zd1bc3f228fb4836cb7ce1b00e4445307d8054dbbb17666285151d3e64d25b09c"
        );
    }
}
