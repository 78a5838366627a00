//! The columns of each kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration::human;
use crate::resources::Resource;

/// One column: name, type, format, priority, and the source of its cells.
pub(super) struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    cell: Cell,
}

/// The source of the cells of a column.
pub(super) enum Cell {
    /// The object's name.
    Name,
    /// The time since a time, or since the creation.
    Age,
    /// The creation time itself.
    Created,
    /// The result of a function.
    Computed(fn(&Value) -> Value),
    /// The time since the first of these times that is set; the result of a function if no time is
    /// set.
    Since(&'static [&'static str], fn(&Value) -> Value),
    /// A JSON path of a definition.
    Path(String),
}

/// All columns of a resource.
pub(super) struct Columns {
    list: Vec<Column>,
    now: Timestamp,
}

impl Columns {
    pub(super) fn definitions(&self) -> Value {
        let all = self.list.iter().map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format,
                "description": column.description, "priority": column.priority,
            })
        });
        all.collect()
    }

    pub(super) fn cells(&self, object: &Value) -> Vec<Value> {
        self.list
            .iter()
            .map(|column| self.cell(column, object))
            .collect()
    }

    fn cell(&self, column: &Column, object: &Value) -> Value {
        match &column.cell {
            Cell::Name => object["metadata"]["name"].clone(),
            Cell::Created => object["metadata"]["creationTimestamp"].clone(),
            Cell::Age => self.age(&object["metadata"]["creationTimestamp"]),
            Cell::Computed(make) => make(object),
            Cell::Since(times, make) => times
                .iter()
                .filter_map(|time| object.pointer(time))
                .find(|time| time.is_string())
                .map_or_else(|| make(object), |time| self.age(time)),
            Cell::Path(path) => match super::path::first(object, path) {
                None => Value::Null,
                Some(value) if column.kind == "date" => self.age(value),
                Some(value) => match (column.kind.as_str(), value) {
                    ("string", Value::String(_))
                    | ("integer" | "number", Value::Number(_))
                    | ("boolean", Value::Bool(_)) => value.clone(),
                    ("string", other) => other.to_string().into(),
                    _ => Value::Null,
                },
            },
        }
    }

    fn age(&self, time: &Value) -> Value {
        match time
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
        {
            Some(then) => human(self.now.as_second() - then.as_second()).into(),
            None => "<unknown>".into(),
        }
    }
}

fn column(name: &str, kind: &str, priority: i64, cell: Cell) -> Column {
    let format = if name == "Name" { "name" } else { "" };
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        description: String::new(),
        priority,
        cell,
    }
}

/// Returns the columns of a resource's table.
pub(super) fn of(resource: &Resource, now: Timestamp) -> Columns {
    let name = || column("Name", "string", 0, Cell::Name);
    let age = || column("Age", "string", 0, Cell::Age);
    let mut list = vec![name()];
    if let Some(custom) = &resource.custom {
        let own = custom.columns(&resource.version);
        if own.is_empty() {
            list.push(column(
                "Age",
                "date",
                0,
                Cell::Path(".metadata.creationTimestamp".into()),
            ));
        }
        for definition in own {
            let text = |key: &str| definition[key].as_str().unwrap_or_default().to_owned();
            let priority = definition["priority"].as_i64().unwrap_or_default();
            let mut made = column(
                &text("name"),
                &text("type"),
                priority,
                Cell::Path(text("jsonPath")),
            );
            made.format = text("format");
            made.description = text("description");
            list.push(made);
        }
        return Columns { list, now };
    }
    match super::builtin::columns(resource) {
        Some(own) => {
            // Some kinds define the name column themselves.
            if own.iter().any(|(name, ..)| *name == "Name") {
                list.clear();
            }
            let before = list.len();
            for (name, kind, priority, make) in own {
                let cell = match super::platform::times_of(&resource.plural, name) {
                    [] => Cell::Computed(*make),
                    times => Cell::Since(times, *make),
                };
                list.push(column(name, kind, *priority, cell));
            }
            let aged = own.iter().any(|(name, ..)| *name == "Age");
            if !aged && !super::builtin::AGELESS.contains(&resource.plural.as_str()) {
                list.insert(super::builtin::age_at(own, before), age());
            }
        }
        None => list.push(column("Created At", "date", 0, Cell::Created)),
    }
    Columns { list, now }
}
