//! Maps that contain themselves. Go's collector frees them; reference counting alone would keep
//! them forever, with all their content.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

thread_local! {
    /// The maps that have received a map or list during [`freeing_cycles`].
    static NOTED: RefCell<Option<Vec<Weak<dyn Emptied>>>> = const { RefCell::new(None) };
}

/// A map that is emptied at the end of [`freeing_cycles`].
pub(super) trait Emptied {
    /// Records the map; returns true the first time.
    fn mark_noted(&self) -> bool;
    /// Removes all entries, unless they are borrowed.
    fn clear(&self);
}

/// Runs `work`. At its end every map that has received a map or list in the meantime is emptied:
/// the result of `work` must not need them.
pub fn freeing_cycles<T>(work: impl FnOnce() -> T) -> T {
    let _end = RestoreOuter(NOTED.replace(Some(Vec::new())));
    work()
}

/// The outer list of maps, restored at the end.
struct RestoreOuter(Option<Vec<Weak<dyn Emptied>>>);

impl Drop for RestoreOuter {
    fn drop(&mut self) {
        let noted = NOTED.replace(self.0.take());
        let maps = noted.iter().flatten().filter_map(Weak::upgrade);
        maps.for_each(|map| map.clear());
    }
}

/// Records a map that receives a map or list.
pub(super) fn note<T: Emptied + 'static>(map: &Rc<T>) {
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = noted
            && map.mark_noted()
        {
            let map: Weak<T> = Rc::downgrade(map);
            noted.push(map);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Map, Object, Value};
    use std::any::Any;
    use std::borrow::Cow;
    use std::cell::Cell;

    /// An object that counts its drop.
    struct DropCounter(Rc<Cell<usize>>);

    impl Drop for DropCounter {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    impl Object for DropCounter {
        fn type_name(&self) -> Cow<'static, str> {
            Cow::Borrowed("counter")
        }
        fn fields(&self) -> Vec<(&'static str, Value)> {
            Vec::new()
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    #[test]
    fn maps_that_hold_themselves_are_freed() {
        let gone = Rc::new(Cell::new(0));
        let ring = || {
            let counter = Value::Object(Rc::new(DropCounter(gone.clone())));
            let map = Map::from_pairs([("counter", counter)]);
            let inner = Map::new();
            inner.insert("outer", Value::list(vec![Value::Map(map.clone())]));
            map.insert("inner", Value::Map(inner));
        };
        freeing_cycles(|| {
            ring();
            freeing_cycles(ring);
            assert_eq!(gone.get(), 1);
        });
        assert_eq!(gone.get(), 2);
    }

    #[test]
    fn values_are_nested_deeper_than_any_stack() {
        let mut value = Value::Nil;
        for level in 0..1_000_000 {
            value = match level % 2 {
                0 => Value::list(vec![value]),
                _ => Value::map([("a", value)]),
            };
        }
        drop(value);
    }
}
