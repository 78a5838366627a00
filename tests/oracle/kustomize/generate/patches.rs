//! Patches, field paths and replacements, generated from their target objects.

use super::objects::{Object, VARS, scalar, value_text};
use super::yaml::{Yaml, block, list, map, plain, text};
use driftless_harness::random::Random;
use driftless_manifest::pointer;

/// Returns a strategic merge patch of an object.
pub fn strategic(object: &Object, random: &mut Random) -> Yaml {
    let mut metadata = map([("name", text(&object.name))]);
    if let Some(namespace) = object.namespace {
        metadata.push("namespace", text(namespace));
    }
    let mut patch = map([
        ("apiVersion", text(object.api_version)),
        ("kind", text(object.kind)),
    ]);
    if random.percent(20) {
        let field = random.pick(&["labels", "annotations"]);
        let change = map([(
            random.pick(&["app", "note", "added"]),
            if random.percent(20) {
                plain("null")
            } else {
                value_text(random)
            },
        )]);
        metadata.push(field, change);
    }
    patch.push("metadata", metadata);
    if random.percent(4) {
        patch.push("$patch", text("delete"));
        return patch;
    }
    let Yaml::Map(fields, _) = &object.body else {
        return patch;
    };
    let fields: Vec<_> = fields
        .iter()
        .filter(|(key, _)| !["apiVersion", "kind", "metadata"].contains(&key.as_str()))
        .collect();
    if !fields.is_empty() {
        let (key, value) = random.pick(&fields);
        patch.push(key, changed(value, random));
    }
    patch
}

/// Returns the value of a patch for a value of the object.
fn changed(value: &Yaml, random: &mut Random) -> Yaml {
    if random.percent(4) {
        return plain("null");
    }
    match value {
        Yaml::Map(fields, _) => changed_map(fields, random),
        Yaml::List(items, _) => changed_list(items, random),
        other if random.percent(20) => other.clone(),
        Yaml::Plain(text) if text.parse::<i64>().is_ok() => plain(random.below(9000)),
        _ => scalar(random),
    }
}

fn changed_map(fields: &[(String, Yaml)], random: &mut Random) -> Yaml {
    let mut patch = map([]);
    if !fields.is_empty() {
        let first = random.below(fields.len());
        for at in 0..=random.below(2).min(fields.len() - 1) {
            let (key, value) = &fields[(first + at) % fields.len()];
            patch.push(key, changed(value, random));
        }
    }
    if random.percent(12) {
        patch.push(random.pick(&["added", "extra", "zzz"]), scalar(random));
    }
    if random.percent(5) {
        patch.push(
            "$patch",
            text(random.pick(&["replace", "replace", "delete", "merge"])),
        );
    }
    if random.percent(2) {
        patch.push("$retainKeys", list(vec![text("type")]));
    }
    patch
}

/// The fields that identify list elements.
const KEYS: [&str; 6] = ["name", "containerPort", "port", "mountPath", "key", "ip"];

fn changed_list(items: &[Yaml], random: &mut Random) -> Yaml {
    let mut patch = Vec::new();
    if !items.is_empty() {
        let element = random.choose(items);
        match element {
            Yaml::Map(fields, _) => patch.push(changed_element(element, fields, random)),
            other => patch.push(if random.percent(50) {
                other.clone()
            } else {
                scalar(random)
            }),
        }
    }
    if random.percent(30) {
        let name = random.pick(&["added", "main", "http", "MODE"]);
        let mut added = map([("name", text(name))]);
        added.push(
            random.pick(&["value", "image", "containerPort", "note"]),
            scalar(random),
        );
        let at = random.below(patch.len() + 1);
        patch.insert(at, added);
    }
    if random.percent(6) {
        patch.push(map([(
            "$patch",
            text(random.pick(&["replace", "delete", "merge"])),
        )]));
    }
    list(patch)
}

fn changed_element(element: &Yaml, fields: &[(String, Yaml)], random: &mut Random) -> Yaml {
    let mut change = map([]);
    for key in KEYS {
        if let Some(value) = element.get(key) {
            change.push(key, value.clone());
        }
    }
    if random.percent(12) {
        change.push(
            "$patch",
            text(random.pick(&["delete", "delete", "replace"])),
        );
        return change;
    }
    let others: Vec<_> = fields
        .iter()
        .filter(|(key, _)| !KEYS.contains(&key.as_str()))
        .collect();
    if !others.is_empty() {
        let (key, value) = random.pick(&others);
        change.push(key, changed(value, random));
    }
    change
}

