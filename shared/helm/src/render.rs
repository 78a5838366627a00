//! The render of a chart's templates to texts.

use crate::chart_tree::{ChartNode, table};
use crate::compat::Compat;
use crate::error::HelmError;
use crate::funcs::{RenderContext, functions, without_no_value};
use crate::message;
use crate::objects::{VALUES3, VALUES4, capabilities_object, chart_value, files_value};
use crate::options::{Lookup, Options};
use driftless_gotmpl::{
    Executor, Map, MissingKey, Templates, TypeInfo, Value, freeing_cycles, lossy,
};
use std::collections::BTreeMap;

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
    let fuel = options.fuel.part(options.limits.into());
    let mut exec = Executor::new(templates, &host, fuel);
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
