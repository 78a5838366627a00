//! Bad input is reported, and nothing is lost.

use driftless_tests::bad_input::{HUB, everything_breaks_and_is_repaired};
use driftless_tests::embedded::Embedded;

#[test]
fn bad_input_is_reported_and_nothing_is_lost() {
    everything_breaks_and_is_repaired(&Embedded::start(&HUB, &[]));
}
