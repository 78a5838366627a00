//! Buckets of objects that a user names as a source.

use super::{AwsIdentity, Connection, EntraIdentity, GoogleLogin, Result, Secret};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// The address of a bucket, and the credentials for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketAddress {
    /// The URL: `https://HOST[:PORT]`, or `http://` without TLS. That of Azure may have a path.
    pub endpoint: String,
    /// The bucket's name.
    pub name: String,
    /// The region; empty if the endpoint's name contains it, or the endpoint has none.
    pub region: String,
    /// The options of the connection. With [`BucketLogin::AccessKey`], the login is an access key's
    /// id and its secret; without a login, requests are anonymous.
    pub connection: Connection,
    /// The API of the bucket, and the identity that requests are made with.
    pub login: BucketLogin,
}

impl BucketAddress {
    /// Returns a name of the login, which differs for different logins; `None` without a login.
    pub fn identity(&self) -> Option<String> {
        match &self.login {
            BucketLogin::AccessKey => self.connection.identity(),
            BucketLogin::Aws { identity, .. } => Some(match identity {
                AwsIdentity::Installation => "installation".to_owned(),
                AwsIdentity::Role { arn, session, .. } => format!("{arn} {session}"),
                AwsIdentity::AccessKey { id, .. } => id.clone(),
            }),
            BucketLogin::Ldap(ldap) => Some(format!("{} {}", ldap.endpoint, ldap.user)),
            BucketLogin::Google(GoogleLogin::Principal(one)) => {
                let account = one.account.as_deref().unwrap_or_default();
                Some(format!("{} {account}", one.provider))
            }
            BucketLogin::Google(GoogleLogin::ServiceAccountKey { email, id, .. }) => {
                Some(format!("{email} {id}"))
            }
            BucketLogin::Azure(AzureBucketLogin::Entra(one)) => {
                Some(format!("{} {}", one.tenant, one.client))
            }
            BucketLogin::Azure(AzureBucketLogin::AccountKey { account, .. }) => {
                Some(account.clone())
            }
            BucketLogin::Azure(AzureBucketLogin::Sas(_)) => Some("sas".to_owned()),
        }
    }
}

/// The API of a bucket, and the identity that requests are made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BucketLogin {
    /// S3's API, with the access key of the connection.
    #[default]
    AccessKey,
    /// S3's API, as an identity at AWS.
    Aws {
        /// The identity that signs the requests.
        identity: AwsIdentity,
        /// The URL of the STS that a role is assumed at; the region's own without it.
        sts: Option<String>,
    },
    /// S3's API, with the temporary access key of a user of LDAP.
    Ldap(Box<LdapLogin>),
    /// Google Cloud Storage. The endpoint of the address has no effect.
    Google(GoogleLogin),
    /// Azure Blob Storage. The bucket is a container.
    Azure(AzureBucketLogin),
}

/// A user of LDAP, for whom the STS of MinIO issues a temporary access key
/// (AssumeRoleWithLDAPIdentity).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapLogin {
    /// The URL of the STS. A tenant names it.
    pub endpoint: String,
    /// The name of the user.
    pub user: String,
    /// The password of the user.
    pub password: Secret,
    /// The options of the connection to the STS.
    pub connection: Connection,
}

/// The proof that a container of Azure may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AzureBucketLogin {
    /// A token of an application of Entra ID, which is only sent to Azure's own hosts.
    Entra(EntraIdentity),
    /// The key of a storage account, which signs each request.
    AccountKey {
        /// The name of the storage account.
        account: String,
        /// The key as base64.
        key: Secret,
    },
    /// A shared access signature: the query that each request has.
    Sas(Secret),
}

/// An object in a listing of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketEntry {
    /// The object's key. It is not validated: it may contain `../`, or be the directory of other
    /// keys.
    pub key: String,
    /// The ETag of the content, without quotes.
    pub etag: String,
    /// The size in bytes.
    pub size: u64,
}

/// An object of a bucket, with its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketObject {
    /// The ETag of the content, without quotes.
    pub etag: String,
    /// The object's content.
    pub bytes: Bytes,
}

/// The port to buckets. Users name the hosts, so an implementation reaches no address of the
/// installation itself unless [`Connection::allow_local`] is set, follows no redirect, and reads no
/// more than its limit.
#[async_trait]
pub trait Buckets: Send + Sync {
    /// Returns the bucket at an address, without a request to it.
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>>;
}

/// A bucket, for reads only.
#[async_trait]
pub trait Bucket: Send + Sync {
    /// Lists every object whose key starts with `prefix`. Fails with `Invalid` if there are more
    /// than `most`, and with `NotFound` if the bucket does not exist.
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>>;

    /// Reads an object of at most `limit` bytes; `None` if no object has that key.
    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>>;
}
