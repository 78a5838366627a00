//! No failure has a byte of a Secret.
