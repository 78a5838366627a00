//! YAML as a tree that keeps its style, so that a case can be made smaller without changing the
//! rest.

/// The quotes of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    Single,
    Double,
}

/// A node and its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Yaml {
    /// A scalar without quotes.
    Plain(String),
    Quoted(String, Quote),
    /// A block scalar with this indicator: `|`, `>-` and so on.
    Block(String, &'static str),
    List(Vec<Yaml>, Layout),
    Map(Vec<(String, Yaml)>, Layout),
}

/// The layout of a map or list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Block style, with list items at the column of their key.
    Block,
    /// Block style, with list items indented.
    Indented,
    Flow,
}

/// Returns a map in block style.
pub fn map<const N: usize>(fields: [(&str, Yaml); N]) -> Yaml {
    let fields = fields
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value));
    Yaml::Map(fields.collect(), Layout::Block)
}

/// Returns a list in block style.
pub fn list(items: Vec<Yaml>) -> Yaml {
    Yaml::List(items, Layout::Block)
}

/// Returns a string, quoted if needed.
pub fn text(text: &str) -> Yaml {
    if is_plain(text) {
        Yaml::Plain(text.to_owned())
    } else {
        Yaml::Quoted(text.to_owned(), Quote::Double)
    }
}

/// Returns a scalar without quotes.
pub fn plain(value: impl ToString) -> Yaml {
    Yaml::Plain(value.to_string())
}

/// Returns a script or a document within a document, as a block scalar.
pub fn block(text: impl Into<String>) -> Yaml {
    let text = text.into();
    if text.trim().is_empty() {
        return Yaml::Quoted(text, Quote::Double);
    }
    Yaml::Block(text, "|")
}

fn is_plain(text: &str) -> bool {
    let first = text.bytes().next();
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    first.is_some_and(|first| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./$()".contains(&byte))
        && !words.contains(&text.to_lowercase().as_str())
}

impl Yaml {
    /// Returns a field of a map.
    pub fn get(&self, key: &str) -> Option<&Yaml> {
        match self {
            Yaml::Map(fields, _) => fields
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the child node that a step of a path selects.
    pub fn step(&self, step: &super::patches::Step) -> Option<&Yaml> {
        match (self, step) {
            (map, super::patches::Step::Key(key)) => map.get(key),
            (Yaml::List(items, _), super::patches::Step::Item(place, _)) => items.get(*place),
            _ => None,
        }
    }

    /// Appends a field to a map.
    pub fn push(&mut self, key: &str, value: Yaml) {
        if let Yaml::Map(fields, _) = self {
            fields.push((key.to_owned(), value));
        }
    }

    /// Returns the value of a scalar.
    pub fn scalar(&self) -> Option<&str> {
        match self {
            Yaml::Plain(text) | Yaml::Quoted(text, _) | Yaml::Block(text, _) => Some(text),
            _ => None,
        }
    }

    /// Renders the document as a file's content.
    pub fn document(&self) -> String {
        let mut out = String::new();
        self.write(0, &mut out);
        if !out.ends_with('\n') {
            out.push('\n');
        }
        out
    }

    /// Writes a node at the start of a line that is already indented.
    fn write(&self, indent: usize, out: &mut String) {
        match self {
            Yaml::Map(fields, layout) if !fields.is_empty() && *layout != Layout::Flow => {
                for (at, (key, value)) in fields.iter().enumerate() {
                    if at > 0 {
                        out.push_str(&" ".repeat(indent));
                    }
                    out.push_str(&quote_key(key));
                    out.push(':');
                    value.write_after_key(indent, out);
                }
            }
            Yaml::List(items, layout) if !items.is_empty() && *layout != Layout::Flow => {
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(&" ".repeat(indent));
                    }
                    out.push_str("- ");
                    item.write(indent + 2, out);
                    if !out.ends_with('\n') {
                        out.push('\n');
                    }
                }
            }
            Yaml::Block(text, mark) => write_block(text, mark, indent, out),
            other => {
                other.write_flow(out);
                out.push('\n');
            }
        }
    }

    fn write_after_key(&self, indent: usize, out: &mut String) {
        let deeper = match self {
            Yaml::Map(fields, layout) if !fields.is_empty() && *layout != Layout::Flow => {
                indent + 2
            }
            Yaml::List(items, Layout::Block) if !items.is_empty() => indent,
            Yaml::List(items, Layout::Indented) if !items.is_empty() => indent + 2,
            Yaml::Block(text, mark) => {
                out.push(' ');
                return write_block(text, mark, indent + 2, out);
            }
            other => {
                out.push(' ');
                other.write_flow(out);
                out.push('\n');
                return;
            }
        };
        out.push('\n');
        out.push_str(&" ".repeat(deeper));
        self.write(deeper, out);
    }

    fn write_flow(&self, out: &mut String) {
        match self {
            Yaml::Plain(text) => out.push_str(text),
            Yaml::Quoted(text, Quote::Single) if !text.contains('\n') => {
                out.push_str(&format!("'{}'", text.replace('\'', "''")));
            }
            Yaml::Quoted(text, _) | Yaml::Block(text, _) => {
                out.push_str(&serde_json::Value::from(text.as_str()).to_string());
            }
            Yaml::List(items, _) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    item.write_flow(out);
                }
                out.push(']');
            }
            Yaml::Map(fields, _) => {
                out.push('{');
                for (at, (key, value)) in fields.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    out.push_str(&quote_key(key));
                    out.push_str(": ");
                    value.write_flow(out);
                }
                out.push('}');
            }
        }
    }
}

fn quote_key(key: &str) -> String {
    if is_plain(key) || key == "$patch" {
        key.to_owned()
    } else {
        serde_json::Value::from(key).to_string()
    }
}

fn write_block(text: &str, mark: &str, indent: usize, out: &mut String) {
    out.push_str(mark);
    out.push('\n');
    for line in text.trim_end_matches('\n').split('\n') {
        if !line.is_empty() {
            out.push_str(&" ".repeat(indent.max(1)));
            out.push_str(line);
        }
        out.push('\n');
    }
}
