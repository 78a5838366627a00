use crate::parts::noise;
use crate::skip::skip;
use crate::world::{World, clone, git_command, id, is_git_here, listing, remote};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_git::{
    Auth, Body, BoxError, Duplex, Error, FetchOptions, Network, Remote, Secret, SshLogin,
};
use driftless_manifest::TreePath;
use hmac::{Hmac, KeyInit, Mac};
use russh::keys::decode_secret_key;
use russh::server::{self, Msg, Session};
use russh::{Channel, ChannelId, MethodSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const URL: &str = "ssh://git@git.example/fleet";

/// Keys that ssh-keygen writes, in a directory.
struct Keys(tempfile::TempDir);

impl Keys {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns the private key and the line of the public key, without its comment.
    fn make(&self, name: &str, arguments: &[&str]) -> (String, String) {
        let path = self.0.path().join(name);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-C", "", "-f"])
            .arg(&path)
            .args(arguments)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let private = std::fs::read_to_string(&path).unwrap();
        let public = std::fs::read_to_string(path.with_extension("pub")).unwrap();
        (private, public.trim().to_owned())
    }

    fn plain(&self, name: &str) -> (String, String) {
        self.make(name, &["-t", "ed25519", "-N", ""])
    }
}

fn is_here() -> bool {
    let found = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !found {
        skip("ssh-keygen is not installed");
    }
    found && is_git_here()
}

/// A server that runs `git upload-pack`, without a socket.
#[derive(Clone)]
struct Server {
    root: PathBuf,
    host: String,
    /// The public key that may log in.
    user: String,
    /// True if the server accepts the variable `GIT_PROTOCOL`.
    is_v2: bool,
}

#[async_trait]
impl Network for Server {
    async fn request(&self, _: http::Request<Bytes>) -> Result<http::Response<Body>, BoxError> {
        Err("there is no HTTP here".into())
    }

    async fn connect(&self, host: &str, port: u16) -> Result<Box<dyn Duplex>, BoxError> {
        assert_eq!(host, "git.example");
        assert!([22, 2222].contains(&port));
        let (here, there) = tokio::io::duplex(1 << 16);
        let config = server::Config {
            auth_rejection_time: std::time::Duration::ZERO,
            keys: vec![decode_secret_key(&self.host, None).unwrap()],
            ..server::Config::default()
        };
        let session = ServerSession {
            server: self.clone(),
            channel: None,
            protocol: String::new(),
        };
        tokio::spawn(async move {
            if let Ok(running) = server::run_stream(Arc::new(config), there, session).await {
                let _ = running.await;
            }
        });
        Ok(Box::new(here))
    }
}

struct ServerSession {
    server: Server,
    channel: Option<Channel<Msg>>,
    protocol: String,
}

impl server::Handler for ServerSession {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: server::VerifiedPublicKey<'_>,
    ) -> Result<server::Auth, Self::Error> {
        let known: russh::keys::PublicKey = self.server.user.parse().unwrap();
        let is_known = known.key_data() == key.public_key.key_data();
        Ok(match user == "git" && is_known {
            true => server::Auth::Accept,
            false => server::Auth::Reject {
                proceed_with_methods: Some(MethodSet::empty()),
                partial_success: false,
            },
        })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: server::ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channel = Some(channel);
        reply.accept().await;
        Ok(())
    }

    async fn env_request(
        &mut self,
        _: ChannelId,
        name: &str,
        value: &str,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.server.is_v2 && name == "GIT_PROTOCOL" {
            self.protocol = value.to_owned();
        }
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let command = std::str::from_utf8(command).unwrap();
        let path = command.strip_prefix("git-upload-pack '/").unwrap();
        let path = path.strip_suffix("'").unwrap();
        let mut process: tokio::process::Command = git_command().into();
        let mut process = process
            .arg("upload-pack")
            .arg(self.server.root.join(path))
            .env("GIT_PROTOCOL", &self.protocol)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        session.channel_success(channel)?;
        let handle = session.handle();
        let mut open = self.channel.take().unwrap();
        tokio::spawn(async move {
            let mut stdin = process.stdin.take().unwrap();
            let mut stdout = process.stdout.take().unwrap();
            let mut stderr = process.stderr.take().unwrap();
            let mut writer = open.make_writer();
            let feed = async {
                let mut reader = open.make_reader();
                let _ = tokio::io::copy(&mut reader, &mut stdin).await;
            };
            let answer = async {
                let _ = tokio::io::copy(&mut stdout, &mut writer).await;
                let _ = writer.flush().await;
                let mut output = Vec::new();
                let _ = stderr.read_to_end(&mut output).await;
                let _ = handle.extended_data(channel, 1, output).await;
                let _ = handle.exit_status_request(channel, 0).await;
                let _ = handle.eof(channel).await;
                let _ = handle.close(channel).await;
            };
            tokio::select! {
                () = answer => {}
                () = async { feed.await; std::future::pending::<()>().await } => {}
            }
        });
        Ok(())
    }
}

