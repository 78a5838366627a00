//! The intended differences between Flux and driftless. An entry that no longer differs must be
//! removed.

/// A pattern over the place of a difference, and the reason for the difference.
pub type IntendedDifference = (&'static str, &'static str);

/// Differences in every comparison.
pub const EVERYWHERE: &[IntendedDifference] = &[
    (
        r"^(gitrepositories|helmrepositories|ocirepositories|buckets|helmcharts) \S+ / metadata / (finalizers|managers / source-controller Update)$",
        "a source owns nothing in the cluster, so it needs no finalizer",
    ),
    (
        r"^(gitrepositories|helmrepositories|ocirepositories|buckets|helmcharts) \S+ / status / (artifact / (path|url)|url)$",
        "artifacts are in the bucket",
    ),
];

/// Differences of objects of every kind.
pub const OBJECTS: &[IntendedDifference] = &[
    (
        r"^configmaps opened\S* / (data / (address|ca\.crt)|metadata / annotations / \S*last-applied-configuration)$",
        "each side has its own cluster's address",
    ),
    (
        r"^((gitrepositories|helmrepositories|ocirepositories|buckets) \S+|helmcharts apps-from-bucket) / status / artifact / (digest|size)$",
        "driftless packs files differently, and keeps an index unchanged",
    ),
    (
        r"^events of HelmRepository charts / Normal NewArtifact: stored fetched index",
        "driftless keeps an index unchanged, so its size and digest differ",
    ),
    (
        r"^events of GitRepository fleet / Normal NewArtifact: ",
        "driftless reads a push by its hash, and does not request the message of the commit",
    ),
    (
        r"^events of (OCIRepository (web|by-account)|Bucket \S+|HelmChart apps-from-bucket) / Normal .* / annotations / source.toolkit.fluxcd.io/digest$",
        "driftless packs files differently",
    ),
    (
        r"^(gitrepositories no-branch|helmrepositories no-index|ocirepositories no-tag) / status / conditions / \d / message$",
        "driftless has another client, which words the refusal differently",
    ),
    (
        r"^events of (GitRepository no-branch|HelmRepository no-index|OCIRepository no-tag) / Warning ",
        "driftless has another client, which words the refusal differently",
    ),
    (
        r"^((kustomizations (no-build|no-path|no-variables)|(helmcharts apps-|helmreleases )no-chart-in-bucket) / status / conditions / \d / message|events of (Kustomization (no-build|no-path|no-variables)|HelmChart apps-no-chart-in-bucket) / Warning .*)$",
        "driftless names files by their path in the source, not by one in a directory of the controller",
    ),
    (
        r"^(kustomizations no-artifact / status / conditions / \d / message|events of Kustomization (no-dependency|follows) / Normal DependencyNotReady: .*)$",
        "driftless does not poll: an object that becomes ready requeues its dependents",
    ),
    (
        r"^helmcharts no-ecr / status / conditions / \d / (message|reason)$",
        "the condition has the same reason and message as the event, instead of Unknown",
    ),
    (
        r"^events of Kustomization \S+ / Normal ReconciliationSucceeded: Reconciliation finished in",
        "driftless reports no success that changes nothing",
    ),
    (
        r"^(helmreleases|kustomizations) suspended / ",
        "driftless leaves a suspended object unchanged",
    ),
    (
        r"^kustomizations no-apply / (status / inventory|metadata / managers / gotk-kustomize-controller Update status / f:status f:inventory)",
        "driftless writes objects to the inventory before it applies them",
    ),
    (
        r"^helmreleases no-install / (status / inventory|metadata / managers / helm-controller Update status / f:status f:inventory)",
        "an uninstalled release has no inventory",
    ),
    (
        r"^helmreleases \S+ / status / history / \d / digest$",
        "the digest covers the release's record, which contains times",
    ),
    (
        r"^helmreleases no-render / status / failures$",
        "driftless retries failures at other intervals",
    ),
    (
        r"^secrets \S+ / data / release / chart / (.* / )?(modtime|schemamodtime)$",
        "driftless does not keep modification times of an archive's files",
    ),
    (
        r"^deployments ks-deployment / metadata / managers / kustomize-controller Apply / .* f:(strategy|resources)$",
        "fields that a manifest omits are not applied, not even as the empty structs of Go's types",
    ),
    (
        r"^secrets \S+ / data / release / chart / files$",
        "driftless writes an empty list for no files, not null",
    ),
];

