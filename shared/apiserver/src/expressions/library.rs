//! The functions of the language: CEL's own, cel-go's extensions, and the ones that Kubernetes
//! adds.

use ::cel::common::ast::{ComprehensionExpr, Expr, ListExpr, LiteralValue};
use ::cel::common::types::{CelList, CelString, DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE};
use ::cel::common::value::{CowVal, Val};
use ::cel::parser::Macro;
use ::cel::{DeclarationError, Env, ExecutionError, extensions};
use driftless_cel::arguments::{items, number, text};
use driftless_cel::functions::{self, integer, string, truth};
use driftless_cel::tree::UNUSED;
use driftless_go::Error as GoError;
use driftless_manifest::pointer;

use super::{network, quantity};

/// Types that can be named, besides [`TYPES`](driftless_cel::functions::TYPES), and their
/// namespaces.
pub(super) const NAMES: [&str; 4] = ["optional_type", "net", "kubernetes", "google"];

/// The functions that can be called; a call of another one does not compile.
///
/// Not included from the libraries of Kubernetes 1.36: `format`, `semver`, selectors of the
/// authorizer, two-variable comprehensions, `math` and named formats.
pub(super) const FUNCTIONS: &[&str] = &[
    // CEL
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "type",
    "dyn",
    "duration",
    "timestamp",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    // optional values
    "optional.of",
    "optional.ofNonZeroValue",
    "optional.none",
    "hasValue",
    "value",
    "or",
    "orValue",
    // strings
    "charAt",
    "indexOf",
    "lastIndexOf",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "substring",
    "trim",
    "join",
    "format",
    "strings.quote",
    "reverse",
    // encoders
    "base64.encode",
    "base64.decode",
    // sets
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    // lists
    "isSorted",
    "sum",
    "min",
    "max",
    "slice",
    "flatten",
    "distinct",
    "sort",
    // regular expressions
    "find",
    "findAll",
    // quantities
    "isQuantity",
    "quantity",
    "sign",
    "isInteger",
    "asInteger",
    "asApproximateFloat",
    "add",
    "sub",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    // URLs
    "isURL",
    "url",
    "getScheme",
    "getHost",
    "getHostname",
    "getPort",
    "getEscapedPath",
    "getQuery",
    // addresses
    "isIP",
    "ip",
    "ip.isCanonical",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "isCIDR",
    "cidr",
    "containsIP",
    "containsCIDR",
    "masked",
    "prefixLength",
    // JSON patches
    "jsonpatch.escapeKey",
    // the authorizer
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "check",
    "allowed",
    "reason",
    "errored",
    "error",
];

/// Returns the language with all functions, without the authorizer's, which admission adds.
///
/// # Errors
/// A function that is declared already.
pub(crate) fn environment() -> Result<Env, GoError> {
    let mut env = functions::environment().map_err(|error| error.to_string())?;
    declare(&mut env).map_err(|error| error.to_string())?;
    Ok(env)
}

fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(extensions::lists)?;
    env.add_macro(bind())?;
    lists(env)?;
    patterns(env)?;
    env.add_overload(
        "jsonpatch.escapeKey",
        "string_jsonpatch_escapeKey_string",
        vec![STRING_TYPE],
        |args| Ok(string(pointer::escape(text(&args, 0)?))),
    )?;
    quantity::declare(env)?;
    network::declare(env)
}

/// `cel.bind(name, value, expression)`.
fn bind() -> Macro {
    Macro::receiver("bind", 3, |helper, target, args| {
        let of_cel =
            matches!(target.as_ref().map(|t| &t.expr), Some(Expr::Ident(name)) if name == "cel");
        let [Some(result), Some(value), Some(name)] = [args.pop(), args.pop(), args.pop()] else {
            return Ok(None);
        };
        let Expr::Ident(variable) = &name.expr else {
            return Err(helper.new_error(
                name.id,
                "cel.bind() variable names must be simple identifiers",
            ));
        };
        if !of_cel {
            return Err(
                helper.new_error(name.id, "undeclared reference to 'bind' (in container '')")
            );
        }
        let variable = variable.clone();
        let inner = ComprehensionExpr {
            iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
            iter_var: UNUSED.to_owned(),
            iter_var2: None,
            accu_var: variable.clone(),
            accu_init: value,
            loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into()))),
            loop_step: helper.next_expr(Expr::Ident(variable)),
            result,
        };
        Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(inner)))))
    })
}

