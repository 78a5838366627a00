use crate::node::{Map, Node, Scalar};
use crate::selector::compile;

/// What a path leads to.
pub(super) enum Found<'n> {
    /// A value of the object.
    Node(&'n mut Node),
    /// A value inside of a text.
    InText,
}

type Set<'s> = &'s mut dyn FnMut(Found<'_>) -> Result<(), String>;

/// Calls `set` on everything that a path leads to. `*` stands for every item of a list, `[key=value]` for the items whose
/// key matches an expression. With `make`, fields that are missing are made, the last one of the kind of `make`.
///
/// # Errors
/// A field of a list or scalar, an index beyond the end, or whatever `set` refuses.
pub(super) fn visit(
    node: &mut Node,
    path: &[String],
    make: Option<&Node>,
    set: Set<'_>,
) -> Result<(), String> {
    let Some((part, rest)) = path.split_first() else {
        return set(Found::Node(node));
    };
    if part.parse::<usize>().is_ok() {
        return visit_index(node, part, rest, make, set);
    }
    if part.starts_with('[') && part.ends_with(']') {
        return visit_matches(node, part, rest, make, set);
    }
    if part == "*" {
        return items(node)?
            .iter_mut()
            .try_for_each(|item| visit(item, rest, make, set));
    }
    visit_field(node, part, rest, make, set)
}

fn items(node: &mut Node) -> Result<&mut Vec<Node>, String> {
    match node {
        Node::Seq(items) => Ok(items),
        node => Err(format!("it goes through {}, expected a list", node.what())),
    }
}

/// An empty value of the kind that the next part of the path needs.
fn blank(next: Option<&String>, make: &Node) -> Node {
    match next {
        Some(next)
            if next.parse::<usize>().is_ok() || (next.starts_with('[') && next.ends_with(']')) =>
        {
            Node::Seq(Vec::new())
        }
        Some(_) => Node::map(),
        None => match make {
            Node::Scalar(_) => Node::Scalar(Scalar::plain("")),
            Node::Seq(_) => Node::Seq(Vec::new()),
            Node::Map(_) => Node::map(),
        },
    }
}

fn visit_field(
    node: &mut Node,
    name: &str,
    rest: &[String],
    make: Option<&Node>,
    set: Set<'_>,
) -> Result<(), String> {
    if node.is_null() {
        return Ok(());
    }
    let Node::Map(map) = node else {
        return Err(format!("it goes through {}, expected a map", node.what()));
    };
    if let (None, Some(make)) = (map.get(name), make) {
        map.insert(name, blank(rest.first(), make));
    }
    match map.get_mut(name) {
        Some(Node::Scalar(scalar)) if !rest.is_empty() => visit_text(scalar, rest, set),
        Some(field) => visit(field, rest, make, set),
        None => Ok(()),
    }
}

/// A text on the way is read as YAML. What is found in it counts, but nothing that is set there is kept.
fn visit_text(scalar: &Scalar, rest: &[String], set: Set<'_>) -> Result<(), String> {
    let limits = driftless_manifest::yaml::Limits::default();
    let Some(mut inner) = crate::node::first_document(&scalar.text, &limits) else {
        return Err("it goes through a text that is no YAML".to_owned());
    };
    visit(&mut inner, rest, None, &mut |_| set(Found::InText))
}

fn visit_index(
    node: &mut Node,
    part: &str,
    rest: &[String],
    make: Option<&Node>,
    set: Set<'_>,
) -> Result<(), String> {
    let index: usize = part.parse().map_err(|_| format!("'{part}' is no index"))?;
    let items = items(node)?;
    if let (true, Some(make)) = (items.len() == index, make) {
        items.push(blank(rest.first(), make));
    }
    let count = items.len();
    let item = items
        .get_mut(index)
        .ok_or_else(|| format!("there is no item {index} in a list of {count}"))?;
    visit(item, rest, make, set)
}

fn visit_matches(
    node: &mut Node,
    part: &str,
    rest: &[String],
    make: Option<&Node>,
    set: Set<'_>,
) -> Result<(), String> {
    let inner = &part[1..part.len() - 1];
    let (key, pattern) = inner
        .split_once('=')
        .ok_or_else(|| format!("'{part}' is not of the form [key=value]"))?;
    let regex = compile(pattern).map_err(|error| error.to_string())?;
    let items = items(node)?;
    let fits = |item: &Node| match key {
        "" => regex.is_match(item.text().trim()),
        key => item
            .get(key)
            .is_some_and(|field| regex.is_match(field.text().trim())),
    };
    let mut count = 0;
    for item in items.iter_mut().filter(|item| fits(item)) {
        if key.is_empty() {
            set(Found::Node(item))?;
            count += 1;
        } else {
            visit(item, rest, make, &mut |found| {
                count += 1;
                set(found)
            })?;
        }
    }
    if count > 0 || make.is_none() {
        return Ok(());
    }
    let value = Node::Scalar(Scalar::plain(pattern));
    let mut item = match key {
        "" => value,
        key => Node::Map(Map(vec![(key.to_owned(), value)])),
    };
    if fits(&item) {
        if key.is_empty() {
            set(Found::Node(&mut item))?
        } else {
            visit(&mut item, rest, make, set)?
        }
    }
    items.push(item);
    Ok(())
}
