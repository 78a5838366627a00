//! Tests of the notifications: requests as recorded from notification-controller, and secrets in
//! failures.

mod corpus;
mod normal;
mod recorder;
mod secrets;
