//! The guide of flux2-multi-tenancy from its first command to its last, with `driftless` in place
//! of `flux` and `kustomize`: two clusters, a fleet repository behind `sshd`, a private tenant
//! repository, an encrypted deploy key, service-account lock-down, and what the tenant must not do.
//!
//! Kyverno cannot run without nodes. Its definitions come from a repository behind `git
//! http-backend`; admission policies of the API server enforce what Kyverno would.

use driftless_harness::charts::{self, Host};
use driftless_harness::cluster::Cluster;
use driftless_harness::command::{Done, driftless, run_in, words};
use driftless_harness::git_servers::{HttpServer, Repositories, SshServer};
use driftless_harness::process::run;
use driftless_harness::serve::Serve;
use driftless_harness::tools::{self, SOPS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CLUSTERS: [&str; 2] = ["staging", "production"];

/// Kyverno's definition of policies, as far as the guide's fleet needs it.
const DEFINITIONS: &str = include_str!("../kyverno.yaml");

/// The policy of the guide: tenants name a service account.
const POLICIES: &str = r#"apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: flux-multi-tenancy
spec:
  validationFailureAction: Enforce
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: flux-multi-tenancy
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: ["kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io"]
        apiVersions: ["*"]
        operations: ["CREATE", "UPDATE"]
        resources: ["kustomizations", "helmreleases"]
  matchConditions:
    - name: is-a-tenant
      expression: request.namespace != 'flux-system'
  validations:
    - expression: has(object.spec.serviceAccountName)
      message: .spec.serviceAccountName is required
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: flux-multi-tenancy
spec:
  policyName: flux-multi-tenancy
  validationActions: [Deny]
"#;

struct World {
    home: tempfile::TempDir,
    repositories: Repositories,
    ssh: SshServer,
    https: HttpServer,
    charts: Host,
    clusters: [Cluster; 2],
}

/// A clone of a repository, in which a person works.
struct Checkout<'a> {
    world: &'a World,
    directory: PathBuf,
}

impl World {
    fn start() -> Self {
        let repositories = Repositories::default();
        for name in ["fleet.git", "dev-team.git", "kyverno.git"] {
            repositories.create(name);
        }
        let ssh = SshServer::start(&repositories);
        let https = HttpServer::start(&repositories, "platform", "pull-only");
        let world = Self {
            home: tempfile::tempdir().expect("a home"),
            repositories,
            ssh,
            https,
            charts: Host::start(),
            clusters: Cluster::start_all(CLUSTERS),
        };
        for cluster in &world.clusters {
            fs::write(world.kubeconfig(cluster.name()), cluster.kubeconfig())
                .expect("write a kubeconfig");
        }
        let chart = charts::public_chart("podinfo");
        charts::package_directory(&world.path("charts"), &chart, "6.5.4");
        charts::index(&world.path("charts"), &world.charts, "/podinfo", "");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn kubeconfig(&self, cluster: &str) -> String {
        let path = self.path(&format!("{cluster}.yaml"));
        path.to_str().expect("UTF-8").to_owned()
    }

    fn cluster(&self, name: &str) -> &Cluster {
        let found = self.clusters.iter().find(|one| one.name() == name);
        found.expect("a cluster of the guide")
    }

    /// Runs a command against a cluster.
    fn on(&self, cluster: &str, line: &str) -> Done {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let kubeconfig = self.kubeconfig(cluster);
        run_in(self.home.path(), &words, &[("KUBECONFIG", &kubeconfig)])
    }

    /// Runs Git as a person whose key the server accepts.
    fn git(&self, directory: &Path, args: &[&str]) -> String {
        let mut git = Command::new("git");
        let identity = ["user.name=me", "user.email=me@example.com"];
        for setting in identity {
            git.args(["-c", setting]);
        }
        run(git
            .arg("-C")
            .arg(directory)
            .args(args)
            .env("HOME", self.home.path())
            .env("GIT_SSH_COMMAND", self.ssh.person()))
    }

    fn clone(&self, name: &str) -> Checkout<'_> {
        let url = self.ssh.url(&format!("{name}.git"));
        self.git(self.home.path(), &["clone", "-q", &url, name]);
        let directory = self.path(name);
        // An empty repository has no branch yet.
        self.git(&directory, &["checkout", "-q", "-B", "main"]);
        Checkout {
            world: self,
            directory,
        }
    }

