//! Go's `fmt` on template values.

mod float;
mod print;
mod quote;
mod spec;

pub use float::format_float;
pub use quote::{is_print, quote, quote_ascii, unicode};

use crate::value::{Kind, Value};
use print::Printer;

/// Go's `fmt.Sprintf`.
pub fn sprintf(format: &[u8], args: &[Value]) -> Vec<u8> {
    spec::sprintf(format, args)
}

/// Go's `fmt.Sprint`: a space between two operands when neither is a string.
pub fn sprint(args: &[Value]) -> Vec<u8> {
    let mut printer = Printer::default();
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

/// Go's `fmt.Sprintln`.
pub fn sprintln(args: &[Value]) -> Vec<u8> {
    let mut printer = Printer::default();
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            printer.out.push(b' ');
        }
        printer.arg(arg, 'v');
    }
    printer.out.push(b'\n');
    printer.out
}

/// `%v`, as text.
pub fn display(value: &Value) -> String {
    let mut printer = Printer::default();
    printer.arg(value, 'v');
    String::from_utf8_lossy(&printer.out).into_owned()
}

/// `%v`, as bytes.
pub fn display_bytes(value: &Value) -> Vec<u8> {
    let mut printer = Printer::default();
    printer.arg(value, 'v');
    printer.out
}

/// What an action writes: `%v`, `<no value>` for nothing, and what a pointer points to.
pub(crate) fn print_value(out: &mut Vec<u8>, value: &Value) {
    if value.is_nil() {
        out.extend_from_slice(b"<no value>");
        return;
    }
    let mut printer = Printer {
        out: std::mem::take(out),
        pointed: true,
        ..Printer::default()
    };
    printer.arg(value, 'v');
    *out = printer.out;
}
