//! A chart while its release is made: its values are Go's maps, because what Helm prints depends on which of them are
//! the same map.

use crate::chart::{Chart, Dependency, Metadata};
use crate::compat::Compat;
use crate::convert::to_map;
use crate::error::HelmError;
use driftless_gotmpl::{List, Map, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// A chart with the names, dependencies and values that processing gives it.
#[derive(Clone)]
pub(crate) struct ChartNode<'c> {
    /// The chart as it was loaded.
    pub source: &'c Chart,
    /// Chart.yaml, with aliases applied.
    pub metadata: Metadata,
    /// values.yaml, with imported values.
    pub values: Map,
    /// The subcharts that count.
    pub dependencies: Vec<ChartNode<'c>>,
    /// Chart.yaml's `dependencies` while they are processed. Helm 3 does not copy them with the chart, so that what the
    /// first of two aliases does to them is there for the second.
    pub requirements: Option<Vec<Shared>>,
    place: Rc<Place>,
}

/// An entry of `dependencies` that copies of a chart may share.
pub(crate) type Shared = Rc<RefCell<Requirement>>;

/// An entry of `dependencies`, and whether its imports are done.
#[derive(Clone)]
pub(crate) struct Requirement {
    pub entry: Dependency,
    pub imported: bool,
}

/// Where a chart stands among the others. A copy of a chart has its own place, but its subcharts keep theirs until they
/// are given to it anew: in Helm's paths they still belong to the original.
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

    /// The name, after aliasing.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// `top/charts/sub`
    pub fn path(&self) -> String {
        self.place.path()
    }

    /// Takes charts as its subcharts.
    pub fn adopt(&mut self, charts: Vec<ChartNode<'c>>) {
        for chart in &charts {
            *chart.place.parent.borrow_mut() = Some(self.place.clone());
        }
        self.dependencies = charts;
    }

    /// The copy that an entry of `dependencies` makes of a chart, under its alias if there is one.
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

    /// Puts what became of the entries of `dependencies` where templates see it.
    pub fn publish_dependencies(&mut self) {
        let entries = |list: &Vec<Shared>| list.iter().map(|r| r.borrow().entry.clone()).collect();
        self.metadata.dependencies = self.requirements.as_ref().map(entries);
        self.dependencies
            .iter_mut()
            .for_each(ChartNode::publish_dependencies);
    }
}

/// Nesting of values. What is deeper holds itself: importing a table into one of its own makes that of values.
pub(crate) const MAX_DEPTH: usize = 1_000;

/// The error for values that are nested deeper than [`MAX_DEPTH`].
pub(crate) fn too_deep() -> HelmError {
    HelmError::Values(format!(
        "the values are nested more than {MAX_DEPTH} deep; does an import-values put a table into itself?"
    ))
}

/// A copy that shares no map and no list.
///
/// # Errors
/// Values that are nested too deeply, or hold themselves.
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

/// The table at a dotted path.
///
/// # Errors
/// The part that is none, worded as Helm's.
pub(crate) fn table(values: &Map, path: &str) -> Result<Map, String> {
    let mut table = values.clone();
    for part in path.split('.') {
        table = match table.get(part) {
            Some(Value::Map(inner)) => inner,
            _ => return Err(format!("\"{part}\" is not a table")),
        };
    }
    Ok(table)
}

/// The value at a dotted path that is no table.
///
/// # Errors
/// The part that is none, worded as Helm's.
pub(crate) fn path_value(values: &Map, path: &str) -> Result<Value, String> {
    let (found, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(values, parent)?.get(key), key),
        None => (values.get(path), path),
    };
    match found {
        Some(Value::Map(_)) | None => Err(format!("\"{key}\" is not a value")),
        Some(value) => Ok(value),
    }
}