struct Case {
    world: World,
    keys: Keys,
    server: Server,
    login: SshLogin,
}

impl Case {
    fn new() -> Self {
        let (world, keys) = (World::new(), Keys::new());
        world.repository("fleet");
        world.commit("fleet", &[("a.yaml", "old\n")]);
        world.commit("fleet", &[("a.yaml", "a\n")]);
        world.git("fleet", &["tag", "-a", "v1", "-m", "one"]);
        let (host, host_public) = keys.plain("host");
        let (user, user_public) = keys.plain("user");
        let server = Server {
            root: world.root.path().to_owned(),
            host,
            user: user_public,
            is_v2: true,
        };
        let login = SshLogin {
            identity: Secret::new(user),
            password: None,
            known_hosts: format!("git.example {host_public}\n"),
        };
        Self {
            world,
            keys,
            server,
            login,
        }
    }

    fn remote(&self, url: &str) -> Remote {
        let mut remote = remote(self.server.clone(), url);
        remote.auth = Auth::Ssh(self.login.clone());
        remote
    }

    async fn clone(&self) -> Result<Vec<String>, Error> {
        let fetched = clone(&self.remote(URL), "refs/heads/main").await;
        fetched.map(|fetched| listing(&fetched))
    }
}

#[tokio::test]
async fn each_kind_of_key() {
    if !is_here() {
        return;
    }
    let mut case = Case::new();
    let secret = ["-N", "canary"];
    for (name, arguments) in [
        ("ed25519", &["-t", "ed25519"][..]),
        ("rsa", &["-t", "rsa", "-b", "2048"]),
        ("rsa-pkcs1", &["-t", "rsa", "-b", "2048", "-m", "PEM"]),
        ("rsa-pkcs8", &["-t", "rsa", "-b", "2048", "-m", "PKCS8"]),
        ("p256", &["-t", "ecdsa", "-b", "256"]),
        ("p256-sec1", &["-t", "ecdsa", "-b", "256", "-m", "PEM"]),
        ("p384", &["-t", "ecdsa", "-b", "384"]),
        ("p521", &["-t", "ecdsa", "-b", "521"]),
    ] {
        let (private, public) = case.keys.make(name, &[arguments, &["-N", ""]].concat());
        case.server.user = public;
        case.login.identity = Secret::new(private);
        case.login.password = None;
        assert_eq!(case.clone().await.unwrap(), ["a.yaml=a\n"], "{name}");
        // A password that the key does not need.
        case.login.password = Some(Secret::new("canary"));
        assert_eq!(case.clone().await.unwrap(), ["a.yaml=a\n"], "{name}");

        let locked = format!("{name}-locked");
        let (private, public) = case.keys.make(&locked, &[arguments, &secret].concat());
        case.server.user = public;
        case.login.identity = Secret::new(private);
        let answer = case.clone().await;
        if name == "p256-sec1" {
            let message = answer.unwrap_err().to_string();
            assert!(
                message.contains("encrypted in the old PEM format"),
                "{message}"
            );
            continue;
        }
        assert_eq!(
            answer.as_deref().ok(),
            Some(&["a.yaml=a\n".to_owned()][..]),
            "{locked}: {answer:?}"
        );
        for password in [None, Some(Secret::new("canary2"))] {
            case.login.password = password;
            let error = case.clone().await.unwrap_err();
            assert!(matches!(error, Error::Login(_)), "{locked}: {error:?}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}

#[tokio::test]
async fn refused_and_invalid_keys_are_errors() {
    if !is_here() {
        return;
    }
    let mut case = Case::new();
    case.login.identity = Secret::new(case.keys.plain("other").0);
    let error = case.clone().await.unwrap_err();
    assert!(matches!(error, Error::Unauthorised(_)), "{error:?}");
    for identity in [
        "",
        "canary",
        "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n",
    ] {
        case.login.identity = Secret::new(identity);
        let error = case.clone().await.unwrap_err();
        assert!(matches!(error, Error::Login(_)), "{error:?}");
        assert!(!format!("{error:?}").contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn known_hosts() {
    if !is_here() {
        return;
    }
    let mut case = Case::new();
    let key = case
        .login
        .known_hosts
        .strip_prefix("git.example ")
        .unwrap()
        .trim()
        .to_owned();
    let (_, other) = case.keys.plain("other");
    let (_, rsa) = case
        .keys
        .make("rsa", &["-t", "rsa", "-b", "2048", "-N", ""]);
    let hashed = |name: &str| {
        let mut mac = Hmac::<sha1::Sha1>::new_from_slice(b"salt-salt-salt-salt-").unwrap();
        mac.update(name.as_bytes());
        use base64::Engine as _;
        let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let salt = encode(b"salt-salt-salt-salt-");
        format!("|1|{salt}|{}", encode(&mac.finalize().into_bytes()))
    };
    let (unknown, mismatch) = (Some("key is unknown"), Some("key mismatch"));
    let on_2222 = "ssh://git.example:2222/fleet";
    for (url, known_hosts, refused) in [
        (
            URL,
            format!("# ours\n\ngit.example {key} a comment\n"),
            None,
        ),
        (
            URL,
            format!("git.example\t{other}\ngit.example\t{key}\n"),
            None,
        ),
        (URL, format!("git.example {rsa}\ngit.example {key}\n"), None),
        (URL, format!("*.example,192.0.2.1 {key}\n"), None),
        (URL, format!("{} {key}\n", hashed("git.example")), None),
        (
            on_2222,
            format!("{} {key}\n", hashed("[git.example]:2222")),
            None,
        ),
        (on_2222, format!("[git.example]:2222 {key}\n"), None),
        (on_2222, format!("git.example {key}\n"), unknown),
        (URL, format!("[git.example]:2222 {key}\n"), unknown),
        (URL, String::new(), unknown),
        (URL, format!("other.example {key}\n"), unknown),
        (URL, format!("{} {key}\n", hashed("other.example")), unknown),
        (URL, format!("@cert-authority git.example {key}\n"), unknown),
        (URL, format!("git.example {other}\n"), mismatch),
        (URL, format!("git.example {rsa}\n"), mismatch),
        (
            URL,
            format!("git.example {key}\n@revoked * {key}\n"),
            Some("key is revoked"),
        ),
    ] {
        case.login.known_hosts = known_hosts.clone();
        let answer = clone(&case.remote(url), "refs/heads/main").await;
        match (answer, refused) {
            (Ok(_), None) => {}
            (Err(Error::HostKey(message)), Some(refused)) => {
                let whole = format!("ssh: handshake failed: knownhosts: {refused}");
                assert_eq!(message, whole, "{known_hosts}");
            }
            (answer, _) => panic!("{known_hosts}: {answer:?}"),
        }
    }
    case.login.known_hosts = "git.example\n".to_owned();
    let error = case.clone().await.unwrap_err();
    assert_eq!(error.to_string(), "known_hosts: line 1 is not valid");
}

#[tokio::test]
async fn each_protocol_and_a_commit_by_its_hash() {
    if !is_here() {
        return;
    }
    let mut case = Case::new();
    let old = case.world.id("fleet", "main~1");
    for is_v2 in [true, false] {
        case.server.is_v2 = is_v2;
        let fleet = case.remote(URL);
        for reference in ["HEAD", "refs/heads/main", "refs/tags/v1"] {
            let fetched = clone(&fleet, reference).await.unwrap();
            assert_eq!(listing(&fetched), ["a.yaml=a\n"]);
            assert_eq!(fetched.tags.len(), usize::from(reference == "refs/tags/v1"));
        }
        // Version 0 serves only the targets of references: the branch is read with its history.
        let mut options = FetchOptions::default();
        let alone = fleet.fetch(old, &options).await;
        assert_eq!(alone.is_ok(), is_v2, "{alone:?}");
        options.references = vec!["refs/heads/main".to_owned()];
        let fetched = fleet.fetch(old, &options).await.unwrap();
        assert_eq!(listing(&fetched), ["a.yaml=old\n"]);
        let absent = fleet.fetch(id(&"12".repeat(20)), &options).await;
        assert!(matches!(absent, Err(Error::NotFound(_))), "{absent:?}");

        let absent = case.remote("ssh://git@git.example/absent");
        let error = absent.references(&["refs/"]).await.unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error:?}");
    }
}

#[tokio::test]
async fn directories_in_several_requests_of_one_connection() {
    if !is_here() {
        return;
    }
    let mut case = Case::new();
    case.server.is_v2 = true;
    let files = [
        ("apps/web/deep/b.yaml", "b\n"),
        ("other/large.bin", &noise(1)),
    ];
    let tip = case.world.commit("fleet", &files);
    let mut fleet = case.remote(URL);
    fleet.limits.packed = 100_000;
    let mut options = FetchOptions::default();
    options.directories = vec![TreePath::new("apps/web").unwrap()];
    let fetched = fleet.fetch(tip, &options).await.unwrap();
    assert_eq!(
        listing(&fetched),
        ["a.yaml=a\n", "apps/web/deep/b.yaml=b\n"]
    );
    let found = fleet.objects(tip, &FetchOptions::default()).await.unwrap();
    assert_eq!(found.commit, fetched.commit);
}

#[test]
fn a_key_is_not_shown() {
    let login = SshLogin {
        identity: Secret::new("canary"),
        password: Some(Secret::new("canary")),
        known_hosts: String::new(),
    };
    assert!(!format!("{:?}", Auth::Ssh(login)).contains("canary"));
}
