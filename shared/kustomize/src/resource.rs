//! An object in a build, with its previous ids and options.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::node::{self, Map, Node, Scalar, SharedScalars, Style};
use crate::resid::{Gvk, Id};
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::rc::Rc;

/// An object during the build, with kustomize's history of it.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub node: Node,
    /// The previous ids, oldest first. Group and version follow the object.
    pub previous: Vec<PreviousId>,
    /// True if the id was recorded while the object had no name.
    was_nameless: bool,
    pub prefixes: Vec<Rc<str>>,
    pub suffixes: Vec<Rc<str>>,
    pub behavior: Behavior,
    /// True if a generator created the object.
    pub generated: bool,
    /// True if a hash of the content is appended to the name.
    pub needs_hash: bool,
    /// True if a chart's template created the object: the namespace transformer does not change it.
    pub from_helm: bool,
    /// The names of the vars that read from the object.
    pub vars: Vec<String>,
    /// The scalars that change together.
    pub shares: SharedScalars,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreviousId {
    pub kind: Rc<str>,
    pub name: Rc<str>,
    pub namespace: Rc<str>,
}

/// The effect of a generated object on an existing one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behavior {
    #[default]
    Create,
    Replace,
    Merge,
}

impl Behavior {
    /// Parses a behavior; any value but `replace` and `merge` means create, as in kustomize.
    pub fn new(text: &str) -> Self {
        match text {
            "replace" => Self::Replace,
            "merge" => Self::Merge,
            _ => Self::Create,
        }
    }
}

/// The prefix of the annotations with an object's history. Objects that were printed during a build
/// still have them.
const INTERNAL: &str = "internal.config.kubernetes.io/";
pub(crate) const ORIGIN: &str = "config.kubernetes.io/origin";
pub(crate) const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";

impl Resource {
    pub fn new(node: Node) -> Self {
        Self {
            node,
            previous: Vec::new(),
            was_nameless: false,
            prefixes: Vec::new(),
            suffixes: Vec::new(),
            behavior: Behavior::Create,
            generated: false,
            needs_hash: false,
            from_helm: false,
            vars: Vec::new(),
            shares: SharedScalars::default(),
        }
    }

    /// Takes over the history from the object's annotations.
    fn adopt_history(&mut self) {
        let annotations = self
            .node
            .get("metadata")
            .and_then(|meta| meta.get("annotations"));
        let Some(annotations) = annotations.and_then(Node::as_map) else {
            return;
        };
        if !annotations
            .fields()
            .iter()
            .any(|(key, _)| key.starts_with(INTERNAL))
        {
            return;
        }
        let text = |name: &str| {
            annotations
                .get(&format!("{INTERNAL}{name}"))
                .map(Node::text)
        };
        let list = |name: &str| -> Vec<String> {
            text(name).map_or_else(Vec::new, |text| {
                text.split(',').map(str::to_owned).collect()
            })
        };
        let kinds = list("previousKinds");
        let ids = list("previousNames")
            .into_iter()
            .zip(list("previousNamespaces"))
            .zip(kinds);
        let previous = ids.map(|((name, namespace), kind)| PreviousId {
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.into(),
        });
        let previous = previous.collect();
        let shared = |name: &str| list(name).into_iter().map(Rc::from).collect();
        let (prefixes, suffixes) = (shared("prefixes"), shared("suffixes"));
        let generated = text("generatorBehavior").is_some();
        let behavior = Behavior::new(text("generatorBehavior").unwrap_or_default());
        let needs_hash = text("needsHashSuffix") == Some("enabled");
        let from_helm = text("helm-generated") == Some("true");
        *self = Self {
            previous,
            prefixes,
            suffixes,
            behavior,
            generated,
            needs_hash,
            from_helm,
            ..Self::new(std::mem::replace(&mut self.node, Node::null()))
        };
    }

    pub fn api_version(&self) -> &str {
        self.node.get("apiVersion").map_or("", Node::text)
    }

    pub fn kind(&self) -> &str {
        self.node.get("kind").map_or("", Node::text)
    }

    pub fn name(&self) -> &str {
        self.meta_text("name")
    }