    fn serve(&self, cluster: &str) -> Serve {
        let home = self.path(&format!("serve-{cluster}"));
        fs::create_dir(&home).expect("make a home");
        let kubeconfig = self.kubeconfig(cluster);
        let args = [
            "--kubeconfig",
            &kubeconfig,
            "--allow-local-clusters",
            "--default-service-account",
            "default",
            "--no-cross-namespace-refs",
        ];
        Serve::start(&home, &args, &[])
    }

    /// Returns the status `Ready` and its message of an object of Flux.
    fn ready(&self, cluster: &str, path: &str) -> (String, String) {
        let object = self.cluster(cluster).api().find(path).unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|one| one["type"] == "Ready");
        let text = |name: &str| ready.map_or("", |one| one[name].as_str().unwrap_or_default());
        (text("status").to_owned(), text("message").to_owned())
    }
}

impl Checkout<'_> {
    fn write(&self, file: &str, text: &str) {
        let path = self.directory.join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
        fs::write(path, text).expect("write a file");
    }

    fn append(&self, file: &str, text: &str) {
        let old = fs::read_to_string(self.directory.join(file)).expect("read a file");
        self.write(file, &(old + text));
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory.join(file)).expect("read a file")
    }

    /// Runs a command without a cluster in a directory of the checkout.
    fn run(&self, directory: &str, line: &str) -> Done {
        let mut command = driftless(self.world.home.path());
        let directory = self.directory.join(directory);
        Done::of(command.current_dir(directory).args(words(line)))
    }

    fn push(&self, message: &str) -> String {
        let git = |args: &[&str]| self.world.git(&self.directory, args);
        git(&["add", "--all"]);
        git(&["commit", "-q", "-m", message]);
        git(&["push", "-q", "origin", "main"]);
        git(&["rev-parse", "HEAD"]).trim().to_owned()
    }
}

const SYNC: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/apps/kustomizations/dev-team";

#[test]
fn flux2_multi_tenancy_whole() {
    tools::need("git", "git");
    let world = World::start();
    the_tenant_has_a_repository(&world);
    let fleet = world.clone("fleet");
    the_platform_writes_the_fleet(&world, &fleet);
    the_tenant_is_onboarded(&world, &fleet);
    a_patch_of_an_older_version_is_an_error(&fleet);
    the_deploy_key_is_encrypted(&world, &fleet);
    the_fleet_is_validated(&world, &fleet);
    let sha = fleet.push("Onboard the tenant dev-team");
    let served = CLUSTERS.map(|cluster| {
        the_cluster_is_bootstrapped(&world, &fleet, cluster);
        (cluster, world.serve(cluster))
    });
    the_fleet_is_ready(&world, &served, &sha);
    the_tenant_is_confined(&world, &served[0].1);
    the_tenant_is_offboarded(&world, &fleet, &served);
}

/// The tenant's repository: a chart, with values for each environment.
fn the_tenant_has_a_repository(world: &World) {
    let tenant = world.clone("dev-team");
    let line = format!(
        "create source helm podinfo --namespace=apps --url={}/podinfo --interval=5m --export",
        world.charts.url()
    );
    tenant.write("base/podinfo-repository.yaml", &tenant.run("", &line).ok());
    let line = "create helmrelease podinfo --namespace=apps --service-account=dev-team --release-name=podinfo \
                --source=HelmRepository/podinfo --chart=podinfo --interval=5m --export";
    tenant.write("base/podinfo-release.yaml", &tenant.run("", line).ok());
    tenant.run("base", "kustomize create --autodetect").ok();
    for (cluster, replicas) in CLUSTERS.into_iter().zip([1, 2]) {
        let values = format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: podinfo, namespace: apps}}\n\
             spec:\n  chart: {{spec: {{version: '>=1.0.0'}}}}\n  values: {{replicaCount: {replicas}}}\n"
        );
        tenant.write(&format!("{cluster}/podinfo-values.yaml"), &values);
        let list = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../base]\n\
                    patches: [{path: podinfo-values.yaml}]\n";
        tenant.write(&format!("{cluster}/kustomization.yaml"), list);
    }
    tenant.push("Release podinfo");
    let kyverno = world.clone("kyverno");
    kyverno.write("install.yaml", DEFINITIONS);
    kyverno.push("Publish the definitions");
}

