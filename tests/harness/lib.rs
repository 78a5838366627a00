//! Real components for the tests.
