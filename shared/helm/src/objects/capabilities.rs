//! The object `.Capabilities`.

#[path = "api_versions.rs"]
mod api_versions;

use crate::compat::Compat;
use driftless_go::Error as GoError;
use driftless_gotmpl::{Elem, Kind, List, Method, Object, Param, TypeInfo, Value};
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

/// The capabilities of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The version, `v1.34.0`, with its suffix in Helm 4.
    pub kube_version: String,
    /// The three numbers of the version, for checking constraints.
    pub plain_version: String,
    /// The first number of the version.
    pub major: String,
    /// The second number of the version.
    pub minor: String,
    /// The API versions: `apps/v1`, `apps/v1/Deployment`, …
    pub api_versions: Vec<String>,
}

/// Returns the API versions that `helm template` assumes of a cluster.
pub fn default_api_versions() -> Vec<String> {
    api_versions::API_VERSIONS
        .iter()
        .map(|v| (*v).to_owned())
        .collect()
}

impl Default for Capabilities {
    /// Returns Kubernetes 1.37, like the client library of Helm 3.22 and 4.3, with the default API
    /// versions.
    fn default() -> Self {
        Capabilities {
            kube_version: "v1.37.0".to_owned(),
            plain_version: "v1.37.0".to_owned(),
            major: "1".to_owned(),
            minor: "37".to_owned(),
            api_versions: default_api_versions(),
        }
    }
}

impl Capabilities {
    /// Parses `--kube-version`: Helm 3 drops the suffix after the three numbers, Helm 4 keeps it.
    ///
    /// # Errors
    /// The text is not a version.
    pub fn with_kube_version(mut self, text: &str, compat: Compat) -> Result<Self, GoError> {
        let bad = || format!("invalid kube version '{text}'");
        let bare = text.trim().strip_prefix('v').unwrap_or(text.trim());
        let end = bare
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(bare.len());
        let numbers: Vec<u64> = bare[..end]
            .split('.')
            .map(|n| n.parse().map_err(|_| bad()))
            .collect::<Result<_, _>>()?;
        if numbers.len() < 2 {
            return Err(bad().into());
        }
        let mut plain: Vec<String> = numbers.iter().map(u64::to_string).collect();
        plain.resize(plain.len().max(2), "0".to_owned());
        self.major.clone_from(&plain[0]);
        self.minor.clone_from(&plain[1]);
        self.plain_version = format!("v{}", plain.join("."));
        self.kube_version = match compat {
            Compat::Helm3 => self.plain_version.clone(),
            Compat::Helm4 => format!("v{bare}"),
        };
        Ok(self)
    }
}

const VERSION_SET3: TypeInfo = TypeInfo {
    name: "chartutil.VersionSet",
    elem: Elem::Str,
    methods: SET_METHODS,
};
const VERSION_SET4: TypeInfo = TypeInfo {
    name: "common.VersionSet",
    elem: Elem::Str,
    methods: SET_METHODS,
};

const SET_METHODS: &[Method] = &[Method {
    name: "Has",
    params: &[Param::Str],
    variadic: false,
    call: |_, set, args| {
        let found = match (set, &args[0]) {
            (Value::List(set), Value::Str(wanted)) => set
                .items()
                .iter()
                .any(|v| matches!(v, Value::Str(s) if s == wanted)),
            _ => false,
        };
        Ok(Value::Bool(found))
    },
}];

struct CapabilitiesObject {
    compat: Compat,
    kube: Value,
    versions: Value,
    helm: Value,
}

struct KubeVersion {
    compat: Compat,
    version: Value,
    plain: String,
    major: Value,
    minor: Value,
}

struct BuildInfo(Compat);

pub(crate) fn capabilities_object(capabilities: &Capabilities, compat: Compat) -> Value {
    let info = match compat {
        Compat::Helm3 => &VERSION_SET3,
        Compat::Helm4 => &VERSION_SET4,
    };
    let versions = capabilities.api_versions.iter().map(Value::str).collect();
    Value::Object(Rc::new(CapabilitiesObject {
        compat,
        kube: Value::Object(Rc::new(KubeVersion {
            compat,
            version: Value::str(&capabilities.kube_version),
            plain: capabilities.plain_version.clone(),
            major: Value::str(&capabilities.major),
            minor: Value::str(&capabilities.minor),
        })),
        versions: Value::List(List::typed(info, versions)),
        helm: Value::Object(Rc::new(BuildInfo(compat))),
    }))
}

fn package(compat: Compat, name: &str, pointer: bool) -> Cow<'static, str> {
    let package = match compat {
        Compat::Helm3 => "chartutil",
        Compat::Helm4 => "common",
    };
    let star = if pointer { "*" } else { "" };
    Cow::Owned(format!("{star}{package}.{name}"))
}

impl Object for CapabilitiesObject {
    fn type_name(&self) -> Cow<'static, str> {
        package(self.compat, "Capabilities", true)
    }
    fn kind(&self) -> Kind {
        Kind::Ptr
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("KubeVersion", self.kube.clone()),
            ("APIVersions", self.versions.clone()),
            ("HelmVersion", self.helm.clone()),
        ]
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

const KUBE_METHODS: &[Method] = &[
    Method {
        name: "String",
        params: &[],
        variadic: false,
        call: |_, v, _| match v {
            Value::Object(o) => Ok(o.string().map(Value::str).unwrap_or_default()),
            _ => Ok(Value::NoValue),
        },
    },
    Method {
        name: "GitVersion",
        params: &[],
        variadic: false,
        call: |_, v, _| match v {
            Value::Object(o) => Ok(o.field("Version").unwrap_or_default()),
            _ => Ok(Value::NoValue),
        },
    },
];

impl Object for KubeVersion {
    fn type_name(&self) -> Cow<'static, str> {
        package(self.compat, "KubeVersion", false)
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Version", self.version.clone()),
            ("Major", self.major.clone()),
            ("Minor", self.minor.clone()),
        ]
    }
    fn methods(&self) -> &'static [Method] {
        KUBE_METHODS
    }
    fn string(&self) -> Option<String> {
        Some(self.plain.clone())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Object for BuildInfo {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("version.BuildInfo")
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        let version = match self.0 {
            Compat::Helm3 => "v3.22.0",
            Compat::Helm4 => "v4.3.1",
        };
        let mut fields = vec![
            ("Version", Value::str(version)),
            ("GitCommit", Value::str("")),
            ("GitTreeState", Value::str("")),
            ("GoVersion", Value::str("go1.26.8")),
        ];
        if self.0 == Compat::Helm4 {
            fields.push(("KubeClientVersion", Value::str("v1.37")));
        }
        fields
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