/// The platform team's part: infrastructure, and what each cluster applies in which order.
fn the_platform_writes_the_fleet(world: &World, fleet: &Checkout<'_>) {
    let create = |file: &str, line: &str| fleet.write(file, &fleet.run("", line).ok());
    let ca = fleet.world.path("ca.crt");
    fs::write(&ca, world.https.authority()).expect("write the authority");
    let url = world.https.url("kyverno.git");
    create(
        "infrastructure/kyverno/auth.yaml",
        &format!(
            "create secret git kyverno-auth --url={url} --username=platform --password=pull-only \
             --ca-crt-file={} --export",
            ca.display()
        ),
    );
    create(
        "infrastructure/kyverno/source.yaml",
        &format!(
            "create source git kyverno-controller --url={url} --branch=main --interval=120m \
             --secret-ref=kyverno-auth --export"
        ),
    );
    create(
        "infrastructure/kyverno/sync.yaml",
        "create kustomization kyverno-controller --source=GitRepository/kyverno-controller --path=./ --prune=true \
         --interval=720m --wait=true --timeout=5m --service-account=kustomize-controller --export",
    );
    fleet.write("infrastructure/kyverno-policies/policies.yaml", POLICIES);
    for directory in ["kyverno", "kyverno-policies"] {
        let directory = format!("infrastructure/{directory}");
        fleet.run(&directory, "kustomize create --autodetect").ok();
    }
    let common =
        "--source=flux-system --prune=true --service-account=kustomize-controller --export";
    for cluster in CLUSTERS {
        let infrastructure = format!("clusters/{cluster}/infrastructure.yaml");
        create(
            &infrastructure,
            &format!(
                "create kustomization kyverno --path=./infrastructure/kyverno --interval=720m --wait=true \
                 --decryption-provider=sops --decryption-secret=sops-age {common}"
            ),
        );
        let policies = fleet.run(
            "",
            &format!(
                "create kustomization kyverno-policies --depends-on=kyverno --interval=15m \
                 --path=./infrastructure/kyverno-policies {common}"
            ),
        );
        fleet.append(&infrastructure, &policies.ok());
        create(
            &format!("clusters/{cluster}/tenants.yaml"),
            &format!(
                "create kustomization tenants --depends-on=kyverno-policies --path=./tenants/{cluster} \
                 --interval=5m --validation=client --decryption-provider=sops --decryption-secret=sops-age {common}"
            ),
        );
    }
}

/// "Onboard new tenants", with the commands of the guide.
fn the_tenant_is_onboarded(world: &World, fleet: &Checkout<'_>) {
    let base = "tenants/base/dev-team";
    let tenant = fleet.run("", "create tenant dev-team --with-namespace=apps --export");
    fleet.write(&format!("{base}/rbac.yaml"), &tenant.ok());
    let sync = format!("{base}/sync.yaml");
    let url = world.ssh.url("dev-team.git");
    let line = format!(
        "create source git dev-team --namespace=apps --url={url} --branch=main --secret-ref=dev-team-auth --export"
    );
    fleet.write(&sync, &fleet.run("", &line).ok());
    let line = "create kustomization dev-team --namespace=apps --service-account=dev-team \
                --source=GitRepository/dev-team --path=./ --prune=true --interval=5m --export";
    fleet.append(&sync, &fleet.run("", line).ok());
    let line = format!("-n apps create secret git dev-team-auth --url={url} --export");
    fleet.write(&format!("{base}/auth.yaml"), &fleet.run("", &line).ok());
    fleet.run(base, "kustomize create --autodetect").ok();
    let list = fleet.read(&format!("{base}/kustomization.yaml"));
    assert!(
        list.contains("- auth.yaml\n- rbac.yaml\n- sync.yaml\n"),
        "{list}"
    );
    for cluster in CLUSTERS {
        let patch = patch("v1", cluster);
        fleet.write(&format!("tenants/{cluster}/dev-team-patch.yaml"), &patch);
        let list = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\
                    resources:\n- ../base/dev-team\npatches:\n- path: dev-team-patch.yaml\n";
        fleet.write(&format!("tenants/{cluster}/kustomization.yaml"), list);
    }
}

