//! Events of the scanner -> nodes, within a budget.

use std::collections::HashMap;

use super::error::{Budget, Fault, YamlError, YamlErrorKind};
use super::events::{Event, Parser, Properties};
use super::node::{Comment, Limits, Node, NodeKind};
use super::scan::Mark;
use crate::fuel::{Fuel, OutOfFuel};

/// Reads every document of a text.
///
/// An empty document (nothing between two `---`) is a node for which [`Node::is_empty`] holds, so that callers can count
/// or skip it; a text without any document gives an empty list. Aliases are replaced by copies of the node they name, and
/// the copies count towards the limits. `file` is only used in errors.
///
/// Go's `Unmarshal` reads the first document and never looks at the rest; here the whole text must be sound.
///
/// # Errors
/// [`YamlError`] when the text is no UTF-8, no YAML, or goes beyond one of the limits.
pub fn parse(text: &[u8], file: &str, limits: &Limits) -> Result<Vec<Node>, YamlError> {
    parse_each(text, file, limits, None, false).map(|read| read.0)
}

/// As [`parse`], charged to a fuel that the caller has for more than this text, too: `STEPS_PER_NODE` steps for every node
/// that is made, copies for aliases included, whether the text turns out to be sound or not, and the nodes themselves.
/// Whoever lets the nodes go gives them back.
///
/// # Errors
/// As [`parse`], and a fuel that has run out.
pub fn parse_within(
    text: &[u8],
    file: &str,
    limits: &Limits,
    fuel: &Fuel,
) -> Result<Vec<Node>, YamlError> {
    parse_each(text, file, limits, Some(fuel), false).map(|read| read.0)
}

/// Steps that a node costs, from its bytes to its place among the others.
const STEPS_PER_NODE: usize = 4;

/// Bytes of a text that cost a step.
const BYTES_PER_STEP: usize = 32;

/// As [`parse`], and gives the comments too, in the order of the text.
///
/// # Errors
/// As [`parse`].
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

/// Reads one node of the first document: the one that the keys of `path` lead to, mapping by mapping; `None` when they lead
/// nowhere. The whole text must be sound, but what stands beside the path is let go as soon as it is read: the limits on
/// nodes count what is kept and the largest thing beside it, so that a document of many entries costs about one of them.
///
/// # Errors
/// As [`parse`].
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

/// Hands over each document as soon as it is complete.
pub(super) fn read(
    text: &[u8],
    limits: &Limits,
    fuel: Option<&Fuel>,
    comments: bool,
    sink: impl FnMut(Node) -> Result<(), Fault>,
) -> Result<Vec<Comment>, Fault> {
    read_path(text, limits, fuel, comments, &[], sink)
}

