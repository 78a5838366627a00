//! Resolves the names in an expression: variables of loops, outer variables, and functions.

use std::collections::BTreeSet;

use ::cel::common::ast::EntryExpr;
use driftless_cel::functions::TYPES;
use driftless_cel::tree::{children, invalid_pattern, walk};
use driftless_cel::{Expr, IdedExpr};

use super::library::{FUNCTIONS, NAMES};

/// A name that nothing declares.
pub(super) struct UndeclaredName {
    /// The node of the expression.
    pub id: u64,
    pub message: String,
}

/// The names that an expression reads.
#[derive(Default)]
pub(super) struct Scope<'a> {
    outside: &'a [&'a str],
    pub names: BTreeSet<String>,
    pub variables: BTreeSet<String>,
    pub types: BTreeSet<String>,
}

impl<'a> Scope<'a> {
    /// Reads the names of an expression that has some outer variables.
    ///
    /// # Errors
    /// The first name that nothing declares.
    pub(super) fn read(outside: &'a [&'a str], tree: &IdedExpr) -> Result<Self, UndeclaredName> {
        let mut scope = Self {
            outside,
            ..Self::default()
        };
        walk(tree, &mut |node, bound| scope.node(node, bound))?;
        Ok(scope)
    }

    /// Reads a node within loops that bind variables, and returns the nodes to read next.
    fn node<'e>(
        &mut self,
        node: &'e IdedExpr,
        bound: &[&str],
    ) -> Result<Vec<&'e IdedExpr>, UndeclaredName> {
        let problem = |message: String| UndeclaredName {
            id: node.id,
            message,
        };
        let undeclared = |name: &str| {
            problem(format!(
                "undeclared reference to '{name}' (in container '')"
            ))
        };
        match &node.expr {
            Expr::Ident(name) => {
                let name = name.as_str();
                if ![bound, &TYPES, &NAMES]
                    .iter()
                    .any(|all| all.contains(&name))
                {
                    if !self.outside.contains(&name) {
                        return Err(undeclared(name));
                    }
                    self.names.insert(name.to_owned());
                }
            }
            Expr::Select(select) => {
                if matches!(&select.operand.expr, Expr::Ident(name) if name == "variables") {
                    self.variables.insert(select.field.clone());
                }
            }
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                let is_own = match &call.target.as_deref().map(|target| &target.expr) {
                    Some(Expr::Ident(space)) if !bound.contains(&space.as_str()) => {
                        FUNCTIONS.contains(&format!("{space}.{name}").as_str())
                    }
                    _ => false,
                };
                let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
                if !is_own && !is_operator && !FUNCTIONS.contains(&name) {
                    return Err(undeclared(name));
                }
                if let Some(function) = invalid_pattern(node) {
                    return Err(problem(format!("invalid {function} argument")));
                }
                if is_own {
                    return Ok(call.args.iter().collect());
                }
            }
            Expr::Struct(fields) => {
                self.types.insert(fields.type_name.clone());
                let own = &fields.type_name;
                if own != "JSONPatch" && own != "Object" && !own.starts_with("Object.") {
                    return Err(undeclared(own));
                }
                for entry in &fields.entries {
                    if let EntryExpr::StructField(field) = &entry.expr
                        && let Expr::Struct(below) = &field.value.expr
                        && own != "JSONPatch"
                        && below.type_name != format!("{own}.{}", field.field)
                    {
                        return Err(UndeclaredName {
                            id: field.value.id,
                            message: format!(
                                "unexpected type name \"{}\", expected \"{own}.{}\", which matches field name path from root Object type",
                                below.type_name, field.field
                            ),
                        });
                    }
                }
            }
            _ => {}
        }
        Ok(children(node))
    }
}
