//! `vars`: `$(NAME)` in a fixed set of fields.

use crate::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::fieldspec::{CreateKind, FieldSpec};
use crate::kustomization::Var;
use crate::loader::Context;
use crate::node::{self, Node, Scalar, Style, Tag};
use crate::resmap::ResMap;
use driftless_go::float;
use std::collections::{BTreeMap, HashMap};

fn fault(reason: String) -> Error {
    ErrorKind::Transform {
        transformer: "vars",
        reason,
    }
    .into()
}

/// Writes the values of the vars into the fields that may contain them.
///
/// # Errors
/// A var without an object, or whose object lacks the field.
pub(crate) fn resolve_vars(
    map: &mut ResMap,
    vars: &BTreeMap<String, Var>,
    specs: &[FieldSpec],
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    if vars.is_empty() {
        return Ok(());
    }
    let mut values = HashMap::with_capacity(vars.len());
    for (name, var) in vars {
        context.budget.spend_steps(map.list().len())?;
        values.insert(name.clone(), value_of(map, var)?);
    }
    for resource in map.list_mut() {
        for spec in specs {
            let budget = &context.budget;
            spec.visit(
                &mut resource.node,
                CreateKind::Nothing,
                budget,
                &mut |node| set(node, &values, spec, budget),
            )?;
            resource.shares.sync(&mut resource.node, budget)?;
        }
    }
    Ok(())
}

/// Returns a var's value: a scalar; `None` if the field cannot be part of a string.
fn value_of(map: &ResMap, var: &Var) -> Result<Option<Scalar>, Error> {
    let mut reads = map
        .list()
        .iter()
        .filter(|resource| resource.vars.contains(&var.name));
    let Some(resource) = reads.next() else {
        return Err(fault(format!(
            "var '{}' has no object to read from",
            var.name
        )));
    };
    let path = &var.fieldref.field_path;
    let missing = || {
        fault(format!(
            "var '{}': {} {} has no field '{path}'",
            var.name,
            resource.kind(),
            resource.name()
        ))
    };
    let parts = node::parts(&with_indexes(node::smart_split(path))).ok_or_else(missing)?;
    let found = node::lookup(&resource.node, &parts)
        .map_err(|_| missing())?
        .ok_or_else(missing)?;
    Ok(match found {
        Node::Scalar(scalar) => Some(number(scalar).ok_or_else(missing)?),
        _ => None,
    })
}

/// Returns the value as Go reads it: integers are decimal, and those that are too large are floats.
/// `None` for other spellings of a number, which kustomize does not find.
fn number(scalar: &Scalar) -> Option<Scalar> {
    if scalar.tag != Tag::Int {
        return Some(scalar.clone());
    }
    if let Ok(number) = scalar.text.parse::<i64>() {
        return Some(Scalar::new(Tag::Int, number.to_string(), scalar.style));
    }
    let digits = scalar.text.trim_start_matches(['+', '-']);
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| Scalar::new(Tag::Float, scalar.text.clone(), scalar.style))
}

/// Formats a value within a string: floats as Go's `%v`.
fn format_value(value: &Scalar) -> String {
    const LARGEST: f64 = 1e21;
    const SMALLEST: f64 = 1e-4;
    match value.text.parse::<f64>() {
        Ok(number)
            if value.tag == Tag::Float
                && number != 0.0
                && !(SMALLEST..LARGEST).contains(&number.abs()) =>
        {
            float::format(number, 'e', None)
        }
        _ => value.text.clone(),
    }
}

/// Splits `containers[0]` into `containers` and `0`.
fn with_indexes(fields: Vec<String>) -> Vec<String> {
    let mut result = Vec::with_capacity(fields.len());
    for field in fields {
        let index = field
            .strip_suffix(']')
            .and_then(|rest| rest.rsplit_once('['));
        match index {
            Some((name, digits))
                if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                if !name.is_empty() {
                    result.push(name.to_owned());
                }
                result.push(digits.to_owned());
            }
            _ => result.push(field),
        }
    }
    result
}

type Values = HashMap<String, Option<Scalar>>;

