//! Rust types as values of the language.

use ::cel::ExecutionError;
use ::cel::common::value::{CowVal, StaticVal};

/// Makes a Rust type a value of the language; with `equal`, values of it can be compared.
macro_rules! own_type {
    ($name:ident, $cel:ident $(, $equal:ident)?) => {
        impl ::cel::common::value::Val for $name {
            fn get_type(&self) -> &::cel::common::types::Type {
                <Self as ::cel::common::value::Val>::cel_type()
            }

            fn cel_type() -> &'static ::cel::common::types::Type {
                &$cel
            }

            $($crate::expressions::own_type::own_type!(@$equal);)?

            fn clone_as_boxed<'v>(&self) -> Box<dyn ::cel::common::value::Val + 'v> {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }

        impl ::cel::common::value::StaticVal for $name {}
    };
    (@equal) => {
        fn equals(&self, other: &dyn ::cel::common::value::Val) -> bool {
            other.downcast_ref::<Self>() == Some(self)
        }
    };
}

pub(crate) use own_type;

/// Returns an argument of a Rust type.
///
/// # Errors
/// An argument of another type.
pub(crate) fn own<'a, T: StaticVal>(
    args: &'a [CowVal<'_, '_>],
    index: usize,
) -> Result<&'a T, ExecutionError> {
    args.get(index)
        .and_then(|arg| arg.downcast_ref::<T>())
        .ok_or(ExecutionError::MissingArgumentOrTarget)
}
