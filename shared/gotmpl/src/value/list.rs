use super::{TypeInfo, Value};
use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

struct Data {
    info: &'static TypeInfo,
    nil: bool,
    items: RefCell<Vec<Value>>,
}

/// A Go slice: shared by its clones. Two lists never share a part of their elements, as Go's subslices do.
#[derive(Clone)]
pub struct List(Rc<Data>);

impl List {
    /// A `[]interface {}`.
    pub fn new(items: Vec<Value>) -> Self {
        Self::typed(&TypeInfo::LIST, items)
    }

    /// A list of a given type.
    pub fn typed(info: &'static TypeInfo, items: Vec<Value>) -> Self {
        List(Rc::new(Data {
            info,
            nil: false,
            items: RefCell::new(items),
        }))
    }

    /// The nil slice of a type.
    pub fn nil(info: &'static TypeInfo) -> Self {
        List(Rc::new(Data {
            info,
            nil: true,
            items: RefCell::default(),
        }))
    }

    /// Whether it is the nil slice.
    pub fn is_nil(&self) -> bool {
        self.0.nil
    }

    /// The type.
    pub fn info(&self) -> &'static TypeInfo {
        self.0.info
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.items.borrow().len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Value> {
        self.0.items.borrow().get(index).cloned()
    }

    /// The elements. Not to be held while the list may change.
    pub fn items(&self) -> Ref<'_, Vec<Value>> {
        self.0.items.borrow()
    }

    /// The elements, to change in place: every clone sees it.
    pub fn items_mut(&self) -> RefMut<'_, Vec<Value>> {
        self.0.items.borrow_mut()
    }

    /// Whether both are the same list in memory.
    pub fn same(&self, other: &List) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
