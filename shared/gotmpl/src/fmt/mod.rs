//! Go's `fmt` for template values.

mod print;
mod spec;

use crate::value::{Kind, Value};
use print::Printer;

/// Formats like Go's `fmt.Sprintf`.
pub fn sprintf(format: &[u8], args: &[Value]) -> Vec<u8> {
    spec::sprintf(format, args, Printer::default())
}

/// Formats like [`sprintf`], but stops soon after `limit` bytes.
pub(crate) fn sprintf_within(limit: usize, format: &[u8], args: &[Value]) -> Vec<u8> {
    spec::sprintf(format, args, Printer::within(limit))
}

/// Formats like Go's `fmt.Sprint`: a space between two operands if neither is a string.
pub fn sprint(args: &[Value]) -> Vec<u8> {
    sprint_with(Printer::default(), args)
}

/// Formats like [`sprint`], but stops soon after `limit` bytes.
pub(crate) fn sprint_within(limit: usize, args: &[Value]) -> Vec<u8> {
    sprint_with(Printer::within(limit), args)
}

fn sprint_with(mut printer: Printer, args: &[Value]) -> Vec<u8> {
    let mut last_string = false;
    for (i, arg) in args.iter().enumerate() {
        let string = arg.kind() == Kind::String;
        if i > 0 && !string && !last_string {
            printer.out.push(b' ');
        }
        printer.arg(arg, 'v');
        last_string = string;
    }
    printer.out
}

/// Formats like Go's `fmt.Sprintln`, but stops soon after `limit` bytes.
pub(crate) fn sprintln_within(limit: usize, args: &[Value]) -> Vec<u8> {
    let mut printer = Printer::within(limit);
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            printer.out.push(b' ');
        }
        printer.arg(arg, 'v');
    }
    printer.out.push(b'\n');
    printer.out
}

/// Formats a value as `%v`, as a string.
pub fn display(value: &Value) -> String {
    let mut printer = Printer::default();
    printer.arg(value, 'v');
    String::from_utf8_lossy(&printer.out).into_owned()
}

/// Formats a value as `%v`, as bytes.
pub fn display_bytes(value: &Value) -> Vec<u8> {
    let mut printer = Printer::default();
    printer.arg(value, 'v');
    printer.out
}

/// Formats the output of an action: `%v`, `<no value>` for a missing value, and the target of a
/// pointer. Stops soon after `limit` bytes.
pub(crate) fn print_value(limit: usize, value: &Value) -> Vec<u8> {
    if value.is_nil() {
        return b"<no value>".to_vec();
    }
    let mut printer = Printer {
        pointed: true,
        ..Printer::within(limit)
    };
    printer.arg(value, 'v');
    printer.out
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.type_name(), display(self))
    }
}