    pub fn namespace(&self) -> &str {
        self.meta_text("namespace")
    }

    pub fn gvk(&self) -> Gvk<'_> {
        Gvk::new(self.api_version(), self.kind())
    }

    pub fn meta_text(&self, field: &str) -> &str {
        match self.node.get("metadata").and_then(|meta| meta.get(field)) {
            Some(value) if !value.is_empty() => value.text(),
            _ => "",
        }
    }

    /// Returns the present id.
    pub fn id(&self, schema: &Schema) -> Id<'_> {
        let gvk = self.gvk();
        Id {
            gvk,
            name: self.name(),
            namespace: self.namespace(),
            cluster: schema.is_cluster_scoped(self.api_version(), gvk.kind),
        }
    }

    /// Returns the previous ids, oldest first.
    pub fn previous_ids(&self) -> impl Iterator<Item = Id<'_>> {
        let gvk = self.gvk();
        self.previous.iter().map(move |previous| Id {
            gvk: Gvk {
                kind: &previous.kind,
                ..gvk
            },
            name: &previous.name,
            namespace: &previous.namespace,
            cluster: false,
        })
    }

    /// Returns the first id.
    pub fn original_id(&self, schema: &Schema) -> Id<'_> {
        self.previous_ids()
            .next()
            .unwrap_or_else(|| self.id(schema))
    }

    /// Checks whether a present or previous id is `wanted`.
    pub fn has_id(&self, wanted: &Id<'_>, schema: &Schema) -> bool {
        self.previous_ids().any(|id| id.is(wanted))
            || (self.name() == wanted.name && self.id(schema).is(wanted))
    }

    /// Records the present id.
    ///
    /// # Errors
    /// A present or previous id has no name or no kind, which kustomize does not survive: it keeps
    /// names, namespaces and kinds in separate lists, without those that are empty. Or the budget
    /// is used up.
    pub fn remember_id(&mut self, schema: &Schema, budget: &Budget) -> Result<(), Error> {
        let id = self.id(schema);
        if id.name.is_empty() && self.previous.is_empty() {
            self.was_nameless = true;
            return Ok(());
        }
        let is_whole = |kind: &str, name: &str| !kind.is_empty() && !name.is_empty();
        let were_whole = self.previous.iter().all(|id| is_whole(&id.kind, &id.name));
        let is_first = self.previous.is_empty() && !self.was_nameless;
        if !(is_first || were_whole && !self.was_nameless && is_whole(id.gvk.kind, id.name)) {
            let shown = self.previous.last().map_or_else(
                || id.to_string(),
                |previous| format!("{} {}", previous.kind, previous.name),
            );
            let reason = format!("{shown} no longer has a name or a kind, and cannot be renamed");
            return Err(ErrorKind::Object(reason).into());
        }
        budget.spend_text(id.gvk.kind.len() + id.name.len() + id.namespace.len())?;
        let previous = PreviousId {
            kind: id.gvk.kind.into(),
            name: id.name.into(),
            namespace: id.effective_namespace().into(),
        };
        self.previous.push(previous);
        Ok(())
    }

    /// Forgets the previous ids and what generators recorded. kustomize keeps these in annotations
    /// of the object, and loses them with a change that replaces all annotations.
    pub fn forget_history(&mut self) {
        self.previous.clear();
        self.prefixes.clear();
        self.suffixes.clear();
        self.behavior = Behavior::Create;
        self.generated = false;
        self.needs_hash = false;
    }

    /// Returns the annotations that hold kustomize's history, for JSON patches, which can see them.
    pub fn history(&self) -> Vec<(String, String)> {
        let ids = |part: fn(&PreviousId) -> &str| -> Vec<&str> {
            self.previous.iter().map(part).collect()
        };
        let texts = |list: &[Rc<str>]| list.join(",");
        let behavior = match (self.generated, self.behavior) {
            (false, _) => "",
            (true, Behavior::Create) => "unspecified",
            (true, Behavior::Merge) => "merge",
            (true, Behavior::Replace) => "replace",
        };
        let needs_hash = if self.needs_hash { "enabled" } else { "" };
        let from_helm = if self.from_helm { "true" } else { "" };
        let all = [
            ("previousNames", ids(|id| &id.name).join(",")),
            ("previousNamespaces", ids(|id| &id.namespace).join(",")),
            ("previousKinds", ids(|id| &id.kind).join(",")),
            ("prefixes", texts(&self.prefixes)),
            ("suffixes", texts(&self.suffixes)),
            ("generatorBehavior", behavior.to_owned()),
            ("needsHashSuffix", needs_hash.to_owned()),
            ("helm-generated", from_helm.to_owned()),
        ];
        let kept = all.into_iter().filter(|(_, text)| !text.is_empty());
        kept.map(|(name, text)| (format!("{INTERNAL}{name}"), text))
            .collect()
    }

    pub fn meta_mut(&mut self) -> Option<&mut Map> {
        self.node.as_map_mut()?.map_at("metadata")
    }

    pub fn set_name(&mut self, name: &str) {
        if let Some(meta) = self.meta_mut() {
            meta.set_plain("name", name);
        }
    }

    pub fn set_kind(&mut self, kind: &str) {
        if let Some(map) = self.node.as_map_mut() {
            map.set_plain("kind", kind);
        }
    }

    pub fn set_api_version(&mut self, api_version: &str) {
        if let Some(map) = self.node.as_map_mut() {
            map.set_plain("apiVersion", api_version);
        }
    }

    /// Sets the namespace; an empty one removes the field.
    pub fn set_namespace(&mut self, namespace: &str) {
        let Some(meta) = self.meta_mut() else { return };
        if namespace.is_empty() {
            meta.remove("namespace");
        } else {
            meta.set_plain("namespace", namespace);
        }
    }

    /// Returns labels or annotations, every value as a string. A list is read as pairs of keys and
    /// values, as kyaml's `getMapFromMeta` does (v0.21.2).
    pub fn texts(&self, field: &str) -> BTreeMap<String, String> {
        let meta = self.node.get("metadata");
        let Some(field) = meta.and_then(|meta| meta.get(field)) else {
            return BTreeMap::new();
        };
        if let Some(items) = field.as_seq() {
            let pairs = items.chunks_exact(2).filter_map(|pair| match pair {
                [key, value] => Some((key.text().to_owned(), value.text().to_owned())),
                _ => None,
            });
            return pairs.collect();
        }
        let fields = field.as_map().map(|map| map.fields().iter());
        let fields = fields.into_iter().flatten();
        fields
            .map(|(key, value)| (key.clone(), value.text().to_owned()))
            .collect()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        Some(
            self.node
                .get("metadata")?
                .get("annotations")?
                .get(key)?
                .text(),
        )
    }

    /// Replaces labels or annotations, every value a string; an empty set removes the field.
    pub fn set_texts(&mut self, field: &str, texts: BTreeMap<String, String>) {
        let Some(meta) = self.meta_mut() else { return };
        meta.remove(field);
        if !texts.is_empty() {
            meta.insert(field, text_map(texts));
        }
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) {
        let mut annotations = self.texts("annotations");
        annotations.insert(key.to_owned(), value.to_owned());
        self.set_texts("annotations", annotations);
    }

    /// Takes over what `behavior: merge` and `replace` keep of the existing object: its name, its
    /// history, and the labels and annotations that the new one does not set.
    pub fn take_identity_of(&mut self, old: &Resource) {
        for field in ["labels", "annotations"] {
            let mut texts = old.texts(field);
            texts.extend(self.texts(field));
            self.set_texts(field, texts);
        }
        self.needs_hash &= old.needs_hash;
        self.behavior = old.behavior;
        self.previous.clone_from(&old.previous);
        self.was_nameless = old.was_nameless;
        self.prefixes.clone_from(&old.prefixes);
        self.suffixes.clone_from(&old.suffixes);
        self.vars.clone_from(&old.vars);
        self.set_name(old.name());
        self.set_namespace(old.namespace());
    }
}

