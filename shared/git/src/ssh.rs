//! Runs `git-upload-pack` over SSH.

use crate::error::{BoxError, Error, Limit, Result, quoted};
use crate::known_hosts::HostKeys;
use crate::limits::Deadline;
use crate::packets::Packets;
use crate::remote::{Auth, Remote, SshLogin};
use bytes::Bytes;
use futures::StreamExt;
use russh::client::{self, AuthResult, Handle, Msg};
use russh::keys::{
    HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate, decode_secret_key,
};
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes of the server's stderr that are kept.
const STDERR_LIMIT: usize = 1000;
/// Parts of the messages for a repository that does not exist: git, GitHub, GitLab, Bitbucket,
/// Gitea, Azure DevOps.
const MISSING_REPOSITORY_MESSAGES: [&str; 5] = [
    "not appear to be a git repository",
    "not found",
    "not be found",
    "does not exist",
    "no such repository",
];

/// A running `git-upload-pack`.
pub(crate) struct Ssh {
    // Dropping the session closes the connection.
    _session: Handle<Client>,
    write: ChannelWriteHalf<Msg>,
    stderr: Arc<Mutex<Vec<u8>>>,
    place: String,
    deadline: Deadline,
}

impl Ssh {
    pub async fn open(remote: &Remote, deadline: Deadline) -> Result<(Self, Packets)> {
        let Auth::Ssh(login) = &remote.auth else {
            let message = "a repository over SSH needs a Secret with identity and known_hosts";
            return Err(Error::Login(message.to_owned()));
        };
        let (url, place) = (&remote.url, remote.url.place());
        let (host, port) = (url.host(), url.ssh_port());
        let key = identity(login)?;
        let known = HostKeys::read(&login.known_hosts, &host, port)?;
        let stream = deadline.wait(remote.network.connect(&host, port)).await?;
        let stream = stream.map_err(|source| Error::Unreachable {
            place: place.clone(),
            source,
        })?;

        let refused = Arc::new(Mutex::new(None));
        let config = Arc::new(config(&known));
        let client = Client {
            known,
            refused: refused.clone(),
        };
        let session = deadline
            .wait(client::connect_stream(config, stream, client))
            .await?;
        let failed = |error: russh::Error| {
            let host_key_error = refused
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            host_key_error.unwrap_or_else(|| failure(error, &place))
        };
        let mut session = session.map_err(failed)?;
        let user = url.ssh_user();
        let entered = deadline.wait(enter(&mut session, &user, key)).await?;
        if !entered.map_err(|error| failure(error, &place))? {
            let message = format!(
                "the server refuses the key for user '{}' of '{place}'",
                quoted(user.as_bytes())
            );
            return Err(Error::Unauthorised(message));
        }
        let started = deadline.wait(start(&session, &url.ssh_path())).await?;
        let (read, write) = started.map_err(|error| failure(error, &place))?;
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let body = futures::stream::unfold((read, stderr.clone()), next).boxed();
        let limit = Limit::References(remote.limits.references);
        let packets = Packets::new(body, &place, limit, deadline);
        let ssh = Self {
            _session: session,
            write,
            stderr,
            place,
            deadline,
        };
        Ok((ssh, packets))
    }

    pub async fn command(&self, request: Vec<u8>) -> Result<()> {
        let sent = self.deadline.wait(self.write.data_bytes(request)).await?;
        sent.map_err(|error| failure(error, &self.place))
    }

    /// Returns the error that the server wrote to stderr, if any, for an answer that is not valid.
    pub fn failure(&self) -> Option<Error> {
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr = quoted(&stderr);
        if stderr.is_empty() {
            return None;
        }
        let lower = stderr.to_lowercase();
        Some(
            match MISSING_REPOSITORY_MESSAGES
                .iter()
                .any(|absent| lower.contains(absent))
            {
                true => Error::NotFound(format!(
                    "the repository '{}' does not exist: {stderr}",
                    self.place
                )),
                false => Error::Refused(stderr),
            },
        )
    }
}

