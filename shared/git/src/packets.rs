//! Reads and writes packet lines, the framing of Git's protocol.

use crate::error::{Error, Limit, Result, protocol, quoted};
use crate::limits::Deadline;
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use gix_packetline::PacketLineRef;
use gix_packetline::decode::{PacketLineOrWantedSize, hex_prefix};

/// The bytes of an HTTP answer as a stream.
pub type Body = BoxStream<'static, Result<Bytes, crate::BoxError>>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Data(Bytes),
    Flush,
    Delimiter,
    ResponseEnd,
    /// The stream ended between two packets.
    End,
}

/// A reader of packets, with a limit of bytes and a deadline.
pub(crate) struct Packets {
    body: Body,
    buffer: BytesMut,
    ended: bool,
    left: u64,
    limit: Limit,
    deadline: Deadline,
    place: String,
}

impl Packets {
    pub fn new(body: Body, place: &str, limit: Limit, deadline: Deadline) -> Self {
        let mut packets = Self {
            body,
            buffer: BytesMut::new(),
            ended: false,
            left: 0,
            limit,
            deadline,
            place: place.to_owned(),
        };
        packets.allow(limit);
        packets
    }

    /// Restarts the count of bytes, with this limit.
    pub fn allow(&mut self, limit: Limit) {
        self.left = match limit {
            Limit::References(bytes) | Limit::Packed(bytes) => bytes,
            _ => 0,
        };
        self.limit = limit;
    }

    pub async fn next(&mut self) -> Result<Packet> {
        if !self.fill(4).await? {
            return match self.buffer.is_empty() {
                true => Ok(Packet::End),
                false => protocol("unexpected end of the response"),
            };
        }
        let prefix = [
            self.buffer[0],
            self.buffer[1],
            self.buffer[2],
            self.buffer[3],
        ];
        let decoded = hex_prefix(&prefix);
        let not_a_packet = |_| {
            Error::Protocol(format!(
                "'{}' is not the length of a packet",
                quoted(&prefix)
            ))
        };
        match decoded.map_err(not_a_packet)? {
            PacketLineOrWantedSize::Line(line) => {
                let packet = match line {
                    PacketLineRef::Flush => Packet::Flush,
                    PacketLineRef::Delimiter => Packet::Delimiter,
                    PacketLineRef::ResponseEnd => Packet::ResponseEnd,
                    PacketLineRef::Data(_) => return protocol("a packet has no length"),
                };
                self.buffer.advance(4);
                Ok(packet)
            }
            PacketLineOrWantedSize::Wanted(size) => {
                let size = usize::from(size);
                if !self.fill(4 + size).await? {
                    return protocol("unexpected end of the response within a packet");
                }
                self.buffer.advance(4);
                Ok(Packet::Data(self.buffer.split_to(size).freeze()))
            }
        }
    }

    /// Reads until the buffer holds this many bytes, and returns whether it does.
    async fn fill(&mut self, wanted: usize) -> Result<bool> {
        while self.buffer.len() < wanted && !self.ended {
            match self.deadline.wait(self.body.next()).await? {
                None => self.ended = true,
                Some(Ok(bytes)) => {
                    let length = bytes.len() as u64;
                    let left = self.left.checked_sub(length);
                    self.left = left.ok_or(Error::Limit(self.limit))?;
                    self.buffer.extend_from_slice(&bytes);
                }
                Some(Err(source)) => {
                    let place = self.place.clone();
                    return Err(Error::Unreachable { place, source });
                }
            }
        }
        Ok(self.buffer.len() >= wanted)
    }
}

/// Appends a packet to a request. The lines of our own requests are never longer than a packet may
/// be.
pub(crate) fn push(request: &mut Vec<u8>, line: &str) {
    request.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
}
