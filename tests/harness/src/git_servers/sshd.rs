//! OpenSSH's server, whose only user is `git`.

use super::Repositories;
use crate::ports;
use crate::process::{Server, run};
use crate::tools::SSHD;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A running `sshd` on a loopback port. The user `git` is the user of the test.
pub struct SshServer {
    directory: TempDir,
    port: u16,
    _server: Server,
}

impl SshServer {
    /// Starts the server over the repositories, which lie at the root of its paths:
    /// `ssh://git@HOST:PORT/NAME`.
    pub fn start(repositories: &Repositories) -> Self {
        let directory = TempDir::new().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let port = ports::free();
        run(Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(path("host")));
        fs::write(path("authorized_keys"), "").expect("write the keys");
        // Each key runs this command. The paths of URLs begin at the directory of the repositories.
        let command = format!(
            "#!/bin/sh\nset -- $(printf %s \"$SSH_ORIGINAL_COMMAND\" | tr -d \"'\")\n\
             case $1 in git-upload-pack|git-receive-pack) exec git \"${{1#git-}}\" \"{}$2\" ;; esac\n\
             echo \"only Git is served\" >&2\nexit 1\n",
            repositories.path().display()
        );
        fs::write(path("serve-git"), command).expect("write the command");
        let own = |flag: &str| run(Command::new("id").arg(flag)).trim().to_owned();
        let (user, group) = (own("-u"), own("-g"));
        let home = directory.path().display();
        fs::write(
            path("passwd"),
            format!(
                "git:x:{user}:{group}:git:{home}:/bin/sh\n\
                 sshd:x:65534:65534:sshd:/run/sshd:/usr/sbin/nologin\n"
            ),
        )
        .expect("write the users");
        fs::write(
            path("sshd_config"),
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {home}/host\n\
                 AuthorizedKeysFile {home}/authorized_keys\nForceCommand sh {home}/serve-git\n\
                 UsePAM no\nStrictModes no\nPidFile none\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nPermitRootLogin yes\nAcceptEnv GIT_PROTOCOL\n"
            ),
        )
        .expect("write the configuration");
        if user == "0" {
            // The server of root changes to this directory, whose name is part of the program.
            fs::create_dir_all("/run/sshd").expect("make the directory of sshd");
        }
        let program = SSHD.path();
        let wrapper = SSHD.library("libnss_wrapper.so");
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        let libraries = wrapper.parent().expect("a directory").to_owned();
        let environment = [
            ("LD_LIBRARY_PATH", text(libraries)),
            ("LD_PRELOAD", text(wrapper)),
            ("NSS_WRAPPER_PASSWD", text(path("passwd"))),
            ("NSS_WRAPPER_GROUP", "/etc/group".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        let config = path("sshd_config");
        let args = ["-D", "-e", "-f", config.to_str().expect("UTF-8")];
        let mut server = Server::start("sshd", &program, args, &environment, &path("log"));
        server.wait_ready(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self {
            directory,
            port,
            _server: server,
        }
    }

    /// Returns the URL of a repository.
    pub fn url(&self, name: &str) -> String {
        format!("ssh://git@127.0.0.1:{}/{name}", self.port)
    }

    /// Lets a key in, in the form of `authorized_keys`.
    pub fn authorize(&self, public: &str) {
        let file = self.directory.path().join("authorized_keys");
        let mut keys = fs::read_to_string(&file).expect("read the keys");
        keys.push_str(public.trim());
        keys.push('\n');
        fs::write(file, keys).expect("write the keys");
    }

    /// Generates the key of a person and lets it in. Returns the value of `GIT_SSH_COMMAND` for
    /// that person.
    pub fn person(&self) -> String {
        let key = self.directory.path().join("person");
        if !key.exists() {
            run(Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(&key));
            self.authorize(&fs::read_to_string(key.with_extension("pub")).expect("read the key"));
        }
        format!(
            "ssh -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
            key.display()
        )
    }

    /// Returns what the server logged, with a line for each accepted key.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).expect("read the log")
    }
}
