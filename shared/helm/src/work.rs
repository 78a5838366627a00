//! A chart while its release is made: its values are Go's maps, because what Helm prints depends on which of them are
//! the same map.

use crate::chart::{Chart, Metadata};
use crate::convert::to_map;
use driftless_gotmpl::{List, Map, Value};

/// A chart with the names, dependencies and values that processing gives it.
#[derive(Clone)]
pub(crate) struct Work<'c> {
    /// The chart as it was loaded.
    pub source: &'c Chart,
    /// Chart.yaml, with aliases applied.
    pub metadata: Metadata,
    /// values.yaml, with imported values.
    pub values: Map,
    /// The subcharts that count.
    pub dependencies: Vec<Work<'c>>,
}

impl<'c> Work<'c> {
    pub fn new(chart: &'c Chart) -> Self {
        Work {
            source: chart,
            metadata: chart.metadata.clone(),
            values: to_map(&chart.values),
            dependencies: chart.dependencies.iter().map(Work::new).collect(),
        }
    }

    /// The name, after aliasing.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// A copy that shares no map and no list.
pub(crate) fn deep_copy(map: &Map) -> Map {
    let copies = map.pairs().into_iter().map(|(k, v)| (k, copy(&v)));
    Map::typed(map.info(), copies.collect())
}

fn copy(value: &Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(deep_copy(map)),
        Value::List(list) => Value::List(List::typed(
            list.info(),
            list.items().iter().map(copy).collect(),
        )),
        other => other.clone(),
    }
}

/// The table at a dotted path.
pub(crate) fn table(values: &Map, path: &str) -> Option<Map> {
    let mut table = values.clone();
    for part in path.split('.') {
        table = table.get(part)?.as_map()?.clone();
    }
    Some(table)
}

/// The value at a dotted path that is no table.
pub(crate) fn path_value(values: &Map, path: &str) -> Option<Value> {
    let value = match path.rsplit_once('.') {
        Some((parent, key)) => table(values, parent)?.get(key)?,
        None => values.get(path)?,
    };
    value.as_map().is_none().then_some(value)
}
