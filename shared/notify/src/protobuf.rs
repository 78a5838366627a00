//! The wire format of Protocol Buffers, for writing.

/// A message that is written field by field. Values that are the default are left out.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Adds a string or bytes.
    pub fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Self {
        if !value.as_ref().is_empty() {
            self.length_delimited(field, value.as_ref());
        }
        self
    }

    /// Adds a message, also if it is empty.
    pub fn message(mut self, field: u32, value: Self) -> Self {
        self.length_delimited(field, &value.0);
        self
    }

    /// Adds a number or an enum value of variable length.
    pub fn number(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.tag(field, 0);
            self.varint(value);
        }
        self
    }

    /// Adds a `fixed64`.
    pub fn fixed64(mut self, field: u32, value: u64) -> Self {
        if value != 0 {
            self.tag(field, 1);
            self.0.extend(value.to_le_bytes());
        }
        self
    }

    /// Adds a `fixed32`.
    pub fn fixed32(mut self, field: u32, value: u32) -> Self {
        if value != 0 {
            self.tag(field, 5);
            self.0.extend(value.to_le_bytes());
        }
        self
    }

    fn length_delimited(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn tag(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
