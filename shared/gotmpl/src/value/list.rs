//! Go's slices: shared, and dropped without recursion.

use super::{TypeInfo, Value};
use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

struct Data {
    nil: bool,
    items: RefCell<Vec<Value>>,
}

impl Drop for Data {
    fn drop(&mut self) {
        let items = self.items.get_mut();
        if items.iter().any(Value::holds_values) {
            super::dismantle(std::mem::take(items));
        }
    }
}

/// A Go slice, shared by its clones. Two lists never share a part of their elements, unlike Go's
/// subslices.
#[derive(Clone)]
pub struct List {
    info: &'static TypeInfo,
    data: Rc<Data>,
}

impl List {
    /// Creates a `[]interface {}`.
    pub fn new(items: Vec<Value>) -> Self {
        Self::typed(&TypeInfo::LIST, items)
    }

    /// Creates a list of a given type.
    pub fn typed(info: &'static TypeInfo, items: Vec<Value>) -> Self {
        List {
            info,
            data: Rc::new(Data {
                nil: false,
                items: RefCell::new(items),
            }),
        }
    }

    /// Creates the nil slice of a type.
    pub fn nil(info: &'static TypeInfo) -> Self {
        List {
            info,
            data: Rc::new(Data {
                nil: true,
                items: RefCell::default(),
            }),
        }
    }

    /// Checks whether it is the nil slice.
    pub fn is_nil(&self) -> bool {
        self.data.nil
    }

    /// Returns the type of the list.
    pub fn info(&self) -> &'static TypeInfo {
        self.info
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.data.items.borrow().len()
    }

    /// Checks whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the element at `index`.
    pub fn get(&self, index: usize) -> Option<Value> {
        self.data.items.borrow().get(index).cloned()
    }

    /// Returns the elements. The borrow must end before the list changes.
    pub fn items(&self) -> Ref<'_, Vec<Value>> {
        self.data.items.borrow()
    }

    /// Returns the elements for changes in place: every clone sees them.
    pub fn items_mut(&self) -> RefMut<'_, Vec<Value>> {
        self.data.items.borrow_mut()
    }

    /// Returns the same list under another type; the elements stay shared.
    pub fn retyped(&self, info: &'static TypeInfo) -> List {
        List {
            info,
            data: self.data.clone(),
        }
    }

    /// Moves the lists and maps in it to `values`, if this is the only reference to the list.
    pub(super) fn move_nested(self, values: &mut Vec<Value>) {
        if let Some(mut data) = Rc::into_inner(self.data) {
            let items = std::mem::take(data.items.get_mut()).into_iter();
            values.extend(items.filter(Value::holds_values));
        }
    }

    /// Checks whether both are the same list in memory.
    pub fn same(&self, other: &List) -> bool {
        Rc::ptr_eq(&self.data, &other.data)
    }
}