/// Differences of Kustomizations over several steps.
pub const KUSTOMIZATIONS: &[IntendedDifference] = &[
    (
        r"^gitrepositories \S+ / status / artifact / (digest|size)$",
        "driftless packs files differently",
    ),
    (
        r"^events of GitRepository fleet / Normal NewArtifact: ",
        "driftless reads a push by its hash, and does not request the message of the commit",
    ),
    (
        r"^(events of Kustomization (\S+ / Normal ReconciliationSucceeded: Reconciliation finished in .*|not-taken)|kustomizations \S+ / status / history / \d / totalReconciliations)$",
        "driftless reports no success that changes nothing",
    ),
    (
        r"^events of Kustomization \S+ / .* / annotations / kustomize.toolkit.fluxcd.io/revision$",
        "the same message for two revisions is one event, with the first revision or the last",
    ),
    (
        r"^(kustomizations no-(build|path) / status / conditions / \d / message|events of Kustomization no-(build|path) / Warning .*)$",
        "driftless names files by their path in the source, not by one in a directory of the controller",
    ),
    (
        r"^kustomizations no-(kind|namespace) / status / inventory",
        "driftless writes objects to the inventory before it applies them",
    ),
    (
        r"^kustomizations stops / status / observedGeneration$",
        "driftless leaves a suspended object unchanged",
    ),
];

/// Differences of releases over several steps.
pub const RELEASES: &[IntendedDifference] = &[
    (
        r"^helmrepositories \S+ / status / artifact / (digest|size)$",
        "driftless keeps an index unchanged",
    ),
    (
        r"^events of HelmRepository charts / Normal NewArtifact: stored fetched index",
        "driftless keeps an index unchanged, so its size and digest differ",
    ),
    (
        r"^helmreleases \S+ / status / history / \d / digest$",
        "the digest covers the release's record, which contains times",
    ),
    (
        r"^secrets \S+ / data / release / chart / (.* / )?(modtime|schemamodtime)$",
        "driftless does not keep modification times of an archive's files",
    ),
    (
        r"^helmreleases (gives-up|tries-on|fixed-and-forced|cleans-up) / status / history / \d / action$",
        "a failed upgrade does not write the previous release again, whose history keeps its action",
    ),
    (
        r"^helmreleases (no-kind|no-render|no-schema|not-taken) / status / failures$",
        "driftless retries failures at other intervals",
    ),
    (
        r"^(helmreleases no-schema / status / conditions / \d / message|events of HelmRelease no-schema / Warning UpgradeFailed: .*)$",
        "driftless does not repeat values, so the errors of a schema are worded differently",
    ),
    (
        r"^helmreleases (uninstalls|install-remedied) / (status / inventory|metadata / managers / helm-controller Update status / f:status f:inventory)",
        "an uninstalled release has no inventory",
    ),
    (
        r"^deployments (gives-up|tries-on|fixed-and-forced)$",
        "driftless deletes what only a failed revision of a release lists; Helm leaves it in the cluster",
    ),
    (
        r"^configmaps moves-config$",
        "driftless uninstalls a moved release from its old namespace; Flux searches its objects in the new one and leaves them",
    ),
    (
        r"^configmaps object-gone-more / metadata / managers / helm-controller (Apply|Update)$",
        "driftless applies a deleted object again as before, so one manager owns its fields",
    ),
    (
        r"^helmreleases stops / status / observedGeneration$",
        "driftless leaves a suspended object unchanged",
    ),
];

/// Differences of signed charts.
pub const SIGNATURES: &[IntendedDifference] = &[
    (
        r"^(ocirepositories|helmcharts) (unsigned|strange|unnoted|stranger|stranger-2|other-root) / status / conditions / \d / message$",
        "driftless says why it refuses a signature, and what to do",
    ),
    (
        r"^events of (OCIRepository|HelmChart) (unsigned|strange|unnoted|stranger|stranger-2|other-root) / Warning (Chart)?VerificationError: ",
        "driftless says why it refuses a signature, and what to do",
    ),
    (
        r"^helmcharts no-secret / status / conditions$",
        "driftless does not report a missing Secret as a failed fetch; Flux reports it again, as an unknown error of a build",
    ),
];

