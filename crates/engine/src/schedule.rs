//! Cron schedules, in UTC.

use std::borrow::Cow;

use pinfold_lifecycle::Timestamp;

/// Five fields as in `*/5 * * * *`: minute, hour, day of month, month, day of week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Cow<'static, str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{given}` is not a schedule; write minute, hour, day, month and day of the week, as in `*/5 * * * *`: {why}"
)]
pub struct BadSchedule {
    given: String,
    why: String,
}

/// Fallback interval when the next time cannot be computed.
const ONE_DAY_MS: u64 = 86_400_000;

impl Schedule {
    pub const EVERY_MINUTE: Self = Self(Cow::Borrowed("* * * * *"));
    pub const EVERY_5_MINUTES: Self = Self(Cow::Borrowed("*/5 * * * *"));
    pub const EVERY_15_MINUTES: Self = Self(Cow::Borrowed("*/15 * * * *"));
    pub const HOURLY: Self = Self(Cow::Borrowed("0 * * * *"));

    /// Also refuses schedules that are never due.
    pub fn parse(given: &str) -> Result<Self, BadSchedule> {
        let schedule = Self(Cow::Owned(given.to_owned()));
        schedule.find(Timestamp(0)).map_err(|why| BadSchedule { given: given.to_owned(), why })?;
        Ok(schedule)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first time after this moment.
    #[must_use]
    pub fn next_after(&self, moment: Timestamp) -> Timestamp {
        self.find(moment).unwrap_or_else(|_| moment.after_ms(ONE_DAY_MS))
    }

    fn find(&self, moment: Timestamp) -> Result<Timestamp, String> {
        let reported = |error: cronexpr::Error| error.to_string().replace('\n', " ");
        let mut options = cronexpr::ParseOptions::default();
        // UTC by option, not by name: a small host may have no time zone database.
        options.fallback_timezone_option = cronexpr::FallbackTimezoneOption::UTC;
        let times = cronexpr::parse_crontab_with(&self.0, options).map_err(reported)?;
        let moment = cronexpr::MakeTimestamp::from_millisecond(moment.0).map_err(reported)?;
        Ok(Timestamp(times.find_next(moment).map_err(reported)?.timestamp().as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2025-11-16T00:39:44.007Z
    const NOW: Timestamp = Timestamp(1_763_253_584_007);

    fn next(schedule: &Schedule) -> i64 {
        schedule.next_after(NOW).0
    }

    #[test]
    fn the_next_time_is_the_first_one_after_now() {
        let minute = 60_000;
        let this_minute = NOW.0 / minute * minute;

        assert_eq!(next(&Schedule::EVERY_MINUTE), this_minute + minute);
        assert_eq!(next(&Schedule::EVERY_5_MINUTES), this_minute + minute);
        assert_eq!(next(&Schedule::EVERY_15_MINUTES), this_minute + 6 * minute);
        assert_eq!(next(&Schedule::HOURLY), this_minute + 21 * minute);
        let at_once = Schedule::EVERY_MINUTE.next_after(Timestamp(this_minute));
        assert_eq!(at_once.0, this_minute + minute, "a time is not after itself");
    }

    #[test]
    fn an_invalid_or_never_due_schedule_is_refused_with_its_text() {
        for given in ["", "every day", "*/5 * * *", "61 * * * *", "* * * * * *", "0 0 30 2 *"] {
            let refused = Schedule::parse(given).unwrap_err().to_string();

            assert!(refused.contains(&format!("`{given}`")), "{refused}");
        }
        assert_eq!(Schedule::parse("*/5 * * * *"), Ok(Schedule::EVERY_5_MINUTES));
    }
}
