//! The render of a chart's templates to texts.

use crate::chart_tree::{ChartNode, table};
use crate::compat::Compat;
use crate::error::HelmError;
use crate::funcs::functions;
use crate::message;
use crate::objects::{
    Capabilities, VALUES3, VALUES4, capabilities_object, chart_value, files_value,
};
use crate::render_context::RenderContext;
use driftless_go::quote::quote;
use driftless_gotmpl::{
    Exec, Limits, Map, MissingKey, Templates, TypeInfo, Value, freeing_cycles, lossy,
};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The release that is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseInfo {
    /// `.Release.Name`
    pub name: String,
    /// `.Release.Namespace`
    pub namespace: String,
    /// `.Release.Revision`
    pub revision: i64,
    /// `.Release.IsUpgrade`; `.Release.IsInstall` is its opposite.
    pub is_upgrade: bool,
}

/// The key of a `lookup` in a template, of one object or all of a kind in a namespace: apiVersion,
/// kind, namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lookup {
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
    /// The namespace; empty for all namespaces, or for cluster-scoped kinds.
    pub namespace: String,
    /// The name; empty for a list.
    pub name: String,
}

/// The inputs of a render in addition to chart and values.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of Helm to reproduce.
    pub compat: Compat,
    /// The release that is rendered.
    pub release: ReleaseInfo,
    /// The capabilities of the cluster.
    pub capabilities: Capabilities,
    /// The result of `now`, in seconds and nanoseconds since 1970.
    pub now: (i64, u32),
    /// The seed of all random functions: the same seed produces the same keys and passwords.
    pub entropy: [u8; 32],
    /// The objects for `lookup`, null for those that do not exist; `None` without a cluster, where
    /// `lookup` finds nothing.
    pub lookups: Option<Arc<BTreeMap<Lookup, Json>>>,
    /// The total limits of the templates.
    pub limits: Limits,
}

impl Options {
    /// Returns the options of a first installation under this name, as `helm template` renders it:
    /// Helm 3, no cluster, the clock and the seed at zero.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            compat: Compat::Helm3,
            release: ReleaseInfo {
                name: name.into(),
                namespace: namespace.into(),
                revision: 1,
                is_upgrade: false,
            },
            capabilities: Capabilities::default(),
            now: (0, 0),
            entropy: [0; 32],
            lookups: None,
            limits: Limits::default(),
        }
    }
}

/// The outcome of rendering templates.
#[derive(Clone, Debug)]
pub enum TemplateOutcome {
    /// The texts by the templates' full names, without partials.
    Done(BTreeMap<String, Vec<u8>>),
    /// The objects that must be known first.
    Needs(Vec<Lookup>),
}

/// The bytes of a render's stack: templates may include each other 1,000 levels deep. Only used
/// pages take memory.
const STACK: usize = 256 << 20;

/// The bytes that a caller's stack must have left for a render to stay on it: a thread that renders
/// repeatedly has such a stack, and saves allocating a new one each time.
const MIN_REMAINING: usize = STACK - (16 << 20);

/// Runs `f` on a stack that is large enough for hostile charts, and afterwards frees values that
/// contain themselves: the result of `f` must not be made of them.
pub(crate) fn on_large_stack<T>(f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(MIN_REMAINING, STACK, || freeing_cycles(f))
}

/// One template file with its scope.
struct Source<'c> {
    name: String,
    base: String,
    text: &'c [u8],
    scope: Map,
}

