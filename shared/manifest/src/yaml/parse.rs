//! Builds nodes from the events of the scanner, within limits.

use std::collections::HashMap;

use super::error::{Budget, LocatedError, YamlError, YamlErrorKind};
use super::events::{Event, Parser, Properties};
use super::node::{Comment, Limits, Node, NodeKind};
use super::scan::Mark;
use driftless_fuel::{Fuel, OutOfFuel};

/// Parses every document of a file.
///
/// An empty document (nothing between two `---`) is a node for which [`Node::is_empty`] holds, so
/// that callers can count or skip it; a file without documents gives an empty list. Aliases are
/// replaced by copies of their anchor's node, and the copies count towards the limits. `file` is
/// used only in errors.
///
/// Go's `Unmarshal` reads only the first document; here the whole file must be valid.
///
/// # Errors
/// [`YamlError`] if the file is not UTF-8, is not valid YAML, or exceeds one of the limits.
pub fn parse(text: &[u8], file: &str, limits: &Limits) -> Result<Vec<Node>, YamlError> {
    parse_each(text, file, limits, None, false).map(|read| read.0)
}

/// Parses like [`parse`], and also charges a fuel that the caller has for more than this file:
/// `STEPS_PER_NODE` steps for every node that is created, including copies for aliases, even if the
/// file is not valid, and the nodes themselves. A caller that drops the nodes gives them back.
///
/// # Errors
/// Those of [`parse`], or the fuel has run out.
pub fn parse_within(
    text: &[u8],
    file: &str,
    limits: &Limits,
    fuel: &Fuel,
) -> Result<Vec<Node>, YamlError> {
    parse_each(text, file, limits, Some(fuel), false).map(|read| read.0)
}

/// Steps for each node.
const STEPS_PER_NODE: usize = 4;

/// Bytes of input for each step.
const BYTES_PER_STEP: usize = 32;

/// Parses like [`parse`], and also returns the comments, in the order of the file.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_with_comments(
    text: &[u8],
    file: &str,
    limits: &Limits,
) -> Result<(Vec<Node>, Vec<Comment>), YamlError> {
    parse_each(text, file, limits, None, true)
}

fn parse_each(
    text: &[u8],
    file: &str,
    limits: &Limits,
    fuel: Option<&Fuel>,
    comments: bool,
) -> Result<(Vec<Node>, Vec<Comment>), YamlError> {
    let mut documents = Vec::new();
    let sink = |node| {
        documents.push(node);
        Ok(())
    };
    let comments = read(text, limits, fuel, comments, sink).map_err(|fault| fault.in_file(file))?;
    Ok((documents, comments))
}

/// Parses one node of the first document: the one at the keys of `path`, mapping by mapping; `None`
/// if it does not exist. The whole file must be valid, but nodes outside the path are dropped
/// immediately: the limits on nodes count the nodes that are kept and the largest dropped one, so
/// that a document of many entries costs about as much as one of them.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_path(
    text: &[u8],
    file: &str,
    limits: &Limits,
    path: &[&str],
) -> Result<Option<Node>, YamlError> {
    let mut first = None;
    let sink = |node| {
        first.get_or_insert(node);
        Ok(())
    };
    read_path(text, limits, None, false, path, sink).map_err(|fault| fault.in_file(file))?;
    let mut found = first;
    for key in path {
        let Some(NodeKind::Map(pairs)) = found.map(|node| node.kind) else {
            return Ok(None);
        };
        let at = |(name, _): &(Node, Node)| name.text() == Some(key);
        found = pairs.into_iter().find(at).map(|(_, node)| node);
    }
    Ok(found)
}

/// Passes each complete document to `sink`.
pub(super) fn read(
    text: &[u8],
    limits: &Limits,
    fuel: Option<&Fuel>,
    comments: bool,
    sink: impl FnMut(Node) -> Result<(), LocatedError>,
) -> Result<Vec<Comment>, LocatedError> {
    read_path(text, limits, fuel, comments, &[], sink)
}

fn read_path(
    text: &[u8],
    limits: &Limits,
    fuel: Option<&Fuel>,
    comments: bool,
    path: &[&str],
    mut sink: impl FnMut(Node) -> Result<(), LocatedError>,
) -> Result<Vec<Comment>, LocatedError> {
    if text.len() > limits.bytes {
        return Err(budget(Budget::Bytes, limits.bytes, START));
    }
    if let Some(fuel) = fuel {
        let steps = 1 + text.len() / BYTES_PER_STEP;
        fuel.steps(steps).map_err(|out| spent(out, START))?;
    }
    let text = std::str::from_utf8(text)
        .map_err(|e| line_of(text, e.valid_up_to()).fault(YamlErrorKind::NotUtf8))?;
    if let Some(at) = forbidden(text.as_bytes()) {
        return Err(line_of(text.as_bytes(), at).syntax("a control character"));
    }
    let mut parser = Parser::new(text, comments);
    let mut builder = Builder::new(limits, fuel, text.contains('*'), path);
    loop {
        match parser.next()? {
            (Event::StreamEnd, _) => return Ok(parser.into_comments()),
            (event, mark) => builder.event(event, mark)?,
        }
        if let Some(document) = builder.complete.take() {
            sink(document)?;
        }
    }
}