/// Creates a map of strings; those of several lines are blocks.
pub(crate) fn text_map(texts: BTreeMap<String, String>) -> Node {
    let pair = |(key, value): (String, String)| {
        let style = Style::of_new(&value);
        (
            key,
            Node::Scalar(Scalar {
                style,
                ..Scalar::str(value)
            }),
        )
    };
    Node::Map(texts.into_iter().map(pair).collect())
}

/// Checks whether two objects went through the same layers at the end, by their prefixes and
/// suffixes.
pub(crate) fn same_layers(
    mine: (&[Rc<str>], &[Rc<str>]),
    theirs: (&[Rc<str>], &[Rc<str>]),
    allow_empty: bool,
) -> bool {
    let fits = |mine: &[Rc<str>], theirs: &[Rc<str>]| {
        (allow_empty && (mine.is_empty() || theirs.is_empty())) || same_ending(mine, theirs)
    };
    fits(mine.0, theirs.0) && fits(mine.1, theirs.1)
}

/// Checks whether the shorter list is the end of the longer. An empty one is the end of an empty
/// one only.
fn same_ending(a: &[Rc<str>], b: &[Rc<str>]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.is_empty() {
        long.is_empty()
    } else {
        long.ends_with(short)
    }
}

/// Parses the objects of a file: its documents, with lists expanded.
///
/// # Errors
/// Invalid YAML, a document without kind or name, or more than is left of the budget.
pub(crate) fn parse(text: &str, file: &str, budget: &Budget) -> Result<Vec<Resource>, Error> {
    let nodes = budget.reading(|fuel| node::documents(text, file, fuel))?;
    nodes.iter().try_for_each(|node| budget.spend_tree(node))?;
    let nodes = keep_objects(nodes)?;
    let mut resources: Vec<Resource> = inline_lists(nodes)?
        .into_iter()
        .map(Resource::new)
        .collect();
    resources.iter_mut().for_each(Resource::adopt_history);
    Ok(resources)
}

