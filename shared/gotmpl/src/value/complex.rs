//! Go's complex numbers.

use super::{Kind, Object, Value};
use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

/// A `complex128`, which only a literal like `2+3i` can create.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Complex {
    /// Returns the value for templates.
    pub(crate) fn value(self) -> Value {
        Value::Object(Rc::new(self))
    }

    /// Returns the number in an object, if it is a complex number.
    pub(crate) fn of(object: &dyn Object) -> Option<Complex> {
        object.as_any().downcast_ref().copied()
    }
}

impl Object for Complex {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("complex128")
    }
    fn kind(&self) -> Kind {
        Kind::Complex128
    }
    fn is_zero(&self) -> bool {
        self.re == 0.0 && self.im == 0.0
    }
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