/// The path to a value: keys and indexes.
pub type Way = Vec<Step>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    /// An index in a list, and the name of the element there.
    Item(usize, Option<String>),
}

/// Returns a path into an object, often to a scalar.
pub fn way(body: &Yaml, random: &mut Random) -> Way {
    let mut way = Vec::new();
    let mut at = body;
    loop {
        let (step, next) = match at {
            Yaml::Map(fields, _) if !fields.is_empty() => {
                let (key, value) = random.choose(fields);
                (Step::Key(key.clone()), value)
            }
            Yaml::List(items, _) if !items.is_empty() => {
                let place = random.below(items.len());
                let name = items[place]
                    .get("name")
                    .and_then(Yaml::scalar)
                    .map(str::to_owned);
                (Step::Item(place, name), &items[place])
            }
            _ => return way,
        };
        way.push(step);
        at = next;
        if way.len() > 1 && random.percent(4) {
            return way;
        }
    }
}

fn pointer(way: &Way) -> String {
    let part = |step: &Step| match step {
        Step::Key(key) => format!("/{}", pointer::escape(key)),
        Step::Item(place, _) => format!("/{place}"),
    };
    way.iter().map(part).collect()
}

/// Returns a field path in the syntax of replacements and vars.
pub fn field_path(way: &Way, random: &mut Random) -> String {
    let part = |step: &Step| match step {
        Step::Key(key) if key.contains('.') && random.percent(50) => format!("[{key}]"),
        Step::Key(key) => key.replace('.', "\\."),
        Step::Item(_, _) if random.percent(20) => "*".to_owned(),
        Step::Item(_, Some(name)) if random.percent(70) => format!("[name={name}]"),
        Step::Item(place, _) => place.to_string(),
    };
    way.iter().map(part).collect::<Vec<_>>().join(".")
}

/// Returns a JSON patch of an object, as a separate document.
pub fn json(object: &Object, random: &mut Random) -> Yaml {
    let count = 1 + random.below(3);
    list(
        (0..count)
            .map(|_| operation(&object.body, random))
            .collect(),
    )
}

fn operation(body: &Yaml, random: &mut Random) -> Yaml {
    let field = |op: &str, path: &str| map([("op", text(op)), ("path", text_of(path))]);
    let mut target = way(body, random);
    // Mostly keep the identity: later fields could not refer to a renamed object.
    let is_identity =
        target.len() < 2 || (target[0] == Step::Key("metadata".to_owned()) && random.percent(70));
    if is_identity {
        let mut add = field("add", "/metadata/added");
        add.push("value", value(random));
        return add;
    }
    let path = pointer(&target);
    match random.below(20) {
        0..=9 => {
            let mut replace = field("replace", &path);
            replace.push("value", value(random));
            replace
        }
        10..=14 => {
            if let Some(Step::Item(..)) = target.last() {
                target.pop();
                target.push(Step::Key(
                    random.pick(&["-", "-", "0", "0", "-1", "7"]).to_owned(),
                ));
            }
            let mut add = field("add", &pointer(&target));
            add.push("value", value(random));
            add
        }
        15..=16 => field("remove", &path),
        17 => {
            let mut test = field("test", &path);
            let there = target.iter().try_fold(body, |at, step| at.step(step));
            test.push("value", there.cloned().unwrap_or_else(|| value(random)));
            test
        }
        _ => {
            let mut copy = field(random.pick(&["copy", "move"]), "/metadata/copied");
            copy.push("from", text_of(&path));
            copy
        }
    }
}

fn text_of(path: &str) -> Yaml {
    if path.contains([' ', '$', '"', '[', '{']) {
        super::yaml::block(path)
    } else {
        plain(path)
    }
}

fn value(random: &mut Random) -> Yaml {
    match random.below(6) {
        0 => map([("name", text("added")), ("value", scalar(random))]),
        1 => list(vec![scalar(random), map([("a", scalar(random))])]),
        _ => scalar(random),
    }
}

