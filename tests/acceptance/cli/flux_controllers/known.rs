//! Where driftless means to differ. What no longer differs must leave this list.

/// A pattern over the place of a difference, and why it is meant.
pub type Meant = (&'static str, &'static str);

/// In every comparison.
pub const EVERYWHERE: &[Meant] = &[
    (
        r"^(gitrepositories|helmrepositories|ocirepositories|buckets|helmcharts) \S+ / metadata / (finalizers|managers / source-controller Update)$",
        "nothing of a source is in a cluster: no finalizer holds it there",
    ),
    (
        r"^(gitrepositories|helmrepositories|ocirepositories|buckets|helmcharts) \S+ / status / (artifact / (path|url)|url)$",
        "artifacts are in the bucket",
    ),
];

/// Of objects of every kind.
pub const OBJECTS: &[Meant] = &[
    (
        r"^configmaps opened\S* / (data / (address|ca\.crt)|metadata / annotations / \S*last-applied-configuration)$",
        "each side leads to itself",
    ),
    (
        r"^((gitrepositories|helmrepositories|ocirepositories|buckets) \S+|helmcharts apps-from-bucket) / status / artifact / (digest|size)$",
        "files are packed by another packer, and an index stays as it was served",
    ),
    (
        r"^events of HelmRepository charts / Normal NewArtifact: stored fetched index",
        "an index stays as it was served: its size and digest are others",
    ),
    (
        r"^events of GitRepository fleet / Normal NewArtifact: ",
        "a push is followed by its hash: the message of the commit is not asked for",
    ),
    (
        r"^events of (OCIRepository (web|by-account)|Bucket \S+|HelmChart apps-from-bucket) / Normal .* / annotations / source.toolkit.fluxcd.io/digest$",
        "files are packed by another packer",
    ),
    (
        r"^(gitrepositories no-branch|helmrepositories no-index|ocirepositories no-tag) / status / conditions / \d / message$",
        "another client asks: it tells the refusal in its own words",
    ),
    (
        r"^events of (GitRepository no-branch|HelmRepository no-index|OCIRepository no-tag) / Warning ",
        "another client asks: it tells the refusal in its own words",
    ),
    (
        r"^((kustomizations (no-build|no-path|no-variables)|(helmcharts apps-|helmreleases )no-chart-in-bucket) / status / conditions / \d / message|events of (Kustomization (no-build|no-path|no-variables)|HelmChart apps-no-chart-in-bucket) / Warning .*)$",
        "files are named as in the source, not in a directory of the controller's",
    ),
    (
        r"^(kustomizations no-artifact / status / conditions / \d / message|events of Kustomization (no-dependency|follows) / Normal DependencyNotReady: .*)$",
        "nothing is asked again by the clock: whoever becomes ready wakes those who wait",
    ),
    (
        r"^helmcharts no-ecr / status / conditions / \d / (message|reason)$",
        "what the event says, the conditions say, too: a reason of its own instead of Unknown",
    ),
    (
        r"^events of Kustomization \S+ / Normal ReconciliationSucceeded: Reconciliation finished in",
        "a heartbeat is no news",
    ),
    (
        r"^(helmreleases|kustomizations) suspended / ",
        "a suspended object is left as it is",
    ),
    (
        r"^kustomizations no-apply / (status / inventory|metadata / managers / gotk-kustomize-controller Update status / f:status f:inventory)",
        "what is about to exist stands in the inventory before it exists",
    ),
    (
        r"^helmreleases no-install / (status / inventory|metadata / managers / helm-controller Update status / f:status f:inventory)",
        "what was uninstalled is in no inventory",
    ),
    (
        r"^helmreleases \S+ / status / history / \d / digest$",
        "the digest of a record, which holds the times of its run",
    ),
    (
        r"^helmreleases no-render / status / failures$",
        "a failure is tried again at another pace",
    ),
    (
        r"^secrets \S+ / data / release / chart / (.* / )?(modtime|schemamodtime)$",
        "files of an archive have no times that count",
    ),
    (
        r"^deployments ks-deployment / metadata / managers / kustomize-controller Apply / .* f:(strategy|resources)$",
        "what a manifest does not say is not applied, not even as the empty structs of Go's types",
    ),
    (
        r"^secrets \S+ / data / release / chart / files$",
        "no files are an empty list, not null",
    ),
];