fn set(node: &mut Node, values: &Values, spec: &FieldSpec, budget: &Budget) -> Result<(), Error> {
    match node {
        Node::Scalar(scalar) => replace(scalar, values, budget),
        Node::Map(map) => map.values_mut().try_for_each(|value| match value {
            Node::Scalar(scalar) => replace(scalar, values, budget),
            _ => Ok(()),
        }),
        Node::Seq(items) => items.iter_mut().try_for_each(|item| match item {
            Node::Scalar(scalar) if scalar.is_string() => replace(scalar, values, budget),
            _ => Err(fault(format!(
                "'{}' has an item that is not a string",
                spec.path
            ))),
        }),
    }
}

/// Replaces the vars of a string. A string that is only a var also gets its type.
fn replace(scalar: &mut Scalar, values: &Values, budget: &Budget) -> Result<(), Error> {
    budget.spend_steps(1 + scalar.text.len() / 16)?;
    if !scalar.is_string() {
        return Ok(());
    }
    let value = expand(&scalar.text, values, &mut |text| {
        budget.spend_text(text.len())
    })?;
    // The value is written without quotes, but keeps its type.
    *scalar = Scalar {
        style: Style::Plain,
        share: scalar.share,
        ..value
    };
    Ok(())
}

fn expand(
    input: &str,
    values: &Values,
    spend: &mut dyn FnMut(&str) -> Result<(), Error>,
) -> Result<Scalar, Error> {
    let mut output = String::new();
    let mut closes = true;
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        output.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match after.chars().next() {
            None => {
                output.push('$');
                rest = after;
            }
            Some('$') => {
                output.push('$');
                rest = &after[1..];
            }
            Some('(') => match closes.then(|| after.find(')')).flatten() {
                Some(end) => {
                    let name = &after[1..end];
                    let value = values.get(name).and_then(Option::as_ref).map(typed);
                    let whole = at == 0 && input.len() == name.len() + 3;
                    match value {
                        Some(value) if whole => {
                            spend(&value.text)?;
                            return Ok(value);
                        }
                        Some(value) => {
                            let text = format_value(&value);
                            spend(&text)?;
                            output.push_str(&text);
                        }
                        None => output.push_str(&rest[at..at + end + 2]),
                    }
                    rest = &after[end + 1..];
                }
                None => {
                    closes = false;
                    output.push_str("$(");
                    rest = &after[1..];
                }
            },
            Some(other) => {
                output.push('$');
                output.push(other);
                rest = &after[other.len_utf8()..];
            }
        }
    }
    output.push_str(rest);
    Ok(Scalar::str(output))
}

/// Returns the value as Go prints it after parsing it.
fn typed(scalar: &Scalar) -> Scalar {
    let text = match scalar.tag {
        Tag::Float => scalar
            .text
            .parse::<f64>()
            .map_or_else(|_| scalar.text.clone(), |float| float.to_string()),
        Tag::Bool => scalar.text.to_lowercase(),
        _ => scalar.text.clone(),
    };
    let tag = if scalar.tag == Tag::Time || scalar.tag == Tag::Null {
        Tag::Str
    } else {
        scalar.tag
    };
    Scalar::new(tag, text, Style::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_strings_are_expanded() {
        let values: Values = HashMap::from([
            ("A".to_owned(), Some(Scalar::str("x"))),
            (
                "N".to_owned(),
                Some(Scalar::new(Tag::Int, "8", Style::Plain)),
            ),
            ("MAP".to_owned(), None),
        ]);
        for (input, want) in [
            ("$(A)", "x"),
            ("a-$(A)-$(N)", "a-x-8"),
            ("$$(A)", "$(A)"),
            ("$(NONE) $(MAP)", "$(NONE) $(MAP)"),
            ("$(A", "$(A"),
            ("$", "$"),
            ("$é", "$é"),
        ] {
            assert_eq!(
                expand(input, &values, &mut |_| Ok(())).unwrap().text,
                want,
                "{input}"
            );
        }
        assert_eq!(
            expand("$(N)", &values, &mut |_| Ok(())).unwrap().tag,
            Tag::Int
        );
    }
}