fn patch(version: &str, cluster: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/{version}\nkind: Kustomization\n\
         metadata:\n  name: dev-team\n  namespace: apps\nspec:\n  path: ./{cluster}\n"
    )
}

/// The guide's own patch has a version that `create` no longer writes.
fn a_patch_of_an_older_version_is_an_error(fleet: &Checkout<'_>) {
    let file = "tenants/staging/dev-team-patch.yaml";
    fleet.write(file, &patch("v1beta2", "staging"));
    let done = fleet.run("", "build tenants/staging");
    assert_ne!(done.code, 0, "{}", done.out);
    for word in ["v1beta2", "kustomize.toolkit.fluxcd.io/v1", "dev-team"] {
        assert!(done.err.contains(word), "{word}: {}", done.err);
    }
    fleet.write(file, &patch("v1", "staging"));
    let built = fleet.run("", "build tenants/staging").ok();
    assert!(built.contains("path: ./staging"), "{built}");
}

/// The deploy key reaches the server, and the fleet only as a file that sops has encrypted.
fn the_deploy_key_is_encrypted(world: &World, fleet: &Checkout<'_>) {
    let key = tools::tests().join("fleet/age.agekey");
    let text = fs::read_to_string(&key).expect("read the key");
    let recipient = text
        .lines()
        .find_map(|line| line.split("public key: ").nth(1));
    let recipient = recipient.expect("a comment with the recipient").to_owned();
    let auth = fleet.read("tenants/base/dev-team/auth.yaml");
    let line = |text: &&str| text.trim_start().starts_with("ecdsa-sha2-");
    let public = auth.lines().find(line);
    world.ssh.authorize(public.expect("a public key"));
    assert!(auth.contains("PRIVATE KEY"), "{auth}");
    for file in [
        "tenants/base/dev-team/auth.yaml",
        "infrastructure/kyverno/auth.yaml",
    ] {
        run(Command::new(SOPS.path())
            .current_dir(&fleet.directory)
            .env("HOME", world.home.path())
            .args(["--encrypt", "--age", &recipient])
            .args([
                "--encrypted-regex",
                "^(data|stringData)$",
                "--in-place",
                file,
            ]));
        let encrypted = fleet.read(file);
        assert!(encrypted.contains("ENC[AES256_GCM"), "{encrypted}");
        for secret in ["PRIVATE KEY", "pull-only"] {
            assert!(!encrypted.contains(secret), "{encrypted}");
        }
    }
    for cluster in CLUSTERS {
        world.cluster(cluster).namespace("flux-system");
        let line = format!(
            "create secret sops sops-age --age-key-file={}",
            key.display()
        );
        world.on(cluster, &line).ok();
    }
}

/// "Testing": the pull request's validation, without a cluster.
fn the_fleet_is_validated(world: &World, fleet: &Checkout<'_>) {
    let key = tools::tests().join("fleet/age.agekey");
    let line = format!(
        "check . --url={} --path=clusters/staging --path=clusters/production --sops-key={} \
         --source={}={} --source={}={} --source={}/podinfo={} \
         --default-service-account=default --no-cross-namespace-refs",
        world.ssh.url("fleet.git"),
        key.display(),
        world.ssh.url("dev-team.git"),
        world.path("dev-team").display(),
        world.https.url("kyverno.git"),
        world.path("kyverno").display(),
        world.charts.url(),
        world.path("charts").display(),
    );
    let done = fleet.run("", &line);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    // What the tenant must not do is an error of the same command, with its file.
    let file = world.path("dev-team/staging/intruder.yaml");
    fs::write(&file, INTRUDER).expect("write a file");
    let list = world.path("dev-team/staging/kustomization.yaml");
    let good = fs::read_to_string(&list).expect("read the list");
    fs::write(&list, with_intruder(&good)).expect("write the list");
    let done = fleet.run("", &line);
    assert_eq!(done.code, 1, "{}{}", done.out, done.err);
    for word in ["intruder.yaml", "system:serviceaccount:apps:dev-team"] {
        assert!(done.out.contains(word), "{word}: {}{}", done.out, done.err);
    }
    fs::write(&list, good).expect("write the list");
    fs::remove_file(file).expect("remove a file");
}

