//! A chart during the render of its release: its values are Go maps, because Helm's output depends
//! on which of them are the same map.

use crate::chart::{Chart, Dependency, Metadata};
use crate::compat::Compat;
use crate::convert::to_map;
use crate::error::HelmError;
use driftless_go::Error as GoError;
use driftless_gotmpl::{List, Map, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// A chart with the names, dependencies and values that result from processing.
#[derive(Clone)]
pub(crate) struct ChartNode<'c> {
    /// The chart as loaded.
    pub source: &'c Chart,
    /// Chart.yaml, with aliases applied.
    pub metadata: Metadata,
    /// values.yaml, with imported values.
    pub values: Map,
    /// The enabled subcharts.
    pub dependencies: Vec<ChartNode<'c>>,
    /// Chart.yaml's `dependencies` while they are processed. Helm 3 does not copy them with the
    /// chart, so the second of two aliases sees the changes that the first has made to them.
    pub requirements: Option<Vec<Shared>>,
    place: Rc<Place>,
}

/// An entry of `dependencies` that copies of a chart may share.
pub(crate) type Shared = Rc<RefCell<Requirement>>;

/// An entry of `dependencies`, with a flag for processed imports.
#[derive(Clone)]
pub(crate) struct Requirement {
    pub entry: Dependency,
    pub imported: bool,
}

/// The position of a chart in the tree. A copy of a chart has a separate position, but its
/// subcharts keep theirs until they are adopted again: in Helm's paths they still belong to the
/// original.
struct Place {
    name: String,
    parent: RefCell<Option<Rc<Place>>>,
}

impl Place {
    fn path(&self) -> String {
        match &*self.parent.borrow() {
            Some(parent) => format!("{}/charts/{}", parent.path(), self.name),
            None => self.name.clone(),
        }
    }
}

impl<'c> ChartNode<'c> {
    pub fn new(chart: &'c Chart) -> Self {
        let entries = chart.metadata.dependencies.iter().flatten();
        let shared = |entry: &Dependency| {
            Rc::new(RefCell::new(Requirement {
                entry: entry.clone(),
                imported: false,
            }))
        };
        let mut work = ChartNode {
            source: chart,
            metadata: chart.metadata.clone(),
            values: to_map(&chart.values),
            dependencies: Vec::new(),
            requirements: chart
                .metadata
                .dependencies
                .is_some()
                .then(|| entries.map(shared).collect()),
            place: Rc::new(Place {
                name: chart.metadata.name.clone(),
                parent: RefCell::default(),
            }),
        };
        work.adopt(chart.dependencies.iter().map(ChartNode::new).collect());
        work
    }

    /// Returns the name, after aliasing.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Returns the path, `top/charts/sub`.
    pub fn path(&self) -> String {
        self.place.path()
    }

    /// Sets its subcharts.
    pub fn adopt(&mut self, charts: Vec<ChartNode<'c>>) {
        for chart in &charts {
            *chart.place.parent.borrow_mut() = Some(self.place.clone());
        }
        self.dependencies = charts;
    }

    /// Returns the copy of a chart for an entry of `dependencies`, under its alias if there is one.
    pub fn aliased(&self, alias: &str, compat: Compat) -> Self {
        let mut copy = self.clone();
        if !alias.is_empty() {
            copy.metadata.name = alias.to_owned();
        }
        copy.replace();
        if compat == Compat::Helm4 {
            let own = |shared: &Shared| Rc::new(RefCell::new(shared.borrow().clone()));
            let requirements = self.requirements.as_ref();
            copy.requirements = requirements.map(|list| list.iter().map(own).collect());
            let mut charts = std::mem::take(&mut copy.dependencies);
            charts.iter_mut().for_each(ChartNode::replace);
            copy.adopt(charts);
        }
        copy
    }

    fn replace(&mut self) {
        let parent = self.place.parent.borrow().clone();
        self.place = Rc::new(Place {
            name: self.metadata.name.clone(),
            parent: RefCell::new(parent),
        });
    }

    /// Publishes the processed entries of `dependencies` to templates.
    pub fn publish_dependencies(&mut self) {
        let entries = |list: &Vec<Shared>| list.iter().map(|r| r.borrow().entry.clone()).collect();
        self.metadata.dependencies = self.requirements.as_ref().map(entries);
        self.dependencies
            .iter_mut()
            .for_each(ChartNode::publish_dependencies);
    }
}

/// The maximal nesting of values. Deeper values contain themselves: importing a table into a table
/// inside it creates such values.
pub(crate) const MAX_DEPTH: usize = 1_000;

/// The error for values that are nested deeper than [`MAX_DEPTH`].
pub(crate) fn too_deep() -> HelmError {
    HelmError::Values(format!(
        "the values are nested more than {MAX_DEPTH} deep; does an import-values put a table into itself?"
    ))
}

/// Copies a map, without sharing any map or list.
///
/// # Errors
/// Values that are nested too deeply, or contain themselves.
pub(crate) fn deep_copy(map: &Map) -> Result<Map, HelmError> {
    copy_map(map, 0)
}

fn copy_map(map: &Map, depth: usize) -> Result<Map, HelmError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let mut entries = map.entries().clone();
    for value in entries.values_mut() {
        if matches!(value, Value::Map(_) | Value::List(_)) {
            *value = copy(value, depth)?;
        }
    }
    Ok(Map::typed(map.info(), entries))
}

fn copy(value: &Value, depth: usize) -> Result<Value, HelmError> {
    Ok(match value {
        Value::Map(map) => Value::Map(copy_map(map, depth + 1)?),
        Value::List(_) if depth > MAX_DEPTH => return Err(too_deep()),
        Value::List(list) => {
            let items = list.items();
            let copies = items.iter().map(|item| copy(item, depth + 1));
            Value::List(List::typed(list.info(), copies.collect::<Result<_, _>>()?))
        }
        other => other.clone(),
    })
}

/// Returns the table at a dotted path.
///
/// # Errors
/// The part of the path that is not a table, with Helm's message.
pub(crate) fn table(values: &Map, path: &str) -> Result<Map, GoError> {
    let mut table = values.clone();
    for part in path.split('.') {
        table = match table.get(part) {
            Some(Value::Map(inner)) => inner,
            _ => return Err(format!("\"{part}\" is not a table").into()),
        };
    }
    Ok(table)
}

/// Returns the value at a dotted path that is not a table.
///
/// # Errors
/// The part of the path that does not lead to one, with Helm's message.
pub(crate) fn path_value(values: &Map, path: &str) -> Result<Value, GoError> {
    let (found, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(values, parent)?.get(key), key),
        None => (values.get(path), path),
    };
    match found {
        Some(Value::Map(_)) | None => Err(format!("\"{key}\" is not a value").into()),
        Some(value) => Ok(value),
    }
}
