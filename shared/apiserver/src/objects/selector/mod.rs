//! Label and field selectors of lists, watches and collection deletes.

mod fields;

use driftless_manifest::labels::LabelSelector;
use serde_json::Value;

pub(crate) use fields::Fields;

use crate::error::ApiError;
use crate::resources::Resource;

/// A label selector and a field selector, both of which must match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: LabelSelector,
    fields: Fields,
}

impl Selector {
    /// Parses a `labelSelector` and a `fieldSelector`.
    ///
    /// # Errors
    /// 400 for a string that is not a selector.
    pub fn parse(labels: &str, fields: &str) -> Result<Self, ApiError> {
        Ok(Self {
            labels: LabelSelector::parse(labels).map_err(ApiError::bad_request)?,
            fields: Fields::parse(fields).map_err(ApiError::bad_request)?,
        })
    }

    /// Returns the selector for objects of a resource; if `name` is not empty, for the object of
    /// that name.
    ///
    /// # Errors
    /// 400 for a field that the resource cannot be selected by, and for a field selector of another
    /// name.
    pub fn of(mut self, resource: &Resource, name: &str) -> Result<Self, ApiError> {
        self.fields.check(resource).map_err(ApiError::bad_request)?;
        if name.is_empty() {
            return Ok(self);
        }
        if self.fields.is_empty() {
            self.fields = Fields::of_name(name);
        } else if self.fields.name() != Some(name) {
            return Err(ApiError::bad_request(
                "fieldSelector metadata.name doesn't match requested name",
            ));
        }
        Ok(self)
    }

    /// Returns whether both selectors select every object.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns whether both selectors select an object.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.matches_object(object) && self.fields.matches(object)
    }
}
