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

/// A Go slice: shared by its clones. Two lists never share a part of their elements, as Go's subslices do.
#[derive(Clone)]
pub struct List {
    info: &'static TypeInfo,
    data: Rc<Data>,
}

impl List {
    /// A `[]interface {}`.
    pub fn new(items: Vec<Value>) -> Self {
        Self::typed(&TypeInfo::LIST, items)
    }

    /// A list of a given type.
    pub fn typed(info: &'static TypeInfo, items: Vec<Value>) -> Self {
        List {
            info,
            data: Rc::new(Data {
                nil: false,
                items: RefCell::new(items),
            }),
        }
    }

    /// The nil slice of a type.
    pub fn nil(info: &'static TypeInfo) -> Self {
        List {
            info,
            data: Rc::new(Data {
                nil: true,
                items: RefCell::default(),
            }),
        }
    }

    /// Whether it is the nil slice.
    pub fn is_nil(&self) -> bool {
        self.data.nil
    }

    /// The type.
    pub fn info(&self) -> &'static TypeInfo {
        self.info
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.items.borrow().len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Value> {
        self.data.items.borrow().get(index).cloned()
    }

    /// The elements. Not to be held while the list may change.
    pub fn items(&self) -> Ref<'_, Vec<Value>> {
        self.data.items.borrow()
    }

    /// The elements, to change in place: every clone sees it.
    pub fn items_mut(&self) -> RefMut<'_, Vec<Value>> {
        self.data.items.borrow_mut()
    }

    /// The same list under another type; the elements stay shared.
    pub fn retyped(&self, info: &'static TypeInfo) -> List {
        List {
            info,
            data: self.data.clone(),
        }
    }

    /// The elements, if nothing else holds the list.
    pub(super) fn into_items(self) -> Option<Vec<Value>> {
        let mut data = Rc::into_inner(self.data)?;
        Some(std::mem::take(data.items.get_mut()))
    }

    /// Whether both are the same list in memory.
    pub fn same(&self, other: &List) -> bool {
        Rc::ptr_eq(&self.data, &other.data)
    }
}