/// Returns the line of a byte.
fn line_of(text: &[u8], at: usize) -> Mark {
    Mark {
        line: 1 + text[..at].iter().filter(|b| **b == b'\n').count(),
        column: 0,
    }
}

/// Finds the first character that YAML does not allow: control characters except tab, line breaks
/// and NEL.
fn forbidden(text: &[u8]) -> Option<usize> {
    let suspect = |b: &u8| {
        (*b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r')) || matches!(b, 0x7f | 0xc2 | 0xef)
    };
    // Whole chunks are checked first, without a branch for each byte.
    let clean = |chunk: &&[u8]| !chunk.iter().fold(false, |found, b| found | suspect(b));
    const CHUNK: usize = 64;
    let mut from = CHUNK * text.chunks(CHUNK).take_while(clean).count();
    while let Some(found) = text.get(from..)?.iter().position(suspect) {
        let at = from + found;
        match text[at..] {
            [0xc2, 0x80..=0x84 | 0x86..=0x9f, ..] | [0xef, 0xbf, 0xbe | 0xbf, ..] => {
                return Some(at);
            }
            [0xc2 | 0xef, ..] => from = at + 1,
            _ => return Some(at),
        }
    }
    None
}

/// The start of a file.
const START: Mark = Mark { line: 1, column: 0 };

fn budget(unit: Budget, limit: usize, at: Mark) -> LocatedError {
    at.fault(YamlErrorKind::Budget { unit, limit })
}

/// Returns the error for a fuel of the caller that has run out.
fn spent(out: OutOfFuel, at: Mark) -> LocatedError {
    at.fault(YamlErrorKind::Fuel(out))
}

/// A collection that is still open.
struct Frame<'t> {
    node: Node,
    /// The key of a mapping whose value is not yet read.
    key: Option<Node>,
    anchor: Option<&'t str>,
    /// The cost before it began, to compute its own cost at its end.
    spent: Usage,
}

/// Nodes that a mapping counts as, in addition to itself: its table is by far the largest part of a
/// small one.
const MAPPING_NODES: usize = 4;

#[derive(Clone, Copy, Default)]
struct Usage {
    nodes: usize,
    bytes: usize,
}

impl Usage {
    fn add(&mut self, more: Usage) {
        self.nodes = self.nodes.saturating_add(more.nodes);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

struct Builder<'l, 't> {
    limits: &'l Limits,
    /// The fuel of this file.
    fuel: Fuel,
    /// The caller's fuel for all of its work.
    outer: Option<&'l Fuel>,
    /// The keys that are kept, level by level; all keys if empty.
    path: &'l [&'l str],
    /// The number of documents that have begun.
    documents: usize,
    complete: Option<Node>,
    open: Vec<Frame<'t>>,
    keep_anchors: bool,
    anchors: HashMap<&'t str, (Node, Usage)>,
    /// The cost of the nodes in the documents, without the copies that are kept for anchors.
    spent: Usage,
    /// The cost of those copies.
    kept: Usage,
}

impl<'l, 't> Builder<'l, 't> {
    fn new(
        limits: &'l Limits,
        outer: Option<&'l Fuel>,
        keep_anchors: bool,
        path: &'l [&'l str],
    ) -> Self {
        Builder {
            limits,
            fuel: limits.fuel(),
            outer,
            path,
            documents: 0,
            complete: None,
            open: Vec::new(),
            keep_anchors,
            anchors: HashMap::new(),
            spent: Usage::default(),
            kept: Usage::default(),
        }
    }

    fn event(&mut self, event: Event<'t>, at: Mark) -> Result<(), LocatedError> {
        match event {
            Event::Scalar(text, style, properties) => {
                let before = self.spent;
                let bytes = text.len() + properties.tag_bytes();
                self.spend(Usage { nodes: 1, bytes }, at)?;
                let kind = NodeKind::Scalar {
                    text: text.into_owned(),
                    style,
                };
                self.done(node(at, properties.tag, kind), properties.anchor, before)
            }
            Event::SequenceStart(properties) => {
                self.open(NodeKind::Seq(Vec::new()), properties, at)
            }
            Event::MappingStart(properties) => self.open(NodeKind::Map(Vec::new()), properties, at),
            Event::End => match self.open.pop() {
                Some(mut frame) => {
                    frame.node.shrink();
                    self.done(frame.node, frame.anchor, frame.spent)
                }
                None => Ok(()),
            },
            Event::Alias(name) => self.alias(name, at),
            Event::DocumentStart => {
                self.anchors.clear();
                let kept = std::mem::take(&mut self.kept);
                self.give_back(kept);
                self.documents += 1;
                if self.documents > self.limits.documents {
                    return Err(budget(Budget::Documents, self.limits.documents, at));
                }
                Ok(())
            }
            Event::DocumentEnd | Event::StreamEnd => Ok(()),
        }
    }