/// Drops empty documents and fails for documents that are not objects.
fn keep_objects(nodes: Vec<Node>) -> Result<Vec<Node>, Error> {
    let mut kept = Vec::with_capacity(nodes.len());
    for node in nodes {
        if node.is_empty() {
            continue;
        }
        check(&node)?;
        kept.push(node);
    }
    Ok(kept)
}

fn check(node: &Node) -> Result<(), Error> {
    let text = |node: Option<&Node>| match node {
        Some(value) if !value.is_empty() => value.text().to_owned(),
        _ => String::new(),
    };
    let kind = text(node.get("kind"));
    let name = text(node.get("metadata").and_then(|meta| meta.get("name")));
    let api_version = text(node.get("apiVersion"));
    if kind.is_empty() {
        let id = if name.is_empty() { api_version } else { name };
        return Err(ErrorKind::Object(format!("a document ({id}) has no kind")).into());
    }
    if name.is_empty() && !kind.ends_with("List") {
        return Err(
            ErrorKind::Object(format!("a document of kind {kind} has no metadata.name")).into(),
        );
    }
    Ok(())
}

/// Replaces every `…List` with `items` by its items, which are appended.
fn inline_lists(nodes: Vec<Node>) -> Result<Vec<Node>, Error> {
    let mut queue: std::collections::VecDeque<Node> = nodes.into();
    let mut result = Vec::with_capacity(queue.len());
    while let Some(node) = queue.pop_front() {
        let kind = node.get("kind").map_or("", Node::text);
        if !kind.ends_with("List") {
            result.push(node);
            continue;
        }
        match node.get("items") {
            None => result.push(node),
            Some(Node::Seq(items)) => {
                // kustomize passes the items through JSON, which quotes every string.
                let items = items
                    .iter()
                    .map(|item| Ok(node::from_value(&node::to_value(item)?)));
                queue.extend(keep_objects(items.collect::<Result<_, Error>>()?)?);
            }
            Some(items) if items.is_null() => {}
            Some(items) => {
                return Err(ErrorKind::Object(format!(
                    "items of a {kind} is {}, expected a list",
                    items.description()
                ))
                .into());
            }
        }
    }
    Ok(result)
}
