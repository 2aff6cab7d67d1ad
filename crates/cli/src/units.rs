//! Parses sizes, times, counts, CPU counts and `NAME=VALUE` pairs from arguments.

use std::fmt::Display;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Whole mebibytes: a plain number, or with `k`, `m`, `g` or `t`.
pub(crate) fn mebibytes(given: &str) -> Result<u64, String> {
    if given.starts_with('-') {
        return Err(format!("`{given}` is negative; write MiB as 512 or 512m, or GiB as 2g"));
    }
    let (number, unit) = split(given);
    let bytes = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" if unit.is_empty() => MIB,
        "k" => KIB,
        "m" => MIB,
        "g" => GIB,
        "t" => TIB,
        _ => return Err(format!("`{given}` is not a size; write MiB as 512 or 512m, or GiB as 2g")),
    };
    let bytes = whole(number, given)?.checked_mul(bytes).ok_or_else(|| format!("`{given}` is too large"))?;
    if !bytes.is_multiple_of(MIB) {
        return Err(format!("`{given}` is not a whole number of MiB"));
    }
    Ok(bytes / MIB)
}

/// Milliseconds: a plain number of seconds, or with `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn milliseconds(given: &str) -> Result<u64, String> {
    if given.starts_with('-') {
        return Err(format!("`{given}` is negative; write seconds as 90 or 90s, or 500ms, 5m, 1h, 1d"));
    }
    let (number, unit) = split(given);
    let factor = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => {
            return Err(format!("`{given}` is not a time; write seconds as 90 or 90s, or 500ms, 5m, 1h, 1d"));
        }
    };
    whole(number, given)?.checked_mul(factor).ok_or_else(|| format!("`{given}` is too long"))
}

/// Like [`milliseconds`], or 0 for `off`.
pub(crate) fn milliseconds_or_off(given: &str) -> Result<u64, String> {
    if given == "off" { Ok(0) } else { milliseconds(given) }
}

/// A plain whole number.
pub(crate) fn count(given: &str) -> Result<u64, String> {
    let is_number = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(format!("`{given}` is not a whole number of 0 or more"));
    }
    given.parse().map_err(|_| format!("`{given}` is too large"))
}

/// Thousandths of one core: `1.5` is 1500.
pub(crate) fn cpu_millis(given: &str) -> Result<u32, String> {
    let wrong = || format!("`{given}` is not a number of cores; write 2, 0.5 or 1.25");
    let (cores, part) = given.split_once('.').unwrap_or((given, "0"));
    if part.is_empty() || part.len() > 3 {
        return Err(wrong());
    }
    let cores: u32 = digits(cores).ok_or_else(wrong)?;
    let part: u32 = digits(&format!("{part:0<3}")).ok_or_else(wrong)?;
    let millis = cores.checked_mul(1_000).and_then(|millis| millis.checked_add(part));
    millis.ok_or_else(|| format!("`{given}` is too many cores"))
}

/// `NAME=VALUE`; only the name must not be empty.
pub(crate) fn pair(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{given}` is not NAME=VALUE")),
    }
}

fn split(given: &str) -> (&str, &str) {
    given.split_at(given.find(|c: char| !c.is_ascii_digit()).unwrap_or(given.len()))
}

fn whole(number: &str, given: impl Display) -> Result<u64, String> {
    if number.is_empty() {
        return Err(format!("`{given}` does not begin with a number"));
    }
    number.parse().map_err(|_| format!("`{given}` is too large"))
}

/// Parses digits only: `parse` alone would accept a leading `+`.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_without_a_unit_is_in_mebibytes() {
        for (given, expected) in
            [("512", 512), ("512m", 512), ("2g", 2048), ("2GiB", 2048), ("1t", 1 << 20), ("2048k", 2)]
        {
            assert_eq!(mebibytes(given), Ok(expected), "{given}");
        }
        for wrong in
            ["", "m", "-1", "1.5g", "5x", "1k", "5b", "99999999999999999999", "18446744073709551615g"]
        {
            assert!(mebibytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_without_a_unit_is_in_seconds() {
        for (given, expected) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("20ms", 20),
        ] {
            assert_eq!(milliseconds(given), Ok(expected), "{given}");
        }
        for wrong in ["", "s", "-5", "1.5h", "5x", "18446744073709551615d"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn core_count_has_up_to_three_decimals() {
        for (given, expected) in [("1.5", 1500), ("2", 2000), ("0.125", 125), ("0.01", 10), ("0", 0)] {
            assert_eq!(cpu_millis(given), Ok(expected), "{given}");
        }
        for wrong in ["", ".", "1.", "1.2345", "-1", "+1", "1.+5", "one", "9999999999"] {
            assert!(cpu_millis(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pair_without_a_name_is_refused() {
        assert_eq!(pair("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(pair("A="), Ok(("A".into(), String::new())));
        assert!(pair("=b").is_err() && pair("A").is_err());
    }
}
