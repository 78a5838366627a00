//! Temporary access keys of MinIO's STS for users of LDAP (AssumeRoleWithLDAPIdentity), as minio-go
//! 7.4 requests them.

use crate::tenant_http::{self, Clients};
use aws_sdk_s3::config::Credentials;
use aws_smithy_xml::decode::{Document, try_data};
use driftless_kernel::ports::{ErrorKind, LdapLogin, PortError, Result};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use url::form_urlencoded::Serializer;

/// The limit of an answer, in bytes.
const ANSWER_LIMIT: u64 = 64 << 10;

/// Requests a temporary access key for a user.
///
/// # Errors
/// Fails if the address may not be reached or the service refuses the user. The error never has the
/// text of the answer, which may repeat the password.
pub(super) async fn access_key(clients: &Clients, user: &LdapLogin) -> Result<Credentials> {
    let place = tenant_http::place_of(&user.endpoint);
    let invalid = || PortError::new(ErrorKind::Invalid, format!("'{place}' is not a valid URL"));
    let url = Url::parse(&user.endpoint).map_err(|_| invalid())?;
    let body = Serializer::new(String::new())
        .append_pair("Action", "AssumeRoleWithLDAPIdentity")
        .append_pair("Version", "2011-06-15")
        .append_pair("LDAPUsername", &user.user)
        .append_pair(
            "LDAPPassword",
            user.password.expose_str().unwrap_or_default(),
        )
        .finish();
    let client = clients.client(&url, &user.connection)?;
    let request = client.post(url).body(body);
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let sent = request.send().await;
    let response = sent.map_err(|error| tenant_http::unreachable(&error, place))?;
    let response = tenant_http::accepted(response, place)?;
    let answer = tenant_http::body(response, ANSWER_LIMIT, place).await?;
    let broken = || {
        let message = format!("'{place}': expected an answer with temporary credentials");
        PortError::new(ErrorKind::Unreadable, message)
    };
    let text = std::str::from_utf8(&answer).map_err(|_| broken())?;
    parse(text).ok_or_else(broken)
}

/// Reads the credentials of an answer.
fn parse(text: &str) -> Option<Credentials> {
    let mut document = Document::new(text);
    let mut root = document.root_element().ok()?;
    if !root
        .start_el()
        .matches("AssumeRoleWithLDAPIdentityResponse")
    {
        return None;
    }
    let (mut id, mut secret, mut session) = (None, None, None);
    while let Some(mut result) = root.next_tag() {
        if !result
            .start_el()
            .matches("AssumeRoleWithLDAPIdentityResult")
        {
            continue;
        }
        while let Some(mut given) = result.next_tag() {
            if !given.start_el().matches("Credentials") {
                continue;
            }
            while let Some(mut field) = given.next_tag() {
                let target = match field.start_el().local() {
                    "AccessKeyId" => &mut id,
                    "SecretAccessKey" => &mut secret,
                    "SessionToken" => &mut session,
                    _ => continue,
                };
                *target = Some(try_data(&mut field).ok()?.into_owned());
            }
        }
    }
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let (id, secret) = (given(id)?, given(secret)?);
    Some(Credentials::new(id, secret, given(session), None, "LDAP"))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn answers() {
        let start = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<AssumeRoleWithLDAPIdentityResponse \
                     xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithLDAPIdentityResult>";
        let end = "</AssumeRoleWithLDAPIdentityResult><ResponseMetadata/></AssumeRoleWithLDAPIdentityResponse>";
        let key = "<Credentials><AccessKeyId>ID</AccessKeyId><SecretAccessKey>S&amp;K</SecretAccessKey>\
                   <Expiration>2026-11-26T20:00:00Z</Expiration><SessionToken>T</SessionToken></Credentials>";
        let found = parse(&format!("{start}{key}{end}")).unwrap();
        assert_eq!(
            (
                found.access_key_id(),
                found.secret_access_key(),
                found.session_token()
            ),
            ("ID", "S&K", Some("T"))
        );
        for text in [
            "",
            "<html/>",
            &format!("{start}{end}"),
            &format!("{start}<Credentials><AccessKeyId>ID</AccessKeyId></Credentials>{end}"),
            &format!("{start}{key}"),
        ] {
            // A half answer with a whole key is usable; any other is not.
            assert_eq!(parse(text).is_some(), text.contains("S&amp;K"), "{text}");
        }
    }
}