/// Decodes the private key of a login.
fn identity(login: &SshLogin) -> Result<PrivateKey> {
    let invalid = |reason: &str| Error::Login(format!("identity: {reason}"));
    let Ok(text) = std::str::from_utf8(login.identity.expose()) else {
        return Err(invalid("is not a private key in PEM"));
    };
    let is_old = text.contains("DEK-Info:");
    if is_old
        && !(text.contains("BEGIN RSA PRIVATE KEY") && text.contains("DEK-Info: AES-128-CBC,"))
    {
        let reason = "is encrypted in the old PEM format, which is supported only for RSA with AES-128-CBC: convert it with \
                            ssh-keygen -p -f FILE";
        return Err(invalid(reason));
    }
    // Try without the password first: a password for an unencrypted key is ignored.
    let open = decode_secret_key(text, None);
    let open = open.ok().filter(|key| !key.is_encrypted());
    if let Some(key) = open {
        return Ok(key);
    }
    let Some(password) = &login.password else {
        return Err(invalid("is not a private key, or needs a password"));
    };
    let password = std::str::from_utf8(password.expose());
    let password = password.map_err(|_| invalid("the password is not UTF-8"))?;
    // The library's message is not used: it may quote the key.
    decode_secret_key(text, Some(password))
        .map_err(|_| invalid("cannot be decrypted with the password"))
}

fn config(known: &HostKeys) -> client::Config {
    let mut config = client::Config::default();
    let mut keys = config.preferred.key.to_vec();
    keys.retain(|algorithm| known.has(algorithm));
    config.preferred.key = Cow::Owned(keys);
    config
}

async fn enter(
    session: &mut Handle<Client>,
    user: &str,
    key: PrivateKey,
) -> Result<bool, russh::Error> {
    let key = Arc::new(key);
    let hashes = match key.algorithm().is_rsa() {
        false => vec![None],
        true => match session.best_supported_rsa_hash().await? {
            Some(Some(hash)) => vec![Some(hash)],
            // The server announces no hash, or only SHA-1, which is not used here.
            _ => vec![Some(HashAlg::Sha512), Some(HashAlg::Sha256)],
        },
    };
    for hash in hashes {
        let key = PrivateKeyWithHashAlg::new(key.clone(), hash);
        if let AuthResult::Success = session.authenticate_publickey(user, key).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn start(
    session: &Handle<Client>,
    path: &[u8],
) -> Result<(ChannelReadHalf, ChannelWriteHalf<Msg>), russh::Error> {
    let channel = session.channel_open_session().await?;
    // A server that does not accept the variable uses version 0.
    channel.set_env(false, "GIT_PROTOCOL", "version=2").await?;
    let command = [b"git-upload-pack ".as_slice(), &shell_quoted(path)].concat();
    channel.exec(true, command).await?;
    Ok(channel.split())
}

/// Quotes a path with single quotes, as git's `sq_quote` does.
fn shell_quoted(text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    for byte in text {
        match byte {
            b'\'' | b'!' => out.extend_from_slice(&[b'\'', b'\\', *byte, b'\'']),
            _ => out.push(*byte),
        }
    }
    out.push(b'\'');
    out
}

type ResponseStream = (ChannelReadHalf, Arc<Mutex<Vec<u8>>>);

/// Returns the next bytes of the answer, and collects stderr.
async fn next(
    (mut read, stderr): ResponseStream,
) -> Option<(Result<Bytes, BoxError>, ResponseStream)> {
    loop {
        match read.wait().await? {
            ChannelMsg::Data { data } => return Some((Ok(data), (read, stderr))),
            ChannelMsg::ExtendedData { data, .. } => {
                let mut kept = stderr.lock().unwrap_or_else(PoisonError::into_inner);
                let room = STDERR_LIMIT.saturating_sub(kept.len()).min(data.len());
                kept.extend_from_slice(&data[..room]);
            }
            ChannelMsg::Failure => {
                let error = "the server does not run git-upload-pack";
                return Some((Err(error.into()), (read, stderr)));
            }
            // Do not end at Eof: stderr may follow.
            ChannelMsg::Close => return None,
            _ => {}
        }
    }
}

fn failure(error: russh::Error, place: &str) -> Error {
    match error {
        russh::Error::NoCommonAlgo {
            kind: russh::AlgorithmKind::Key,
            ..
        } => HostKeys::mismatch(),
        error => Error::Unreachable {
            place: place.to_owned(),
            source: quoted(error.to_string().as_bytes()).into(),
        },
    }
}

/// The SSH client that checks the server's key.
struct Client {
    known: HostKeys,
    refused: Arc<Mutex<Option<Error>>>,
}

impl client::Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let checked = match key {
            PublicKeyOrCertificate::PublicKey { key, .. } => self.known.check(key),
            PublicKeyOrCertificate::Certificate(_) => Err(HostKeys::mismatch()),
        };
        let is_known = checked.is_ok();
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = checked.err();
        Ok(is_known)
    }
}