fn read_path(
    text: &[u8],
    limits: &Limits,
    fuel: Option<&Fuel>,
    comments: bool,
    path: &[&str],
    mut sink: impl FnMut(Node) -> Result<(), Fault>,
) -> Result<Vec<Comment>, Fault> {
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

/// The line in which a byte stands.
fn line_of(text: &[u8], at: usize) -> Mark {
    Mark {
        line: 1 + text[..at].iter().filter(|b| **b == b'\n').count(),
        column: 0,
    }
}

/// The first character that YAML does not allow: control characters but tab, line breaks and NEL.
fn forbidden(text: &[u8]) -> Option<usize> {
    let suspect = |b: &u8| {
        (*b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r')) || matches!(b, 0x7f | 0xc2 | 0xef)
    };
    // Whole chunks first, without a branch for each byte.
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

/// Where a text begins.
const START: Mark = Mark { line: 1, column: 0 };

fn budget(what: Budget, limit: usize, at: Mark) -> Fault {
    at.fault(YamlErrorKind::Budget { what, limit })
}

/// The error for a fuel of the caller's that has run out.
fn spent(out: OutOfFuel, at: Mark) -> Fault {
    at.fault(YamlErrorKind::Fuel(out))
}

/// A collection that is still open.
struct Frame<'t> {
    node: Node,
    /// The key that waits for its value (mappings).
    key: Option<Node>,
    anchor: Option<&'t str>,
    /// What was spent when it began, so that its own cost is known when it ends.
    spent: Spent,
}

/// Nodes that a mapping counts as, beside itself: its table is by far the largest part of a small one.
const MAPPING_NODES: usize = 4;

#[derive(Clone, Copy, Default)]
struct Spent {
    nodes: usize,
    bytes: usize,
}

impl Spent {
    fn add(&mut self, more: Spent) {
        self.nodes = self.nodes.saturating_add(more.nodes);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

struct Builder<'l, 't> {
    limits: &'l Limits,
    /// The share of this text.
    fuel: Fuel,
    /// What the caller has for all its work.
    outer: Option<&'l Fuel>,
    /// The only keys that are kept, level by level; empty: all.
    path: &'l [&'l str],
    /// How many documents began.
    documents: usize,
    complete: Option<Node>,
    open: Vec<Frame<'t>>,
    keep_anchors: bool,
    anchors: HashMap<&'t str, (Node, Spent)>,
    /// What the nodes that are in the documents have cost, without the copies that are kept for anchors.
    spent: Spent,
    /// What those copies cost.
    kept: Spent,
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
            spent: Spent::default(),
            kept: Spent::default(),
        }
    }

    fn event(&mut self, event: Event<'t>, at: Mark) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, properties) => {
                let before = self.spent;
                let bytes = text.len() + properties.tag_bytes();
                self.spend(Spent { nodes: 1, bytes }, at)?;
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

    /// Charges what is about to be made.
    fn spend(&mut self, cost: Spent, at: Mark) -> Result<(), Fault> {
        self.spent.add(cost);
        self.charge(cost, at)
    }

    /// The document and the copies for its anchors are in memory together, so they share the fuel.
    fn charge(&self, cost: Spent, at: Mark) -> Result<(), Fault> {
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

    /// Takes back what was charged for nodes that are let go.
    fn give_back(&self, cost: Spent) {
        self.fuel.give_back(cost.nodes, cost.bytes);
        if let Some(outer) = self.outer {
            outer.give_back(cost.nodes, 0);
        }
    }

    fn open(&mut self, kind: NodeKind, properties: Properties<'t>, at: Mark) -> Result<(), Fault> {
        let spent = self.spent;
        let nodes = match kind {
            NodeKind::Map(_) => 1 + MAPPING_NODES,
            NodeKind::Seq(_) | NodeKind::Scalar { .. } => 1,
        };
        let bytes = properties.tag_bytes();
        self.spend(Spent { nodes, bytes }, at)?;
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

    fn alias(&mut self, name: &str, at: Mark) -> Result<(), Fault> {
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

    /// A node is complete: remember it for its anchor, and hand it to its parent.
    fn done(&mut self, node: Node, anchor: Option<&'t str>, before: Spent) -> Result<(), Fault> {
        if let Some(anchor) = anchor.filter(|_| self.keep_anchors) {
            let cost = Spent {
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
        let wanted = self.open.len().checked_sub(1);
        let wanted = wanted.and_then(|level| self.path.get(level));
        match self.open.last_mut() {
            None => self.complete = Some(node),
            Some(frame) => match &mut frame.node.kind {
                NodeKind::Seq(items) => items.push(node),
                NodeKind::Map(pairs) => match frame.key.take() {
                    Some(key) if wanted.is_some_and(|wanted| key.text() != Some(wanted)) => {
                        let let_go = Spent {
                            nodes: self.spent.nodes - before.nodes,
                            bytes: self.spent.bytes - before.bytes,
                        };
                        self.spent = before;
                        self.give_back(let_go);
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
    /// Gives back the room that a list or mapping has kept to grow: most are small.
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
