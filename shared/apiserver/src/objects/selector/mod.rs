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
    /// Reads the texts of a `labelSelector` and a `fieldSelector`.
    ///
    /// # Errors
    /// 400 for a text that is not a selector.
    pub fn parse(labels: &str, fields: &str) -> Result<Self, ApiError> {
        Ok(Self {
            labels: LabelSelector::parse(labels).map_err(ApiError::bad_request)?,
            fields: Fields::parse(fields).map_err(ApiError::bad_request)?,
        })
    }

    /// The selector for objects of a resource, and for the one object of a name when the request names one.
    ///
    /// # Errors
    /// 400 for a field that the resource cannot be selected by, and for a field selector of another name.
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

    /// Whether every object is selected.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.matches_object(object) && self.fields.matches(object)
    }
}