/// An object outside of the tenant's namespace.
const INTRUDER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: intruder, namespace: default}\ndata: {by: tenant}\n";

fn with_intruder(list: &str) -> String {
    list.replace("[../base]", "[../base, intruder.yaml]")
}

/// "Bootstrap": a deploy key, the root's manifests and a cluster that follows them.
fn the_cluster_is_bootstrapped(world: &World, fleet: &Checkout<'_>, cluster: &str) {
    world.on(cluster, "check --pre").refused(2, &["doctor"]);
    let line = format!(
        "bootstrap git --url={} --branch=main --path=clusters/{cluster}",
        world.ssh.url("fleet.git")
    );
    let done = world.on(cluster, &line);
    let key = done
        .err
        .lines()
        .find_map(|line| line.split("deploy key: ").nth(1));
    world
        .ssh
        .authorize(key.unwrap_or_else(|| panic!("no deploy key: {}", done.err)));
    let script = world.path("commit.sh");
    fs::write(&script, done.ok()).expect("write the script");
    run(Command::new("sh")
        .arg(&script)
        .env("HOME", world.home.path())
        .envs([
            ("GIT_SSH_COMMAND", world.ssh.person().as_str()),
            ("GIT_AUTHOR_NAME", "me"),
            ("GIT_AUTHOR_EMAIL", "me@example.com"),
            ("GIT_COMMITTER_NAME", "me"),
            ("GIT_COMMITTER_EMAIL", "me@example.com"),
        ]));
    world.git(&fleet.directory, &["pull", "-q", "origin", "main"]);
    let sync = fleet.read(&format!("clusters/{cluster}/flux-system/gotk-sync.yaml"));
    assert!(sync.contains(&world.ssh.url("fleet.git")), "{sync}");
}

/// Waits until both clusters have everything, and checks it with the guide's commands.
fn the_fleet_is_ready(world: &World, served: &[(&str, Serve); 2], sha: &str) {
    let head = world.repositories.head("fleet.git", "main");
    assert_ne!(head, sha, "the bootstraps have committed");
    let tenant = world.repositories.head("dev-team.git", "main");
    for ((cluster, serve), replicas) in served.iter().zip([1, 2]) {
        world.on(cluster, "reconcile source git flux-system").ok();
        serve.eventually(&format!("{cluster} is ready"), || {
            if world
                .cluster(cluster)
                .api()
                .find("/api/v1/namespaces/apps")
                .is_some()
            {
                world.cluster(cluster).run_workloads("apps");
            }
            for name in ["flux-system", "kyverno", "kyverno-policies", "tenants"] {
                serve.is_ready("flux-system", name, &head)?;
            }
            serve.is_ready("apps", "dev-team", &tenant)?;
            let release = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/podinfo";
            let (status, message) = world.ready(cluster, release);
            (status == "True").then_some(()).ok_or(message)
        });
        let deployment = "/apis/apps/v1/namespaces/apps/deployments/podinfo";
        let deployment = world
            .cluster(cluster)
            .api()
            .find(deployment)
            .unwrap_or_default();
        assert_eq!(deployment["spec"]["replicas"], replicas, "{deployment}");
        let policy = "/apis/kyverno.io/v1/clusterpolicies/flux-multi-tenancy";
        assert!(world.cluster(cluster).api().find(policy).is_some());
        for (line, word) in [
            ("get kustomizations", "tenants"),
            ("get kustomizations -A", "dev-team"),
            ("-n apps get sources git", "dev-team"),
            ("-n apps get helmreleases", "podinfo"),
        ] {
            let table = world.on(cluster, line).ok();
            let row = table.lines().find(|row| row.contains(word));
            assert!(
                row.is_some_and(|row| row.contains("True")),
                "{line}:\n{table}"
            );
        }
    }
    // Every clone went through the real servers, with the keys that the commands made.
    let accepted = world.ssh.log();
    assert!(
        accepted.contains("Accepted publickey for git"),
        "{accepted}"
    );
    assert!(accepted.contains("ECDSA"), "{accepted}");
}