/// Executes every template of a chart on coalesced values.
///
/// # Errors
/// [`HelmError::Render`], with Helm's message.
pub(crate) fn render_templates(
    chart: &ChartNode<'_>,
    values: &Map,
    options: &Options,
) -> Result<TemplateOutcome, HelmError> {
    let mut sources = BTreeMap::new();
    let root = Root::new(options);
    let info = values_type(options.compat);
    let all = Value::Map(values.retyped(info));
    root.scope(chart, all, true, &mut sources);
    let mut sources: Vec<Source<'_>> = sources.into_values().collect();
    // Deepest first, within one depth in reverse order: the last definition of a name wins.
    sources.sort_by(|a, b| {
        let depth = |s: &Source<'_>| s.name.matches('/').count();
        (depth(b), &b.name).cmp(&(depth(a), &a.name))
    });
    let mut templates = Templates::new(functions(options.compat)).missing_key(MissingKey::Zero);
    for source in &sources {
        let text = lossy(source.text);
        templates
            .parse(&source.name, &text)
            .map_err(|e| message::parsing(&source.name, &e))?;
    }
    let host = RenderContext::new(options);
    let mut exec = Exec::new(templates, &host, options.limits);
    let mut out = BTreeMap::new();
    let mut failure = None;
    for source in &sources {
        if source
            .name
            .rsplit('/')
            .next()
            .is_some_and(|f| f.starts_with('_'))
        {
            continue;
        }
        let template = Map::from_pairs([
            ("Name", Value::str(&source.name)),
            ("BasePath", Value::str(&source.base)),
        ]);
        source
            .scope
            .insert("Template", Value::Map(template.retyped(info)));
        match exec.execute(&source.name, Value::Map(source.scope.retyped(info))) {
            Ok(text) => {
                out.insert(source.name.clone(), without_no_value(text));
            }
            Err(error) => {
                failure = Some(message::execution(&source.name, &error, options.compat));
                break;
            }
        }
    }
    let needs = host.needs();
    if !needs.is_empty() {
        return Ok(TemplateOutcome::Needs(needs));
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(TemplateOutcome::Done(out)),
    }
}

fn values_type(compat: Compat) -> &'static TypeInfo {
    match compat {
        Compat::Helm3 => &VALUES3,
        Compat::Helm4 => &VALUES4,
    }
}

/// The values that all charts of a release share.
struct Root {
    compat: Compat,
    release: Value,
    capabilities: Value,
}

impl Root {
    fn new(options: &Options) -> Self {
        let r = &options.release;
        Root {
            compat: options.compat,
            capabilities: capabilities_object(&options.capabilities, options.compat),
            release: Value::map([
                ("Name", Value::str(&r.name)),
                ("Namespace", Value::str(&r.namespace)),
                ("IsUpgrade", Value::Bool(r.is_upgrade)),
                ("IsInstall", Value::Bool(!r.is_upgrade)),
                ("Revision", Value::int(r.revision)),
                ("Service", Value::str("Helm")),
            ]),
        }
    }

    fn scope<'c>(
        &self,
        chart: &'c ChartNode<'c>,
        values: Value,
        is_root: bool,
        sources: &mut BTreeMap<String, Source<'c>>,
    ) -> Map {
        let path = chart.path();
        let subcharts = Map::new();
        let scope = Map::from_pairs([
            ("Chart", chart_value(&chart.metadata, is_root, self.compat)),
            ("Files", files_value(&chart.source.files)),
            ("Release", self.release.clone()),
            ("Capabilities", self.capabilities.clone()),
            ("Values", values.clone()),
            ("Subcharts", Value::Map(subcharts.clone())),
        ]);
        for sub in &chart.dependencies {
            let info = values_type(self.compat);
            let found = match &values {
                Value::Map(map) => table(map, sub.name()).ok(),
                _ => None,
            };
            let inner = found.unwrap_or_default().retyped(info);
            let inner = self.scope(sub, Value::Map(inner), false, sources);
            subcharts.insert(sub.name(), Value::Map(inner));
        }
        for file in &chart.source.templates {
            let base = file.name.rsplit('/').next().unwrap_or_default();
            if chart.source.is_library() && !base.starts_with('_') {
                continue;
            }
            let name = driftless_go::path::clean(&format!("{path}/{}", file.name));
            let source = Source {
                name: name.clone(),
                base: format!("{path}/templates"),
                text: &file.data,
                scope: scope.clone(),
            };
            sources.insert(name, source);
        }
        scope
    }
}

pub(crate) fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"<no value>";
    let Some(first) = find(&text, MARK) else {
        return text;
    };
    let mut out = text[..first].to_vec();
    let mut rest = &text[first + MARK.len()..];
    while let Some(at) = find(rest, MARK) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + MARK.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].iter().position(|b| *b == wanted[0])?;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

pub(crate) fn quoted(text: &[u8]) -> String {
    quote(text)
}
