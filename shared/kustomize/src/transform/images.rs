//! The `images` field.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::{CreateKind, FieldSpec};
use crate::kustomization::Image;
use crate::loader::Context;
use crate::node::Node;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::selector::{Expression, Patterns};
use regex::Regex;
use std::rc::Rc;
use std::sync::LazyLock;

/// The expression for the part after the name: a tag, a digest.
const TAIL: &str = r"(:[a-zA-Z0-9_.{}-]*)?(@[a-zA-Z0-9]+([.+_-][a-zA-Z0-9]+)*:[a-zA-Z0-9_.{}-]*)?$";
static ANCHORED_TAIL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("^{TAIL}")).ok());

/// The transformer that changes the name, tag or digest of one image wherever it is used.
pub(crate) struct Images {
    image: Image,
    name: Name,
    specs: Rc<[FieldSpec]>,
}

/// The name of an image, which kustomize uses as a regular expression.
enum Name {
    /// A name in which only `.` is special: any character.
    Text(String),
    /// A compiled expression, including the part after the name.
    Regex(Expression),
    /// An invalid expression, which matches nothing.
    Unreadable,
}

impl Name {
    /// # Errors
    /// An expression that costs more than is left of the budget.
    fn new(name: &str, patterns: &Patterns, budget: &Budget) -> Result<Self, Error> {
        let is_text = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_/:@.".contains(&byte));
        if is_text {
            return Ok(Self::Text(name.to_owned()));
        }
        match patterns.compile(&format!("^{name}{TAIL}"), budget) {
            Ok(expression) => Ok(Self::Regex(expression)),
            Err(error) if error.is_budget() => Err(error),
            Err(_) => Ok(Self::Unreadable),
        }
    }

    /// Returns the steps of comparing an image.
    fn steps(&self, image: &str) -> usize {
        match self {
            Self::Text(_) => 1 + image.len() / 32,
            Self::Regex(expression) => expression.steps(image),
            Self::Unreadable => 1,
        }
    }

    fn matches(&self, image: &str) -> bool {
        match self {
            Self::Text(name) => {
                let mut rest = image.chars();
                name.chars().all(|wanted| match rest.next() {
                    Some('\n') | None => false,
                    Some(found) => wanted == '.' || wanted == found,
                }) && ANCHORED_TAIL
                    .as_ref()
                    .is_some_and(|tail| tail.is_match(rest.as_str()))
            }
            Self::Regex(regex) => regex.is_match(image),
            Self::Unreadable => false,
        }
    }
}

impl Images {
    /// # Errors
    /// A name that costs more than is left of the budget.
    pub fn new(
        image: Image,
        specs: Rc<[FieldSpec]>,
        context: &Context<'_, '_>,
    ) -> Result<Self, Error> {
        Ok(Self {
            name: Name::new(&image.name, &context.patterns, &context.budget)?,
            image,
            specs,
        })
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        let images = |resource: &&mut Resource| resource.kind() != "CustomResourceDefinition";
        for resource in map.list_mut().iter_mut().filter(images) {
            self.walk(&mut resource.node, &context.budget)?;
        }
        for resource in map.list_mut().iter_mut().filter(images) {
            for spec in self.specs.iter() {
                let set = &mut |node: &mut Node| self.set(node, &context.budget);
                spec.visit(
                    &mut resource.node,
                    CreateKind::Nothing,
                    &context.budget,
                    set,
                )?;
            }
        }
        Ok(())
    }