/// The tenant writes outside of its namespace, and takes the platform's account.
fn the_tenant_is_confined(world: &World, serve: &Serve) {
    let tenant = Checkout {
        world,
        directory: world.path("dev-team"),
    };
    let file = "staging/kustomization.yaml";
    let good = tenant.read(file);
    let attempt = |name: &str, text: &str, words: &[&str]| {
        tenant.write("staging/intruder.yaml", text);
        tenant.write(file, &with_intruder(&good));
        tenant.push(name);
        let done = world.on(
            "staging",
            "-n apps reconcile kustomization dev-team --with-source",
        );
        assert_ne!(done.code, 0, "{name}: {}", done.err);
        let (status, message) = world.ready("staging", SYNC);
        assert_eq!(status, "False", "{name}: {message}");
        for word in words {
            assert!(
                message.contains(word),
                "{name}: '{word}' is not in: {message}"
            );
        }
    };
    attempt(
        "outside",
        INTRUDER,
        &["forbidden", "system:serviceaccount:apps:dev-team"],
    );
    let nameless = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: nameless, namespace: apps}\n\
                    spec: {interval: 5m, path: ./, prune: true, sourceRef: {kind: GitRepository, name: dev-team}}\n";
    attempt(
        "no account",
        nameless,
        &[".spec.serviceAccountName is required"],
    );
    let binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: intruder}\n\
                   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n\
                   subjects: [{kind: ServiceAccount, name: dev-team, namespace: apps}]\n";
    attempt("cluster-admin", binding, &["forbidden"]);
    for path in [
        "/api/v1/namespaces/default/configmaps/intruder",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/intruder",
        "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/apps/kustomizations/nameless",
    ] {
        assert!(
            world.cluster("staging").api().find(path).is_none(),
            "{path}"
        );
    }
    // A source of the platform, from the tenant's namespace.
    let cross = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: cross, namespace: apps}\n\
                 spec: {interval: 5m, path: ./, prune: true, serviceAccountName: dev-team,\n\
                 sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}\n";
    tenant.write("staging/intruder.yaml", cross);
    tenant.push("A source of the platform");
    world
        .on(
            "staging",
            "-n apps reconcile kustomization dev-team --with-source",
        )
        .ok();
    serve.eventually("the reference to another namespace is refused", || {
        let path = SYNC.replace("/dev-team", "/cross");
        let (status, message) = world.ready("staging", &path);
        let is_refused = status == "False" && message.contains("cross-namespace");
        is_refused.then_some(()).ok_or(message)
    });
    tenant.write(file, &good);
    fs::remove_file(tenant.directory.join("staging/intruder.yaml")).expect("remove a file");
    let sha = tenant.push("Take it back");
    world
        .on(
            "staging",
            "-n apps reconcile kustomization dev-team --with-source",
        )
        .ok();
    serve
        .is_ready("apps", "dev-team", &sha)
        .expect("the tenant is ready again");
}

/// The platform removes the tenant: everything of it is pruned.
fn the_tenant_is_offboarded(world: &World, fleet: &Checkout<'_>, served: &[(&str, Serve); 2]) {
    for cluster in CLUSTERS {
        let list =
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n";
        fleet.write(&format!("tenants/{cluster}/kustomization.yaml"), list);
    }
    let sha = fleet.push("Offboard dev-team");
    for (cluster, serve) in served {
        world.on(cluster, "reconcile source git flux-system").ok();
        serve.eventually(&format!("{cluster} has no tenant"), || {
            serve.is_ready("flux-system", "tenants", &sha)?;
            let namespace = world.cluster(cluster).api().find("/api/v1/namespaces/apps");
            let namespace = namespace.unwrap_or_default();
            match namespace["metadata"]["deletionTimestamp"].is_string() {
                true => Ok(()),
                false => Err(namespace.to_string()),
            }
        });
    }
}
