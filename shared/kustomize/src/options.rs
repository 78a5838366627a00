//! The options and limits of a build.

use driftless_fuel::Tank;

/// The options of a build.
#[derive(Clone, Debug)]
pub struct Options {
    /// The files that a kustomization may name.
    pub load_restrictor: LoadRestrictor,
    /// The order of the output.
    pub reorder: Reorder,
    /// True if entries may lead to other hosts. The caller fetches them: see
    /// [`ErrorKind::Needs`](crate::ErrorKind::Needs).
    pub remote: bool,
    /// True if `helmCharts` are allowed. They also need an engine: see [`Charts`](crate::Charts).
    pub enable_helm: bool,
    /// The version of Kubernetes for charts whose entry does not set one.
    pub kube_version: Option<String>,
    /// The API versions of the cluster, for charts whose entry does not set any.
    pub api_versions: Vec<String>,
    /// True if every object gets the label `app.kubernetes.io/managed-by: kustomize-v5.8.2`.
    pub managed_by_label: bool,
    /// True if the built-in OpenAPI schema stays in use when a kustomization brings its own
    /// (`openapi.path`), as in Flux. The command line of kustomize uses only that of the
    /// kustomization.
    pub keep_builtin_schema: bool,
    /// The limits of one build.
    pub limits: Limits,
}

impl Default for Options {
    /// Returns the options of `kustomize build` without flags.
    fn default() -> Self {
        Self {
            load_restrictor: LoadRestrictor::RootOnly,
            reorder: Reorder::Unspecified,
            remote: false,
            enable_helm: false,
            kube_version: None,
            api_versions: Vec::new(),
            managed_by_label: false,
            keep_builtin_schema: false,
            limits: Limits::default(),
        }
    }
}

impl Options {
    /// Returns the options of Flux's kustomize-controller: files from anywhere in the tree, the
    /// order of the kustomization.
    pub fn flux() -> Self {
        Self {
            load_restrictor: LoadRestrictor::None,
            reorder: Reorder::None,
            keep_builtin_schema: true,
            ..Self::default()
        }
    }
}

/// The files that a kustomization may name. Bases may always be anywhere in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadRestrictor {
    /// Files in or below the directory of the kustomization.
    RootOnly,
    /// Files anywhere in the tree.
    None,
}

/// The order of the output. A kustomization's `sortOptions` come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reorder {
    /// Namespaces, CRDs and so on first, webhooks last.
    Legacy,
    /// In the order in which the resources were read.
    None,
    /// Like the command line without a flag: legacy.
    Unspecified,
}

/// The limits of one build: the [`Fuel`](driftless_fuel::Fuel) of the build and a few further
/// counts; the limits of all engines are listed in [`driftless_fuel`]. Tenants are hostile, so
/// every count has a limit; each is enforced by [`ErrorKind::Budget`](crate::ErrorKind::Budget),
/// which names the limit.
///
/// | what could grow without limit | limit |
/// | --- | --- |
/// | bases that lead to bases | `depth`; a cycle is a separate error with its path ([`ErrorKind::Cycle`](crate::ErrorKind::Cycle)) |
/// | bases that are entered repeatedly | `kustomizations` |
/// | files, including one that is read many times | `bytes` |
/// | one YAML document, its nesting and its aliases | [`yaml::Limits`](driftless_manifest::yaml::Limits); reading costs `steps`, and temporarily `nodes` |
/// | values in values | 1,000 levels |
/// | objects and patches, and additions by generators, patches, labels, prefixes and replacements | `nodes` |
/// | objects | `resources` |
/// | transformers that visit much and change little | `steps` |
/// | regular expressions | `steps` for compiling and matching them, and an engine of linear time |
/// | multi-line strings in deep objects | `output` |
#[derive(Clone, Debug)]
pub struct Limits {
    /// The levels of directories that lead to directories.
    pub depth: usize,
    /// The bytes of all files read; a file that is read several times counts each time.
    pub bytes: usize,
    /// The values (maps, lists, scalars; 64 bytes of a string count as one more, and a map as four
    /// more) that are read, and added by patches, replacements, labels and so on.
    pub nodes: usize,
    /// The objects at any one time.
    pub resources: usize,
    /// The kustomizations entered; one that is entered several times counts each time.
    pub kustomizations: usize,
    /// The values compared, copied or visited.
    pub steps: usize,
    /// The bytes of all objects as YAML, with the indentation of their lines.
    pub output: usize,
    /// The fuel of the step that the build is part of.
    pub fuel: Tank,
}

impl Default for Limits {
    /// Returns 64 levels, 64 MiB, 1.5 million values, 50,000 objects, 5,000 kustomizations, 40
    /// million steps, 64 MiB of output: a build ends within two seconds and 256 MiB.
    fn default() -> Self {
        Self {
            depth: 64,
            bytes: 64 << 20,
            nodes: 1_500_000,
            resources: 50_000,
            kustomizations: 5_000,
            steps: 40_000_000,
            output: 64 << 20,
            fuel: Tank::default(),
        }
    }
}
