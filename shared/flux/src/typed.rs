//! Live objects with typed fields: the reference, `spec` and `status`.

use crate::error::FieldError;
use crate::{FluxKind, ObjectRef, generation, is_suspended};
use driftless_manifest::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An object of Flux's API with typed fields.
pub trait FluxObject: Sized + Send + Sync {
    /// The type of `status`.
    type Status: Serialize + Send + Sync;

    /// Parses a live object of any served version.
    ///
    /// # Errors
    /// A field is not valid; the message names it.
    fn from_object(object: Object) -> Result<Self, FieldError>;

    /// Returns the live object that was read.
    fn object(&self) -> &Object;

    /// Returns the status that was read.
    fn status(&self) -> &Self::Status;

    /// Returns whether the object has no step because it is suspended.
    fn is_suspended(&self) -> bool;
}

/// The `spec` of a kind.
pub trait FluxSpec: DeserializeOwned + Send + Sync {
    /// The kind of the object.
    const KIND: FluxKind;
    /// True if a suspended object has steps.
    const WORKS_SUSPENDED: bool = false;

    /// The type of `status`.
    type Status: DeserializeOwned + Serialize + Default + Send + Sync;

    /// Converts fields of older versions, and checks what the definition of the kind cannot.
    ///
    /// # Errors
    /// A field is not valid; the message names it.
    fn convert(&mut self, _status: &mut Self::Status) -> Result<(), FieldError> {
        Ok(())
    }
}

/// An object of any served version of its kind.
#[derive(Clone, Debug)]
pub struct Typed<S: FluxSpec> {
    /// The reference of the object.
    pub id: ObjectRef,
    /// The live object that was read.
    pub object: Object,
    /// The desired state.
    pub spec: S,
    /// The status that was written last.
    pub status: S::Status,
}

impl<S: FluxSpec> Typed<S> {
    /// Parses a live object of any served version. A missing status is empty.
    ///
    /// # Errors
    /// A field is not valid; the message names it.
    pub fn from_object(object: Object) -> Result<Self, FieldError> {
        let invalid = |part: &'static str| {
            move |error: serde_json::Error| FieldError::Type {
                part,
                reason: error.to_string(),
            }
        };
        let map = object.as_map();
        let spec = map.get("spec").cloned().unwrap_or_default();
        let mut spec: S = serde_json::from_value(spec).map_err(invalid("spec"))?;
        let mut status = match map.get("status") {
            Some(status) => serde_json::from_value(status.clone()).map_err(invalid("status"))?,
            None => S::Status::default(),
        };
        spec.convert(&mut status)?;
        let id = ObjectRef::new(S::KIND, object.namespace(), object.name());
        Ok(Self {
            id,
            object,
            spec,
            status,
        })
    }

    /// Returns `metadata.generation` of the object.
    pub fn generation(&self) -> i64 {
        generation(&self.object)
    }
}

impl<S: FluxSpec> FluxObject for Typed<S> {
    type Status = S::Status;

    fn from_object(object: Object) -> Result<Self, FieldError> {
        Self::from_object(object)
    }

    fn object(&self) -> &Object {
        &self.object
    }

    fn status(&self) -> &S::Status {
        &self.status
    }

    fn is_suspended(&self) -> bool {
        !S::WORKS_SUSPENDED && is_suspended(&self.object)
    }
}
