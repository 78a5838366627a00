//! How a directory is rendered, and what that may cost.

/// How a directory is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which files a kustomization may name.
    pub load_restrictor: LoadRestrictor,
    /// The order of the output.
    pub reorder: Reorder,
    /// Whether entries may lead to other hosts. The caller fetches them: see
    /// [`ErrorKind::Needs`](crate::ErrorKind::Needs).
    pub remote: bool,
    /// Whether `helmCharts` are allowed. They need an engine, too: see [`Charts`](crate::Charts).
    pub enable_helm: bool,
    /// Kubernetes' version for charts whose entry names none.
    pub kube_version: Option<String>,
    /// API versions of the cluster, for charts whose entry names none.
    pub api_versions: Vec<String>,
    /// Adds the label `app.kubernetes.io/managed-by: kustomize-v5.8.2` to every object.
    pub managed_by_label: bool,
    /// Keeps the built-in OpenAPI schema when a kustomization brings its own (`openapi.path`), as Flux does. kustomize's
    /// command line reads only the own one.
    pub keep_builtin_schema: bool,
    /// What one build may cost.
    pub limits: Limits,
}

impl Default for Options {
    /// As `kustomize build` without flags.
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
    /// As Flux's kustomize-controller builds: files from anywhere in the tree, the order of the kustomization.
    pub fn flux() -> Self {
        Self {
            load_restrictor: LoadRestrictor::None,
            reorder: Reorder::None,
            keep_builtin_schema: true,
            ..Self::default()
        }
    }
}

/// Which files a kustomization may name. Bases may always be anywhere in the tree.
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
    /// As the resources were read.
    None,
    /// As the command line without a flag: legacy.
    Unspecified,
}

/// What one build may cost, as the [`Fuel`](driftless_manifest::Fuel) of the build and a few counts beside it; the limits of all
/// engines stand in [`driftless_manifest::fuel`]. Tenants are hostile, so every count has an end; each is refused by
/// [`ErrorKind::Budget`](crate::ErrorKind::Budget), which names the limit.
///
/// | what could grow without end | what ends it |
/// | --- | --- |
/// | bases that lead to bases | `depth`; a cycle is an error of its own, with its way ([`ErrorKind::Cycle`](crate::ErrorKind::Cycle)) |
/// | bases that are entered again and again | `kustomizations` |
/// | files, also one that is read many times | `bytes` |
/// | one YAML text, its nesting and its aliases | [`yaml::Limits`](driftless_manifest::yaml::Limits); what is read costs `steps`, and while it is read `nodes` |
/// | values in values | 1,000 levels |
/// | objects and patches, and what generators, patches, labels, prefixes and replacements add | `nodes` |
/// | objects | `resources` |
/// | transformers that look at much and change little | `steps` |
/// | regular expressions | `steps` for what compiling and matching them costs, and an engine of linear time |
/// | texts of many lines in deep objects | `output` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Directories that lead to directories.
    pub depth: usize,
    /// Bytes of all files read, a file that is read twice counted twice.
    pub bytes: usize,
    /// Values (maps, lists, scalars; 64 bytes of text count as one more, and a map as four more) that are read, and added
    /// by patches, replacements, labels and so on.
    pub nodes: usize,
    /// Objects at any one time.
    pub resources: usize,
    /// Kustomizations entered, one that is entered twice counted twice.
    pub kustomizations: usize,
    /// Values compared, copied or visited.
    pub steps: usize,
    /// Bytes of all objects as YAML, with the indentation of their lines.
    pub output: usize,
}

impl Default for Limits {
    /// 64 levels, 64 MiB, 1.5 million values, 50,000 objects, 5,000 kustomizations, 40 million steps, 64 MiB of output: a
    /// build ends within two seconds and 256 MiB.
    fn default() -> Self {
        Self {
            depth: 64,
            bytes: 64 << 20,
            nodes: 1_500_000,
            resources: 50_000,
            kustomizations: 5_000,
            steps: 40_000_000,
            output: 64 << 20,
        }
    }
}
