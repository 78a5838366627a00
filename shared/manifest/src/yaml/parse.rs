//! Events of the scanner -> nodes, within a budget.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle as Scanned, ScanError, Tag};

use super::error::{Budget, Fault, YamlError, YamlErrorKind};
use super::node::{Limits, Node, NodeKind, ScalarStyle};

/// Reads every document of a text.
///
/// An empty document (nothing between two `---`) is a node for which [`Node::is_empty`] holds, so that callers can count
/// or skip it; a text without any document gives an empty list. Aliases are replaced by copies of the node they name, and
/// the copies count towards the limits. `file` is only used in errors.
///
/// # Errors
/// [`YamlError`] when the text is no UTF-8, no YAML, or goes beyond one of the limits.
pub fn parse(text: &[u8], file: &str, limits: &Limits) -> Result<Vec<Node>, YamlError> {
    parse_inner(text, limits).map_err(|fault| fault.in_file(file))
}

fn parse_inner(text: &[u8], limits: &Limits) -> Result<Vec<Node>, Fault> {
    if text.len() > limits.bytes {
        return Err(budget(Budget::Bytes, limits.bytes, (1, 1)));
    }
    let text = std::str::from_utf8(text).map_err(|e| {
        let line = 1 + text[..e.valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        Fault {
            line,
            column: 1,
            kind: YamlErrorKind::NotUtf8,
        }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser::new_from_str(text);
    let mut builder = Builder::new(limits, text.contains('*'));
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(syntax)?;
        builder.event(event, place(&span.start))?;
    }
    Ok(builder.documents)
}

type Place = (usize, usize);

fn place(marker: &Marker) -> Place {
    (marker.line(), marker.col() + 1)
}

fn syntax(e: ScanError) -> Fault {
    let (line, column) = place(e.marker());
    Fault {
        line,
        column,
        kind: YamlErrorKind::Syntax(e.info().to_owned()),
    }
}

fn budget(what: Budget, limit: usize, at: Place) -> Fault {
    Fault {
        line: at.0,
        column: at.1,
        kind: YamlErrorKind::Budget { what, limit },
    }
}

/// A collection that is still open.
struct Frame {
    node: Node,
    /// The key that waits for its value (mappings).
    key: Option<Node>,
    anchor: usize,
    /// What was spent when it began, so that its own cost is known when it ends.
    spent: Spent,
}

#[derive(Clone, Copy, Default)]
struct Spent {
    nodes: usize,
    bytes: usize,
}

struct Builder<'l> {
    limits: &'l Limits,
    documents: Vec<Node>,
    open: Vec<Frame>,
    keep_anchors: bool,
    anchors: HashMap<usize, (Node, Spent)>,
    spent: Spent,
    /// What the copies kept for anchors cost: nested anchors would otherwise be quadratic.
    kept: Spent,
}

impl<'l> Builder<'l> {
    fn new(limits: &'l Limits, keep_anchors: bool) -> Self {
        Builder {
            limits,
            documents: Vec::new(),
            open: Vec::new(),
            keep_anchors,
            anchors: HashMap::new(),
            spent: Spent::default(),
            kept: Spent::default(),
        }
    }

    fn event(&mut self, event: Event<'_>, at: Place) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let before = self.spent;
                self.spend(
                    Spent {
                        nodes: 1,
                        bytes: text.len(),
                    },
                    at,
                )?;
                let kind = NodeKind::Scalar {
                    text: text.into_owned(),
                    style: scalar_style(style),
                };
                self.done(node(at, tag.as_deref(), kind), anchor, before)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(node(at, tag.as_deref(), NodeKind::Seq(Vec::new())), anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.open(node(at, tag.as_deref(), NodeKind::Map(Vec::new())), anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(frame) => self.done(frame.node, frame.anchor, frame.spent),
                None => Ok(()),
            },
            Event::Alias(id) => self.alias(id, at),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                if self.documents.len() >= self.limits.documents {
                    return Err(budget(Budget::Documents, self.limits.documents, at));
                }
                Ok(())
            }
            Event::DocumentEnd | Event::StreamStart | Event::StreamEnd | Event::Nothing => Ok(()),
        }
    }

    fn spend(&mut self, cost: Spent, at: Place) -> Result<(), Fault> {
        self.spent.nodes += cost.nodes;
        self.spent.bytes += cost.bytes;
        self.check(self.spent, at)
    }

    fn check(&self, spent: Spent, at: Place) -> Result<(), Fault> {
        if spent.nodes > self.limits.nodes {
            return Err(budget(Budget::Nodes, self.limits.nodes, at));
        }
        if spent.bytes > self.limits.bytes {
            return Err(budget(Budget::Bytes, self.limits.bytes, at));
        }
        Ok(())
    }

    fn open(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        let at = (node.line, node.column);
        let spent = self.spent;
        self.spend(Spent { nodes: 1, bytes: 0 }, at)?;
        if self.open.len() >= self.limits.depth {
            return Err(budget(Budget::Depth, self.limits.depth, at));
        }
        self.open.push(Frame {
            node,
            key: None,
            anchor,
            spent,
        });
        Ok(())
    }

    fn alias(&mut self, id: usize, at: Place) -> Result<(), Fault> {
        let Some((_, cost)) = self.anchors.get(&id) else {
            return Err(Fault {
                line: at.0,
                column: at.1,
                kind: YamlErrorKind::UnknownAnchor,
            });
        };
        let (before, cost) = (self.spent, *cost);
        self.spend(cost, at)?;
        match self.anchors.get(&id).map(|(node, _)| node.clone()) {
            Some(node) => self.done(node, 0, before),
            None => Ok(()),
        }
    }

    /// A node is complete: remember it for its anchor, and hand it to its parent.
    fn done(&mut self, node: Node, anchor: usize, before: Spent) -> Result<(), Fault> {
        if anchor != 0 && self.keep_anchors {
            let cost = Spent {
                nodes: self.spent.nodes - before.nodes,
                bytes: self.spent.bytes - before.bytes,
            };
            self.kept.nodes += cost.nodes;
            self.kept.bytes += cost.bytes;
            self.check(self.kept, (node.line, node.column))?;
            self.anchors.insert(anchor, (node.clone(), cost));
        }
        match self.open.last_mut() {
            None => self.documents.push(node),
            Some(frame) => match &mut frame.node.kind {
                NodeKind::Seq(items) => items.push(node),
                NodeKind::Map(pairs) => match frame.key.take() {
                    Some(key) => pairs.push((key, node)),
                    None => frame.key = Some(node),
                },
                NodeKind::Scalar { .. } => {}
            },
        }
        Ok(())
    }
}

fn node(at: Place, tag: Option<&Tag>, kind: NodeKind) -> Node {
    Node {
        line: at.0,
        column: at.1,
        tag: tag.map(|t| format!("{}{}", t.handle, t.suffix)),
        kind,
    }
}

fn scalar_style(style: Scanned) -> ScalarStyle {
    match style {
        Scanned::Plain => ScalarStyle::Plain,
        Scanned::SingleQuoted => ScalarStyle::SingleQuoted,
        Scanned::DoubleQuoted => ScalarStyle::DoubleQuoted,
        Scanned::Literal => ScalarStyle::Literal,
        Scanned::Folded => ScalarStyle::Folded,
    }
}