/// Of Kustomizations over several steps.
pub const KUSTOMIZATIONS: &[Meant] = &[
    (
        r"^gitrepositories \S+ / status / artifact / (digest|size)$",
        "files are packed by another packer",
    ),
    (
        r"^events of GitRepository fleet / Normal NewArtifact: ",
        "a push is followed by its hash: the message of the commit is not asked for",
    ),
    (
        r"^(events of Kustomization (\S+ / Normal ReconciliationSucceeded: Reconciliation finished in .*|not-taken)|kustomizations \S+ / status / history / \d / totalReconciliations)$",
        "a heartbeat is no news",
    ),
    (
        r"^events of Kustomization \S+ / .* / annotations / kustomize.toolkit.fluxcd.io/revision$",
        "what is said of two revisions in the same words is one event, the first's or the last's",
    ),
    (
        r"^(kustomizations no-(build|path) / status / conditions / \d / message|events of Kustomization no-(build|path) / Warning .*)$",
        "files are named as in the source, not in a directory of the controller's",
    ),
    (
        r"^kustomizations no-(kind|namespace) / status / inventory",
        "what is about to exist stands in the inventory before it exists",
    ),
    (
        r"^kustomizations stops / status / observedGeneration$",
        "a suspended object is left as it is",
    ),
];

/// Of releases over several steps.
pub const RELEASES: &[Meant] = &[
    (
        r"^helmrepositories \S+ / status / artifact / (digest|size)$",
        "an index stays as it was served",
    ),
    (
        r"^events of HelmRepository charts / Normal NewArtifact: stored fetched index",
        "an index stays as it was served: its size and digest are others",
    ),
    (
        r"^helmreleases \S+ / status / history / \d / digest$",
        "the digest of a record, which holds the times of its run",
    ),
    (
        r"^secrets \S+ / data / release / chart / (.* / )?(modtime|schemamodtime)$",
        "files of an archive have no times that count",
    ),
    (
        r"^helmreleases (gives-up|tries-on|fixed-and-forced|cleans-up) / status / history / \d / action$",
        "the release of before is not written again by an upgrade that fails, and keeps what is told of it",
    ),
    (
        r"^helmreleases (no-kind|no-render|no-schema|not-taken) / status / failures$",
        "a failure is tried again at another pace",
    ),
    (
        r"^(helmreleases no-schema / status / conditions / \d / message|events of HelmRelease no-schema / Warning UpgradeFailed: .*)$",
        "values are not repeated: what a schema refuses is told in other words",
    ),
    (
        r"^helmreleases (uninstalls|install-remedied) / (status / inventory|metadata / managers / helm-controller Update status / f:status f:inventory)",
        "what was uninstalled is in no inventory",
    ),
    (
        r"^configmaps moves-config$",
        "a release that moves is uninstalled where it is: Flux looks for its objects in the new namespace, and leaves them",
    ),
    (
        r"^configmaps object-gone-more / metadata / managers / helm-controller (Apply|Update)$",
        "an object that was deleted is applied again, as it was before: one manager has its fields",
    ),
    (
        r"^helmreleases stops / status / observedGeneration$",
        "a suspended object is left as it is",
    ),
];

/// Of signed charts.
pub const SIGNATURES: &[Meant] = &[
    (
        r"^(ocirepositories|helmcharts) (unsigned|strange|unnoted|stranger|stranger-2|other-root) / status / conditions / \d / message$",
        "who refuses a signature says why, and what to do",
    ),
    (
        r"^events of (OCIRepository|HelmChart) (unsigned|strange|unnoted|stranger|stranger-2|other-root) / Warning (Chart)?VerificationError: ",
        "who refuses a signature says why, and what to do",
    ),
    (
        r"^helmcharts no-secret / status / conditions$",
        "a Secret that is missing is no failure to fetch: Flux tells it a second time, as an unknown error of a build",
    ),
];