    /// Changes every `image` of the elements of any `containers` or `initContainers`, at any depth.
    fn walk(&self, node: &mut Node, budget: &Budget) -> Result<(), Error> {
        budget.spend_steps(1)?;
        match node {
            Node::Scalar(_) => Ok(()),
            Node::Seq(items) => items
                .iter_mut()
                .try_for_each(|item| self.walk(item, budget)),
            Node::Map(map) => {
                for (key, value) in map.iter_mut() {
                    self.walk(value, budget)?;
                    if let ("containers" | "initContainers", Node::Seq(items)) = (key, value) {
                        self.containers(items, budget)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn containers(&self, items: &mut [Node], budget: &Budget) -> Result<(), Error> {
        for item in items {
            match item {
                Node::Map(map) => map
                    .get_mut("image")
                    .map_or(Ok(()), |image| self.set(image, budget))?,
                item if item.is_null() => {}
                item => {
                    return Err(fault(&format!(
                        "a container is {}, expected a map",
                        item.description()
                    )));
                }
            }
        }
        Ok(())
    }

    fn set(&self, node: &mut Node, budget: &Budget) -> Result<(), Error> {
        let Node::Scalar(scalar) = node else {
            return Err(fault(&format!(
                "an image is {}, expected a string",
                node.description()
            )));
        };
        budget.spend_steps(self.name.steps(&scalar.text))?;
        if self.name.matches(&scalar.text) {
            let text = self.changed(&scalar.text);
            budget.spend_text(text.len())?;
            scalar.set_plain(text);
        }
        Ok(())
    }

    fn changed(&self, old: &str) -> String {
        let (name, old_tag, old_digest) = split(old);
        let image = &self.image;
        let name = if image.new_name.is_empty() {
            name
        } else {
            &image.new_name
        };
        let (tag, digest) = match (
            image.new_tag.as_str(),
            image.digest.as_str(),
            image.tag_suffix.as_str(),
        ) {
            ("", "", "") => (old_tag.to_owned(), old_digest),
            ("", "", suffix) => (format!("{old_tag}{suffix}"), ""),
            ("", digest, _) => (String::new(), digest),
            (tag, digest, _) => (tag.to_owned(), digest),
        };
        let part = |mark: &str, text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!("{mark}{text}")
            }
        };
        format!("{name}{}{}", part(":", &tag), part("@", digest))
    }
}

fn fault(reason: &str) -> Error {
    ErrorKind::Transform {
        transformer: "images",
        reason: reason.to_owned(),
    }
    .into()
}

/// Splits an image into name, tag and digest. A colon before the first slash belongs to the host.
fn split(image: &str) -> (&str, &str, &str) {
    let path = image.find('/').unwrap_or(0);
    let find = |mark: char| image[path..].find(mark).map(|at| at + path);
    match (find(':'), find('@')) {
        (None, None) => (image, "", ""),
        (Some(colon), None) => (&image[..colon], &image[colon + 1..], ""),
        (Some(colon), Some(at)) if colon < at => {
            (&image[..colon], &image[colon + 1..at], &image[at + 1..])
        }
        (_, Some(at)) => (&image[..at], "", &image[at + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Limits;

    #[test]
    fn names_match_as_expressions() {
        for (name, image, matches) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1@sha256:0", true),
            ("nginx", "nginx-extra", false),
            ("nginx", "a/nginx", false),
            ("a.b/c", "axb/c:1", true),
            ("a/(b|c)", "a/c:1", true),
            ("(", "(", false),
        ] {
            let budget = Budget::new(Limits::default());
            let compiled = Name::new(name, &Patterns::default(), &budget).unwrap();
            assert_eq!(compiled.matches(image), matches, "{name} {image}");
        }
    }

    #[test]
    fn splits_and_changes() {
        for (image, want) in [
            ("nginx", ("nginx", "", "")),
            ("host:5000/a/b:1", ("host:5000/a/b", "1", "")),
            ("a@sha256:0", ("a", "", "sha256:0")),
            ("h/a:1@sha256:0", ("h/a", "1", "sha256:0")),
        ] {
            assert_eq!(split(image), want, "{image}");
        }
        let image = Image {
            name: "a".into(),
            new_tag: "2".into(),
            ..Image::default()
        };
        let images = Images {
            name: Name::Text("a".to_owned()),
            image,
            specs: Rc::new([]),
        };
        assert_eq!(images.changed("a:1@sha256:0"), "a:2");
    }
}
