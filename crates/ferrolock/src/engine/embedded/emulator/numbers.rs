//! Numbers as the servers read and write them.

use std::io::Write as _;

/// Reads an integer: digits with an optional minus, no leading zeros, nothing around it.
pub(in super::super) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [] => false,
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a score: a decimal number or an infinity, nothing around it; not one beyond what a double can hold.
pub(in super::super) fn float(text: &[u8]) -> Option<f64> {
    let number = decimal(text)?;
    let is_told = |byte: &u8| byte.eq_ignore_ascii_case(&b'i');
    let too_large = number.is_infinite() && !text.iter().any(is_told);
    let too_small = number == 0.0 && has_digit_above_zero(text);
    (!too_large && !too_small).then_some(number)
}

/// Reads an end of a range of scores: numbers beyond a double are an infinity or zero, and an empty text is zero.
pub(in super::super) fn bound(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Some(0.0);
    }
    decimal(text)
}

fn decimal(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// Whether the digits before an exponent say more than zero.
fn has_digit_above_zero(text: &[u8]) -> bool {
    text.iter()
        .take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'))
        .any(|byte| (b'1'..=b'9').contains(byte))
}

/// Writes a number of Lua's as C's `%.17g` does.
pub(in super::super) fn write(out: &mut Vec<u8>, number: f64) {
    // Whole numbers below this have no exponent in that format.
    const WHOLE_MAX: f64 = 1e17;
    let whole = number.trunc() == number && number.abs() < WHOLE_MAX;
    let text = if whole && !(number == 0.0 && number.is_sign_negative()) {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and far below 2^63")]
        let whole = number as i64;
        // Writing into a vector cannot fail.
        let _ = write!(out, "{whole}");
        return;
    } else if number.is_nan() {
        let sign = if number.is_sign_negative() { "-" } else { "" };
        format!("{sign}nan")
    } else if number.is_infinite() {
        format!("{number}")
    } else {
        shortest_of_17(number)
    };
    out.extend_from_slice(text.as_bytes());
}

/// Seventeen significant digits without trailing zeros, with an exponent where C has one.
fn shortest_of_17(number: f64) -> String {
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        return without_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mantissa = without_zeros(mantissa);
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

/// What a number in a script's reply becomes: cut towards zero; without an integer, the lowest one.
pub(in super::super) fn truncate(number: f64) -> i64 {
    // 2^63, the first number beyond.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if (-BEYOND..BEYOND).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: f64) -> String {
        let mut out = Vec::new();
        write(&mut out, number);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_are_read_strictly() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-7", -7),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x1",
            "9223372036854775808",
            "é",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_written_as_redis_writes_them() {
        for (number, text) in [
            (1.0, "1"),
            (-30000.0, "-30000"),
            (3.5, "3.5"),
            (0.1, "0.10000000000000001"),
            (1e15, "1000000000000000"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e17, "1e+17"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17"),
            (1e-7, "9.9999999999999995e-08"),
            (0.0001, "0.0001"),
            (-1e300, "-1.0000000000000001e+300"),
            (0.0, "0"),
            (-0.0, "-0"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN.copysign(-1.0), "-nan"),
        ] {
            assert_eq!(written(number), text);
        }
    }

    #[test]
    fn replies_are_cut_towards_zero() {
        for (number, whole) in [
            (2.9, 2),
            (-2.9, -2),
            (1e300, i64::MIN),
            (f64::NAN, i64::MIN),
        ] {
            assert_eq!(truncate(number), whole);
        }
    }
}
