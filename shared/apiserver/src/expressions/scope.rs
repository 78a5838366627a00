//! Resolves the names in an expression: variables of loops, outer variables, and functions.

use std::collections::BTreeSet;

use ::cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::library::{FUNCTIONS, NAMES};
use super::tree::children;

/// A name that nothing declares.
pub(super) struct Problem {
    /// The node of the expression.
    pub id: u64,
    pub message: String,
}

/// The names that an expression reads, and the variables of the loops around the current node.
#[derive(Default)]
pub(super) struct Scope<'e> {
    outside: Vec<&'e str>,
    bound: Vec<&'e str>,
    pub names: BTreeSet<String>,
    pub variables: BTreeSet<String>,
    pub types: BTreeSet<String>,
}

impl<'e> Scope<'e> {
    pub(super) fn new(outside: &[&'e str]) -> Self {
        Self {
            outside: outside.to_vec(),
            ..Self::default()
        }
    }

    /// Reads a node and the ones below it.
    ///
    /// # Errors
    /// The first name that nothing declares.
    pub(super) fn read(&mut self, node: &'e IdedExpr) -> Result<(), Problem> {
        let undeclared = |name: &str| Problem {
            id: node.id,
            message: format!("undeclared reference to '{name}' (in container '')"),
        };
        match &node.expr {
            Expr::Ident(name) => {
                let name = name.as_str();
                if self.bound.contains(&name) || NAMES.contains(&name) {
                    return Ok(());
                }
                if !self.outside.contains(&name) {
                    return Err(undeclared(name));
                }
                self.names.insert(name.to_owned());
                Ok(())
            }
            Expr::Select(select) => {
                if matches!(&select.operand.expr, Expr::Ident(name) if name == "variables") {
                    self.variables.insert(select.field.clone());
                }
                self.read(&select.operand)
            }
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                let own = match &call.target.as_deref().map(|target| &target.expr) {
                    Some(Expr::Ident(space)) if !self.bound.contains(&space.as_str()) => {
                        let full = format!("{space}.{name}");
                        FUNCTIONS.contains(&full.as_str()).then_some(full)
                    }
                    _ => None,
                };
                let operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
                if own.is_none() && !operator && !FUNCTIONS.contains(&name) {
                    return Err(undeclared(name));
                }
                pattern(node, name, &call.args)?;
                if own.is_none() {
                    call.target.iter().try_for_each(|node| self.read(node))?;
                }
                call.args.iter().try_for_each(|node| self.read(node))
            }
            Expr::Comprehension(inner) => {
                self.read(&inner.iter_range)?;
                self.read(&inner.accu_init)?;
                let before = self.bound.len();
                self.bound
                    .extend([inner.iter_var.as_str(), inner.accu_var.as_str()]);
                self.bound.extend(inner.iter_var2.as_deref());
                let inside = [&inner.loop_cond, &inner.loop_step, &inner.result];
                let read = inside.into_iter().try_for_each(|node| self.read(node));
                self.bound.truncate(before);
                read
            }
            Expr::Struct(fields) => {
                self.types.insert(fields.type_name.clone());
                let own = &fields.type_name;
                if own != "JSONPatch" && own != "Object" && !own.starts_with("Object.") {
                    return Err(undeclared(own));
                }
                for entry in &fields.entries {
                    let EntryExpr::StructField(field) = &entry.expr else {
                        continue;
                    };
                    if let Expr::Struct(below) = &field.value.expr
                        && own != "JSONPatch"
                        && below.type_name != format!("{own}.{}", field.field)
                    {
                        return Err(Problem {
                            id: field.value.id,
                            message: format!(
                                "unexpected type name \"{}\", expected \"{own}.{}\", which matches field name path from root Object type",
                                below.type_name, field.field
                            ),
                        });
                    }
                    self.read(&field.value)?;
                }
                Ok(())
            }
            _ => children(node)
                .into_iter()
                .try_for_each(|node| self.read(node)),
        }
    }
}

/// Refuses a literal pattern that is not a valid regular expression.
fn pattern(node: &IdedExpr, function: &str, args: &[IdedExpr]) -> Result<(), Problem> {
    let at = match function {
        "matches" => args.last(),
        "find" | "findAll" => args.first(),
        _ => None,
    };
    if let Some(Expr::Literal(LiteralValue::String(text))) = at.map(|arg| &arg.expr)
        && regex::Regex::new(text.inner()).is_err()
    {
        return Err(Problem {
            id: node.id,
            message: format!("invalid {function} argument"),
        });
    }
    Ok(())
}
