use crate::error::{Error, ErrorKind};
use crate::fieldspec::{FieldSpec, Make};
use crate::kustomization::Image;
use crate::loader::Context;
use crate::node::Node;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::selector;
use regex::Regex;
use std::sync::LazyLock;

/// What may follow the name: a tag, a digest.
const TAIL: &str = r"(:[a-zA-Z0-9_.{}-]*)?(@[a-zA-Z0-9]+([.+_-][a-zA-Z0-9]+)*:[a-zA-Z0-9_.{}-]*)?$";
static ANCHORED_TAIL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!("^{TAIL}")).ok());

/// Changes the name, tag or digest of one image wherever it is used.
pub(crate) struct Images {
    image: Image,
    name: Name,
    specs: Vec<FieldSpec>,
}

/// The name of an image, which kustomize takes for a regular expression.
enum Name {
    /// In it, `.` is any character.
    Text(String),
    /// With what may follow the name.
    Regex(Regex),
    /// It cannot be read, and so matches nothing.
    Unreadable,
}

impl Name {
    fn new(name: &str) -> Self {
        let is_text = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_/:@.".contains(&byte));
        if is_text {
            return Self::Text(name.to_owned());
        }
        selector::compile(&format!("^{name}{TAIL}")).map_or(Self::Unreadable, Self::Regex)
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
    pub fn new(image: Image, specs: Vec<FieldSpec>) -> Self {
        Self {
            name: Name::new(&image.name),
            image,
            specs,
        }
    }

    pub fn apply(&self, map: &mut ResMap, context: &Context<'_, '_>) -> Result<(), Error> {
        let images = |resource: &&mut Resource| resource.kind() != "CustomResourceDefinition";
        for resource in map.list_mut().iter_mut().filter(images) {
            self.walk(&mut resource.node, context)?;
        }
        for resource in map.list_mut().iter_mut().filter(images) {
            for spec in &self.specs {
                spec.visit(&mut resource.node, Make::Nothing, &mut |node| {
                    self.set(node, context)
                })?;
            }
        }
        Ok(())
    }

    /// Every `image` of the elements of any `containers` or `initContainers`, however deep.
    fn walk(&self, node: &mut Node, context: &Context<'_, '_>) -> Result<(), Error> {
        match node {
            Node::Scalar(_) => Ok(()),
            Node::Seq(items) => items
                .iter_mut()
                .try_for_each(|item| self.walk(item, context)),
            Node::Map(map) => {
                for (key, value) in &mut map.0 {
                    self.walk(value, context)?;
                    if let ("containers" | "initContainers", Node::Seq(items)) =
                        (key.as_str(), value)
                    {
                        self.containers(items, context)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn containers(&self, items: &mut [Node], context: &Context<'_, '_>) -> Result<(), Error> {
        for item in items {
            match item {
                Node::Map(map) => map
                    .get_mut("image")
                    .map_or(Ok(()), |image| self.set(image, context))?,
                item if item.is_null() => {}
                item => {
                    return Err(fault(&format!(
                        "a container is {}, expected a map",
                        item.what()
                    )));
                }
            }
        }
        Ok(())
    }

    fn set(&self, node: &mut Node, context: &Context<'_, '_>) -> Result<(), Error> {
        let Node::Scalar(scalar) = node else {
            return Err(fault(&format!(
                "an image is {}, expected a text",
                node.what()
            )));
        };
        if self.name.matches(&scalar.text) {
            scalar.set_plain(self.changed(&scalar.text));
            context.spend_text(&scalar.text)?;
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

/// Name, tag and digest. A colon before the first slash belongs to the host.
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
            assert_eq!(Name::new(name).matches(image), matches, "{name} {image}");
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
        let images = Images::new(image, Vec::new());
        assert_eq!(images.changed("a:1@sha256:0"), "a:2");
    }
}