/// Differences of sources over several steps.
pub const SOURCES: &[IntendedDifference] = &[
    (
        r"^(gitrepositories|helmrepositories|ocirepositories|buckets) \S+ / status / artifact / (digest|size)$",
        "driftless packs files differently, and keeps an index unchanged",
    ),
    (
        r"^events of (OCIRepository|Bucket) \S+ / Normal .* / annotations / source.toolkit.fluxcd.io/digest$",
        "driftless packs files differently",
    ),
    (
        r"^events of GitRepository \S+ / Normal NewArtifact: ",
        "driftless reads a push by its hash, and does not request the message of the commit",
    ),
    (
        r"^events of HelmRepository \S+ / Normal NewArtifact: stored fetched index",
        "driftless keeps an index unchanged, so its size and digest differ",
    ),
    (
        r"^events of \S+ \S+ / Normal (ArtifactUpToDate|GitOperationSucceeded): ",
        "driftless reports no success that changes nothing",
    ),
    (
        r"^events of OCIRepository (no-secret|loses) / Normal AuthenticationFailed: ",
        "driftless reports a failure once",
    ),
    (
        r"^events of (GitRepository moves|HelmRepository (logs-in|moves)) / Normal Succeeded: ",
        "driftless does not read messages of commits, and keeps an index unchanged",
    ),
    (
        r"^(buckets|gitrepositories|helmcharts|helmrepositories|ocirepositories) rests / status / (conditions / 0 / )?observedGeneration$",
        "driftless leaves a suspended object unchanged",
    ),
    (
        r"^(helmcharts (bucket|tree\S*|values\S*) / status / artifact / (digest|size)|events of HelmChart (bucket|tree\S*|values\S*) / Normal .* / annotations / source.toolkit.fluxcd.io/digest)$",
        "driftless packs charts differently",
    ),
    (
        r"^(helmrepositories (comes|no-login|no-entry|list-index|no-index|no-url|logs-in|moves)|ocirepositories (comes|docker-elsewhere|docker-wrong|latest|no-digest|no-entry|no-login|no-repository|no-path|moves)|buckets (region|url-endpoint)|gitrepositories (range-of-none|moves)|helmcharts (broken-archive|no-archive|oci-no-chart-version|tree-no-chart|tree-not-a-chart|verified)) / status / conditions / \d / message$",
        "driftless has another client and parser, which word errors differently",
    ),
    (
        r"^events of (HelmRepository (comes|no-login|no-entry|list-index|no-index|no-url|logs-in|moves)|OCIRepository (comes|docker-elsewhere|docker-wrong|latest|no-digest|no-entry|no-login|no-repository|no-path|moves)|Bucket (region|url-endpoint)|GitRepository (range-of-none|moves)|HelmChart (broken-archive|no-archive|oci-no-chart-version|tree-no-chart|tree-not-a-chart|verified)) / Warning ",
        "driftless has another client and parser, which word errors differently",
    ),
    (
        r"^(helmcharts oci-(elsewhere|no-login|no-secret|wrong) / status / conditions / \d / (message|reason)|events of HelmChart oci-(elsewhere|no-login|wrong) / Warning .*)$",
        "driftless reports a failed login as such; Flux reports it as an unknown error of a build",
    ),
    (
        r"^(helmrepositories no-host / (metadata / managers / .*|status / (observedGeneration|conditions / \d / \S+))|events of HelmRepository no-host / Warning .*)$",
        "driftless refuses an address without a host; Flux resolves the host index.yaml",
    ),
    (
        r"^(buckets empty-keys / status / conditions / \d / (message|reason)|events of Bucket empty-keys / Warning .*)$",
        "driftless refuses empty keys; Flux sends requests with them",
    ),
    (
        r"^(ocirepositories opaque / (status / .*|metadata / managers / .*)|events of OCIRepository opaque / .*)$",
        "driftless also accepts a user and a password for a registry, as in a HelmRepository's Secret",
    ),
];
