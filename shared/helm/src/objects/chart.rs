//! The object `.Chart`, and the methods of `.Values`.

use crate::chart::{Dependency, Maintainer, Metadata};
use crate::chart_tree::{path_value, table};
use crate::compat::Compat;
use crate::convert::to_value;
use crate::yaml_write::to_yaml_text;
use driftless_gotmpl::{Elem, Kind, List, Map, Method, Object, Param, TypeInfo, Value};
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

const MAINTAINERS: TypeInfo = TypeInfo::plain("[]*chart.Maintainer", Elem::Host);
const DEPENDENCIES: TypeInfo = TypeInfo::plain("[]*chart.Dependency", Elem::Host);

/// Creates `.Chart` for templates.
pub(crate) fn chart_value(metadata: &Metadata, root: bool, compat: Compat) -> Value {
    let metadata = MetadataObject::new(metadata, compat);
    match compat {
        Compat::Helm3 => Value::Object(Rc::new(ChartObject {
            metadata: Rc::new(metadata),
            is_root: root,
        })),
        Compat::Helm4 => {
            let map = Map::from_pairs(metadata.fields);
            map.insert("IsRoot", Value::Bool(root));
            Value::Map(map)
        }
    }
}

#[derive(Clone)]
struct MetadataObject {
    fields: Vec<(&'static str, Value)>,
}

struct ChartObject {
    metadata: Rc<MetadataObject>,
    is_root: bool,
}

impl MetadataObject {
    fn new(m: &Metadata, compat: Compat) -> Self {
        let people = m.maintainers.iter().map(|p| maintainer(p, compat));
        let dependencies = m.dependencies.iter().flatten();
        let dependencies = dependencies.map(|d| dependency(d, compat)).collect();
        let annotations = match &m.annotations {
            None => Map::nil(&TypeInfo::STRING_MAP),
            Some(pairs) => Map::typed(
                &TypeInfo::STRING_MAP,
                pairs
                    .iter()
                    .map(|(k, v)| (k.into(), Value::str(v)))
                    .collect(),
            ),
        };
        let fields = vec![
            ("Name", Value::str(&m.name)),
            ("Home", Value::str(&m.home)),
            ("Sources", strings(&m.sources, compat)),
            ("Version", Value::str(&m.version)),
            ("Description", Value::str(&m.description)),
            ("Keywords", strings(&m.keywords, compat)),
            ("Maintainers", typed(&MAINTAINERS, people.collect(), compat)),
            ("Icon", Value::str(&m.icon)),
            ("APIVersion", Value::str(&m.api_version)),
            ("Condition", Value::str(&m.condition)),
            ("Tags", Value::str(&m.tags)),
            ("AppVersion", Value::str(&m.app_version)),
            ("Deprecated", Value::Bool(m.deprecated)),
            ("Annotations", Value::Map(annotations)),
            ("KubeVersion", Value::str(&m.kube_version)),
            ("Dependencies", typed(&DEPENDENCIES, dependencies, compat)),
            ("Type", Value::str(&m.kind)),
        ];
        MetadataObject { fields }
    }
}

fn typed(info: &'static TypeInfo, items: Vec<Value>, compat: Compat) -> Value {
    match compat {
        Compat::Helm4 => Value::list(items),
        Compat::Helm3 if items.is_empty() => Value::List(List::nil(info)),
        Compat::Helm3 => Value::List(List::typed(info, items)),
    }
}

fn strings(items: &[String], compat: Compat) -> Value {
    typed(
        &TypeInfo::STRINGS,
        items.iter().map(Value::str).collect(),
        compat,
    )
}

fn maintainer(m: &Maintainer, compat: Compat) -> Value {
    record(
        "*chart.Maintainer",
        vec![
            ("Name", "name", Value::str(&m.name)),
            ("Email", "email", Value::str(&m.email)),
            ("URL", "url", Value::str(&m.url)),
        ],
        compat,
    )
}

fn dependency(d: &Dependency, compat: Compat) -> Value {
    let imports = d.import_values.iter().map(to_value).collect();
    record(
        "*chart.Dependency",
        vec![
            ("Name", "name", Value::str(&d.name)),
            ("Version", "version", Value::str(&d.version)),
            ("Repository", "repository", Value::str(&d.repository)),
            ("Condition", "condition", Value::str(&d.condition)),
            ("Tags", "tags", strings(&d.tags, compat)),
            ("Enabled", "enabled", Value::Bool(d.enabled)),
            (
                "ImportValues",
                "import-values",
                typed(&TypeInfo::LIST, imports, compat),
            ),
            ("Alias", "alias", Value::str(&d.alias)),
        ],
        compat,
    )
}

type Field = (&'static str, &'static str, Value);

fn record(name: &'static str, fields: Vec<Field>, compat: Compat) -> Value {
    match compat {
        Compat::Helm3 => Value::Object(Rc::new(Record { name, fields })),
        Compat::Helm4 => Value::map(fields.into_iter().map(|(field, _, v)| (field, v))),
    }
}

/// A pointer to a struct, with its names in JSON.
struct Record {
    name: &'static str,
    fields: Vec<Field>,
}

impl Object for Record {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.name)
    }
    fn kind(&self) -> Kind {
        Kind::Ptr
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        self.fields
            .iter()
            .map(|(n, _, v)| (*n, v.clone()))
            .collect()
    }
    fn json(&self) -> Option<Value> {
        self.json_fields().map(Value::map)
    }
    fn json_fields(&self) -> Option<Vec<(String, Value)>> {
        let kept = self
            .fields
            .iter()
            .filter(|(_, json, v)| *json == "repository" || v.truth());
        Some(
            kept.map(|(_, json, v)| ((*json).to_owned(), v.clone()))
                .collect(),
        )
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl MetadataObject {
    /// Returns the fields in JSON, in their order.
    fn json_pairs(&self) -> Vec<(String, Value)> {
        let kept = self.fields.iter().filter(|(_, v)| v.truth());
        kept.map(|(name, value)| {
            let key = match *name {
                "APIVersion" => "apiVersion".to_owned(),
                other => other[..1].to_ascii_lowercase() + &other[1..],
            };
            (key, value.clone())
        })
        .collect()
    }
}

impl Object for MetadataObject {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("chart.Metadata")
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        self.fields.clone()
    }
    fn json(&self) -> Option<Value> {
        Some(Value::map(self.json_pairs()))
    }
    fn json_fields(&self) -> Option<Vec<(String, Value)>> {
        Some(self.json_pairs())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Object for ChartObject {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("struct { chart.Metadata; IsRoot bool }")
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Metadata", Value::Object(self.metadata.clone())),
            ("IsRoot", Value::Bool(self.is_root)),
        ]
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Metadata" => Some(Value::Object(self.metadata.clone())),
            "IsRoot" => Some(Value::Bool(self.is_root)),
            name => self
                .metadata
                .fields
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| v.clone()),
        }
    }
    fn json(&self) -> Option<Value> {
        self.json_fields().map(Value::map)
    }
    fn json_fields(&self) -> Option<Vec<(String, Value)>> {
        let mut pairs = self.metadata.json_pairs();
        pairs.push(("IsRoot".to_owned(), Value::Bool(self.is_root)));
        Some(pairs)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The methods of Helm's `Values`.
pub(super) const VALUES_METHODS: &[Method] = &[
    Method {
        name: "AsMap",
        params: &[],
        variadic: false,
        call: |_, v, _| match v {
            Value::Map(m) => Ok(Value::Map(m.retyped(&TypeInfo::MAP))),
            _ => Ok(Value::map::<&str>([])),
        },
    },
    Method {
        name: "YAML",
        params: &[],
        variadic: false,
        call: |_, v, _| Ok(Value::str(to_yaml_text(v)?)),
    },
    Method {
        name: "Table",
        params: &[Param::Str],
        variadic: false,
        call: |_, v, args| match v {
            Value::Map(m) => Ok(Value::Map(table(m, &path(args))?.retyped(m.info()))),
            _ => Err("not a table".into()),
        },
    },
    Method {
        name: "PathValue",
        params: &[Param::Str],
        variadic: false,
        call: |_, v, args| match v {
            Value::Map(m) => Ok(path_value(m, &path(args))?),
            _ => Err("not a table".into()),
        },
    },
];

/// Returns the argument of a method that takes a dotted path.
fn path(args: &[Value]) -> String {
    let path = args.first().and_then(Value::as_str);
    path.map(ToString::to_string).unwrap_or_default()
}