/// Declares Kubernetes' functions for lists.
fn lists(env: &mut Env) -> Result<(), DeclarationError> {
    fn order(a: &dyn Val, b: &dyn Val) -> Result<std::cmp::Ordering, ExecutionError> {
        let comparer = a.as_comparer().ok_or_else(|| {
            ExecutionError::no_such_overload("compare", vec![a.get_type().name().to_owned()])
        })?;
        comparer.compare(b)
    }
    fn extreme<'b, 'v>(
        args: &[CowVal<'b, 'v>],
        wanted: std::cmp::Ordering,
        name: &str,
    ) -> Result<CowVal<'b, 'v>, ExecutionError> {
        let all = items(args, 0)?;
        let mut best: Option<&dyn Val> = None;
        for item in all {
            if best.map_or(Ok(true), |best| {
                order(item, best).map(|found| found == wanted)
            })? {
                best = Some(item);
            }
        }
        let best = best.ok_or_else(|| {
            ExecutionError::function_error(name, format!("{name} called on empty list"))
        })?;
        Ok(CowVal::Owned(best.clone_as_boxed()))
    }
    env.add_member_overload("isSorted", "list_is_sorted", LIST_TYPE, vec![], |args| {
        let all = items(&args, 0)?;
        for pair in all.windows(2) {
            if order(pair[0], pair[1])?.is_gt() {
                return Ok(truth(false));
            }
        }
        Ok(truth(true))
    })?;
    env.add_member_overload("sum", "list_sum", LIST_TYPE, vec![], |args| {
        let all = items(&args, 0)?;
        let Some((first, rest)) = all.split_first() else {
            return Ok(integer(0));
        };
        let mut total: Box<dyn Val> = first.clone_as_boxed();
        for item in rest {
            let adder = total.as_adder().ok_or_else(|| {
                ExecutionError::no_such_overload("sum", vec![item.get_type().name().to_owned()])
            })?;
            let next = adder.add(*item)?.into_owned();
            total = next;
        }
        Ok(CowVal::Owned(total))
    })?;
    env.add_member_overload("min", "list_min", LIST_TYPE, vec![], |args| {
        extreme(&args, std::cmp::Ordering::Less, "min")
    })?;
    env.add_member_overload("max", "list_max", LIST_TYPE, vec![], |args| {
        extreme(&args, std::cmp::Ordering::Greater, "max")
    })?;
    env.add_member_overload(
        "indexOf",
        "list_index_of",
        LIST_TYPE,
        vec![DYN_TYPE],
        |args| {
            place(&args, |all, wanted| {
                all.iter().position(|one| one.equals(wanted))
            })
        },
    )?;
    env.add_member_overload(
        "lastIndexOf",
        "list_last_index_of",
        LIST_TYPE,
        vec![DYN_TYPE],
        |args| {
            place(&args, |all, wanted| {
                all.iter().rposition(|one| one.equals(wanted))
            })
        },
    )
}

/// Returns the place of the second argument in the first one, a list; -1 if it is not there.
fn place<'b, 'v>(
    args: &[CowVal<'b, 'v>],
    find: fn(&[&dyn Val], &dyn Val) -> Option<usize>,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let wanted = args.get(1).ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let found = find(&items(args, 0)?, wanted.as_ref());
    let place = found.and_then(|at| i64::try_from(at).ok());
    Ok(integer(place.unwrap_or(-1)))
}

/// Declares Kubernetes' functions for regular expressions.
fn patterns(env: &mut Env) -> Result<(), DeclarationError> {
    fn pattern(text: &str) -> Result<regex::Regex, ExecutionError> {
        regex::Regex::new(text)
            .map_err(|_| ExecutionError::function_error("find", format!("Illegal regex: {text}")))
    }
    fn all<'b, 'v>(args: &[CowVal<'b, 'v>], most: usize) -> Result<CowVal<'b, 'v>, ExecutionError> {
        let pattern = pattern(text(args, 1)?)?;
        let found = pattern.find_iter(text(args, 0)?).take(most);
        let found: Vec<Box<dyn Val + 'v>> = found
            .map(|one| Box::new(CelString::from(one.as_str().to_owned())) as Box<dyn Val + 'v>)
            .collect();
        Ok(CowVal::owned(CelList::from(found)))
    }
    env.add_member_overload(
        "find",
        "string_find_string",
        STRING_TYPE,
        vec![STRING_TYPE],
        |args| {
            let found = pattern(text(&args, 1)?)?
                .find(text(&args, 0)?)
                .map_or_else(String::new, |found| found.as_str().to_owned());
            Ok(string(found))
        },
    )?;
    env.add_member_overload(
        "findAll",
        "string_find_all_string",
        STRING_TYPE,
        vec![STRING_TYPE],
        |args| all(&args, usize::MAX),
    )?;
    env.add_member_overload(
        "findAll",
        "string_find_all_string_int",
        STRING_TYPE,
        vec![STRING_TYPE, INT_TYPE],
        |args| {
            all(
                &args,
                usize::try_from(number(&args, 2)?).unwrap_or(usize::MAX),
            )
        },
    )
}