/// Returns a selector of an object: some of its fields, sometimes as expressions.
pub fn selector(object: &Object, random: &mut Random) -> Yaml {
    let mut selector = map([]);
    if random.percent(80) {
        selector.push("kind", text(object.kind));
    }
    let name = match random.below(6) {
        0 => None,
        1 => Some(".*".to_owned()),
        2 => Some(format!("{}.*", &object.name[..1])),
        3 => Some(format!("{}|other", object.name)),
        _ => Some(object.name.clone()),
    };
    if let Some(name) = name {
        selector.push("name", Yaml::Quoted(name, super::yaml::Quote::Double));
    }
    let (group, version) = object
        .api_version
        .split_once('/')
        .unwrap_or(("", object.api_version));
    if random.percent(15) && !group.is_empty() {
        selector.push("group", text(group));
    }
    if random.percent(10) {
        selector.push("version", text(version));
    }
    if let (Some(namespace), true) = (object.namespace, random.percent(30)) {
        selector.push("namespace", text(namespace));
    }
    if random.percent(10) {
        let expression = random.pick(&[
            "app",
            "app=web",
            "app in (web,api)",
            "!nothing",
            "tier!=prod",
        ]);
        selector.push(
            "labelSelector",
            Yaml::Quoted(expression.to_owned(), super::yaml::Quote::Double),
        );
    }
    if random.percent(4) {
        selector.push("annotationSelector", text("note"));
    }
    selector
}

/// Returns an entry of `replacements` from one object into another.
pub fn replacement(from: &Object, to: &Object, random: &mut Random) -> Yaml {
    let mut source = map([("kind", text(from.kind)), ("name", text(&from.name))]);
    if random.percent(70) {
        let path = field_path(&way(&from.body, random), random).replace('*', "0");
        source.push("fieldPath", block_if_needed(&path));
    }
    let delimiter = random
        .percent(10)
        .then(|| random.pick(&[":", "/", "-", "."]));
    if let Some(delimiter) = delimiter {
        source.push("options", options(delimiter, random));
    }
    let mut target = map([("select", selector(to, random))]);
    if random.percent(10) {
        target.push("reject", list(vec![map([("name", text(&to.name))])]));
    }
    let has_containers = to
        .body
        .get("spec")
        .and_then(|spec| spec.get("template"))
        .is_some();
    let path = match random.below(10) {
        0 | 1 => "metadata.annotations.copied".to_owned(),
        2 => "metadata.annotations.[example.com/copied]".to_owned(),
        3 if has_containers => "spec.template.spec.containers.[name=main].image".to_owned(),
        4 if has_containers => "spec.template.spec.containers.*.image".to_owned(),
        _ => field_path(&way(&to.body, random), random),
    };
    if random.percent(95) {
        target.push("fieldPaths", list(vec![block_if_needed(&path)]));
    }
    let create = path.contains("copied") || random.percent(40);
    if create || random.percent(20) {
        let mut options = match random.below(4) {
            0 => options(random.pick(&[":", "/", "-"]), random),
            _ => map([]),
        };
        if create && !random.percent(6) {
            options.push("create", plain(true));
        }
        target.push("options", options);
    }
    let mut entry = map([]);
    if random.percent(8) {
        entry.push("sourceValue", value_text(random));
    } else {
        entry.push("source", source);
    }
    entry.push("targets", list(vec![target]));
    entry
}

fn options(delimiter: &str, random: &mut Random) -> Yaml {
    let mut options = map([(
        "delimiter",
        Yaml::Quoted(delimiter.to_owned(), super::yaml::Quote::Single),
    )]);
    if random.percent(70) {
        options.push("index", plain(random.pick(&[0, 0, 0, 1, -1])));
    }
    options
}

fn block_if_needed(path: &str) -> Yaml {
    if path.contains(['[', '*', '"', '\\', '#', ' ']) || path.is_empty() {
        Yaml::Quoted(path.to_owned(), super::yaml::Quote::Double)
    } else {
        text(path)
    }
}

/// Returns an entry of `vars`.
pub fn var(object: &Object, taken: usize, random: &mut Random) -> Yaml {
    let reference = map([
        ("apiVersion", text(object.api_version)),
        ("kind", text(object.kind)),
        ("name", text(&object.name)),
    ]);
    let mut var = map([("name", text(VARS[taken])), ("objref", reference)]);
    if random.percent(50) {
        let path = field_path(&way(&object.body, random), random).replace('*', "0");
        var.push("fieldref", map([("fieldPath", block_if_needed(&path))]));
    }
    var
}

/// Returns a document as a string in another document.
pub fn inline(document: &Yaml) -> Yaml {
    block(document.document())
}
