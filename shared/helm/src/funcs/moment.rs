//! Moments, and their date and time of day in a zone, as Go's `time` computes them.

use jiff::tz::TimeZone;

/// The nanoseconds of a second.
pub(super) const SECOND: i64 = 1_000_000_000;

pub(super) const DAY: i64 = 86_400;

/// A moment in a time zone.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    /// The seconds since 1970.
    pub seconds: i64,
    /// The nanoseconds in addition to the seconds.
    pub nanos: u32,
    /// The zone; `None` is UTC, which is also the local one.
    pub zone: Option<TimeZone>,
}

/// Date and time of day in a zone.
pub(super) struct Civil {
    pub year: i64,
    pub month: usize,
    pub day: i64,
    /// The day of the year, counted from 1.
    pub year_day: i64,
    /// The day of the week; 0 is Sunday.
    pub weekday: usize,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// The offset in seconds east of Greenwich.
    pub offset: i64,
    /// The abbreviation of the zone, such as `CEST`.
    pub zone: String,
}

/// Returns the days since 1970 of a date in the proleptic Gregorian calendar.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = (month + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns year, month and day of a day since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

impl Time {
    /// Creates a moment in UTC.
    pub fn utc(seconds: i64, nanos: u32) -> Self {
        Time {
            seconds,
            nanos,
            zone: None,
        }
    }

    /// Returns Go's zero time: the first of January of the year 1.
    pub fn zero() -> Self {
        Time::utc(-62_135_596_800, 0)
    }

    /// Returns offset and name of the zone at this moment.
    fn offset(&self) -> (i64, String) {
        let utc = || (0, "UTC".to_owned());
        let Some(zone) = &self.zone else {
            return utc();
        };
        let nearest = self.seconds.clamp(-377_705_023_201, 253_402_207_200);
        match jiff::Timestamp::from_second(nearest) {
            Ok(at) => {
                let info = zone.to_offset_info(at);
                (
                    i64::from(info.offset().seconds()),
                    info.abbreviation().to_owned(),
                )
            }
            Err(_) => utc(),
        }
    }

    pub(super) fn civil(&self) -> Civil {
        let (offset, zone) = self.offset();
        let local = self.seconds.saturating_add(offset);
        let (day_number, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = date(day_number);
        Civil {
            year,
            month: month as usize,
            day,
            year_day: day_number - days(year, 1, 1) + 1,
            weekday: (day_number + 4).rem_euclid(7) as usize,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            offset,
            zone,
        }
    }

    /// Returns the moment `nanos` nanoseconds later.
    pub fn plus(&self, nanos: i64) -> Time {
        let sum = i128::from(self.seconds) * i128::from(SECOND)
            + i128::from(self.nanos)
            + i128::from(nanos);
        let second = i128::from(SECOND);
        Time {
            seconds: i64::try_from(sum.div_euclid(second)).unwrap_or(i64::MAX),
            nanos: sum.rem_euclid(second) as u32,
            zone: self.zone.clone(),
        }
    }

    /// Returns the nanoseconds since another moment, saturated.
    pub fn since(&self, other: &Time) -> i64 {
        let total = |t: &Time| i128::from(t.seconds) * i128::from(SECOND) + i128::from(t.nanos);
        let difference = total(self) - total(other);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    pub(super) fn order(&self, other: &Time) -> std::cmp::Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}
