//! A table of named values in the order of the document, with the unit of each taken from its name.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::table::escape_control;

/// A JSON value whose fields keep their order. `serde_json::Value` sorts them by name.
pub(crate) enum OrderedValue {
    Single(Value),
    Fields(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for OrderedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = OrderedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Single(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Single(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Single(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Single(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Single(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Single(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OrderedValue, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<Value>()? {
            values.push(value);
        }
        Ok(OrderedValue::Single(values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedValue, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(OrderedValue::Fields(fields))
    }
}

/// Endings of names and the units that they stand for.
const UNITS: [(&str, &str); 8] = [
    ("_mb", "MiB"),
    ("_bytes", "bytes"),
    ("_ms", "ms"),
    ("_seconds", "s"),
    ("_minutes", "min"),
    ("_percent", "%"),
    ("_rate", "%"),
    ("_share", "%"),
];

/// One row for each known value: its name in words, and the value with its unit.
pub(crate) fn rows(group: &str, value: &OrderedValue) -> Vec<Vec<String>> {
    match value {
        OrderedValue::Single(Value::Null) => Vec::new(),
        OrderedValue::Fields(fields) => {
            fields.iter().flat_map(|(name, value)| rows(&format!("{group} {name}"), value)).collect()
        }
        OrderedValue::Single(value) => {
            let name = group.trim();
            // `memory_mb_promised` has its unit in the middle.
            match name.split_once("_mb_") {
                Some((what, rest)) => vec![vec![words(&format!("{what}_{rest}")), format!("{value} MiB")]],
                None => vec![vec![words(name), with_unit(name, value)]],
            }
        }
    }
}

fn words(name: &str) -> String {
    let unit = UNITS.iter().find(|(ending, _)| name.ends_with(ending) && !is_share(ending));
    let bare = unit.map_or(name, |(ending, _)| name.trim_end_matches(ending));
    bare.replace('_', " ")
}

fn is_share(ending: &str) -> bool {
    matches!(ending, "_rate" | "_share")
}

fn with_unit(name: &str, value: &Value) -> String {
    let shown = match value {
        Value::String(text) => return escape_control(text),
        other => other.to_string(),
    };
    let is_rate = name.starts_with("rates ");
    let unit = UNITS.iter().find(|(ending, _)| name.ends_with(ending));
    match (unit, value.as_f64()) {
        (Some((ending, _)), Some(share)) if is_share(ending) => format!("{:.1} %", share * 100.0),
        (None, Some(share)) if is_rate => format!("{:.1} %", share * 100.0),
        (Some((_, unit)), Some(_)) => format!("{shown} {unit}"),
        (_, _) => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_order_and_carry_their_unit() {
        let text = r#"{"active": 2, "memory_mb_promised": 64, "memory_mb": 64, "average_lifetime_seconds": 1.5,
            "rates": {"failure": 0.125, "limit": null}, "failure_rate": 0.5, "ages": {"under_1_minute": 1}}"#;

        let shown: Vec<_> =
            rows("", &serde_json::from_str(text).unwrap()).into_iter().map(|row| row.join(": ")).collect();

        assert_eq!(
            shown,
            [
                "active: 2",
                "memory promised: 64 MiB",
                "memory: 64 MiB",
                "average lifetime: 1.5 s",
                "rates failure: 12.5 %",
                "failure rate: 50.0 %",
                "ages under 1 minute: 1",
            ]
        );
    }
}