    /// Charges the cost of nodes that are about to be created.
    fn spend(&mut self, cost: Usage, at: Mark) -> Result<(), LocatedError> {
        self.spent.add(cost);
        self.charge(cost, at)
    }

    /// Charges the fuel of the file and the caller's. The document and the copies for its anchors
    /// are in memory together, so they share the fuel.
    fn charge(&self, cost: Usage, at: Mark) -> Result<(), LocatedError> {
        let own = self.fuel.nodes(cost.nodes);
        own.and_then(|()| self.fuel.bytes(cost.bytes))
            .map_err(|out| budget(out.which.into(), out.limit, at))?;
        let Some(outer) = self.outer else {
            return Ok(());
        };
        let steps = STEPS_PER_NODE * cost.nodes + cost.bytes / BYTES_PER_STEP;
        let outer = outer.steps(steps).and_then(|()| outer.nodes(cost.nodes));
        outer.map_err(|out| spent(out, at))
    }

    /// Gives back the cost of nodes that are dropped.
    fn give_back(&self, cost: Usage) {
        self.fuel.give_back(cost.nodes, cost.bytes);
        if let Some(outer) = self.outer {
            outer.give_back(cost.nodes, 0);
        }
    }

    fn open(
        &mut self,
        kind: NodeKind,
        properties: Properties<'t>,
        at: Mark,
    ) -> Result<(), LocatedError> {
        let spent = self.spent;
        let nodes = match kind {
            NodeKind::Map(_) => 1 + MAPPING_NODES,
            NodeKind::Seq(_) | NodeKind::Scalar { .. } => 1,
        };
        let bytes = properties.tag_bytes();
        self.spend(Usage { nodes, bytes }, at)?;
        self.fuel
            .depth(self.open.len() + 1)
            .map_err(|out| budget(out.which.into(), out.limit, at))?;
        let node = node(at, properties.tag, kind);
        self.open.push(Frame {
            node,
            key: None,
            anchor: properties.anchor,
            spent,
        });
        Ok(())
    }

    fn alias(&mut self, name: &str, at: Mark) -> Result<(), LocatedError> {
        let Some((_, cost)) = self.anchors.get(name) else {
            return Err(at.fault(YamlErrorKind::UnknownAnchor));
        };
        let (before, cost) = (self.spent, *cost);
        self.spend(cost, at)?;
        match self.anchors.get(name).map(|(node, _)| node.clone()) {
            Some(node) => self.done(node, None, before),
            None => Ok(()),
        }
    }

    /// Completes a node: keeps a copy for its anchor, and adds the node to its parent.
    fn done(
        &mut self,
        node: Node,
        anchor: Option<&'t str>,
        before: Usage,
    ) -> Result<(), LocatedError> {
        if let Some(anchor) = anchor.filter(|_| self.keep_anchors) {
            let cost = Usage {
                nodes: self.spent.nodes - before.nodes,
                bytes: self.spent.bytes - before.bytes,
            };
            self.kept.add(cost);
            let at = Mark {
                line: node.line,
                column: node.column - 1,
            };
            self.charge(cost, at)?;
            self.anchors.insert(anchor, (node.clone(), cost));
        }
        let level = self.open.len().checked_sub(1);
        let path_key = level.and_then(|level| self.path.get(level));
        match self.open.last_mut() {
            None => self.complete = Some(node),
            Some(frame) => match &mut frame.node.kind {
                NodeKind::Seq(items) => items.push(node),
                NodeKind::Map(pairs) => match frame.key.take() {
                    Some(key) if path_key.is_some_and(|path_key| key.text() != Some(path_key)) => {
                        let dropped = Usage {
                            nodes: self.spent.nodes - before.nodes,
                            bytes: self.spent.bytes - before.bytes,
                        };
                        self.spent = before;
                        self.give_back(dropped);
                    }
                    Some(key) => pairs.push((key, node)),
                    None => frame.key = Some(node),
                },
                NodeKind::Scalar { .. } => {}
            },
        }
        Ok(())
    }
}

impl Node {
    /// Frees the spare capacity of a sequence or mapping: most are small.
    fn shrink(&mut self) {
        match &mut self.kind {
            NodeKind::Seq(items) => items.shrink_to_fit(),
            NodeKind::Map(pairs) => pairs.shrink_to_fit(),
            NodeKind::Scalar { .. } => {}
        }
    }
}

fn node(at: Mark, tag: Option<String>, kind: NodeKind) -> Node {
    Node {
        line: at.line,
        column: at.column + 1,
        tag,
        kind,
    }
}