/// Of sources over several steps.
pub const SOURCES: &[Meant] = &[
    (
        r"^(gitrepositories|helmrepositories|ocirepositories|buckets) \S+ / status / artifact / (digest|size)$",
        "files are packed by another packer, and an index stays as it was served",
    ),
    (
        r"^events of (OCIRepository|Bucket) \S+ / Normal .* / annotations / source.toolkit.fluxcd.io/digest$",
        "files are packed by another packer",
    ),
    (
        r"^events of GitRepository \S+ / Normal NewArtifact: ",
        "a push is followed by its hash: the message of the commit is not asked for",
    ),
    (
        r"^events of HelmRepository \S+ / Normal NewArtifact: stored fetched index",
        "an index stays as it was served: its size and digest are others",
    ),
    (
        r"^events of \S+ \S+ / Normal (ArtifactUpToDate|GitOperationSucceeded): ",
        "a heartbeat is no news",
    ),
    (
        r"^events of OCIRepository (no-secret|loses) / Normal AuthenticationFailed: ",
        "a failure is told once",
    ),
    (
        r"^events of (GitRepository moves|HelmRepository (logs-in|moves)) / Normal Succeeded: ",
        "no commit's message is known, and an index stays as it was served",
    ),
    (
        r"^(buckets|gitrepositories|helmcharts|helmrepositories|ocirepositories) rests / status / (conditions / 0 / )?observedGeneration$",
        "a suspended object is left as it is",
    ),
    (
        r"^(helmcharts (bucket|tree\S*|values\S*) / status / artifact / (digest|size)|events of HelmChart (bucket|tree\S*|values\S*) / Normal .* / annotations / source.toolkit.fluxcd.io/digest)$",
        "a chart is packed by another packer",
    ),
    (
        r"^(helmrepositories (comes|no-login|no-entry|list-index|no-index|no-url|logs-in|moves)|ocirepositories (comes|docker-elsewhere|docker-wrong|latest|no-digest|no-entry|no-login|no-repository|no-path|moves)|buckets (region|url-endpoint)|gitrepositories (range-of-none|moves)|helmcharts (broken-archive|no-archive|oci-no-chart-version|tree-no-chart|tree-not-a-chart|verified)) / status / conditions / \d / message$",
        "another client asks, and another parser reads: they tell a refusal in their own words",
    ),
    (
        r"^events of (HelmRepository (comes|no-login|no-entry|list-index|no-index|no-url|logs-in|moves)|OCIRepository (comes|docker-elsewhere|docker-wrong|latest|no-digest|no-entry|no-login|no-repository|no-path|moves)|Bucket (region|url-endpoint)|GitRepository (range-of-none|moves)|HelmChart (broken-archive|no-archive|oci-no-chart-version|tree-no-chart|tree-not-a-chart|verified)) / Warning ",
        "another client asks, and another parser reads: they tell a refusal in their own words",
    ),
    (
        r"^(helmcharts oci-(elsewhere|no-login|no-secret|wrong) / status / conditions / \d / (message|reason)|events of HelmChart oci-(elsewhere|no-login|wrong) / Warning .*)$",
        "a login that fails is told as one: Flux tells it as an unknown error of a build",
    ),
    (
        r"^(helmrepositories no-host / (metadata / managers / .*|status / (observedGeneration|conditions / \d / \S+))|events of HelmRepository no-host / Warning .*)$",
        "an address without a host is none: Flux looks the host index.yaml up",
    ),
    (
        r"^(buckets empty-keys / status / conditions / \d / (message|reason)|events of Bucket empty-keys / Warning .*)$",
        "empty keys are none: Flux asks with them",
    ),
    (
        r"^(ocirepositories opaque / (status / .*|metadata / managers / .*)|events of OCIRepository opaque / .*)$",
        "a user and a password log in to a registry, too, as they do in a HelmRepository's Secret",
    ),
];
