//! Messages of deserializers without names of Rust types, which mean nothing to a user.

/// Rewrites `invalid type: integer `7`, expected struct Name` to `expected {object}, not integer `7``. Other messages
/// are returned as they are. `object` is the format's word for a group of named values.
#[must_use]
pub fn without_type_names(message: &str, object: &str) -> String {
    let message = message.replace(" as i128", "").replace(" as u128", "");
    let given = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match given.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((given, expected)) => format!("expected {}, not {given}", plain(expected, object)),
        None => message,
    }
}

fn plain(expected: &str, object: &str) -> String {
    let is_struct = expected.starts_with("struct ") || expected == "a map";
    let words = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "a nonzero u16" | "a nonzero u32" | "a nonzero u64" | "a nonzero usize" => {
            "a whole number of 1 or more"
        }
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a string" | "path string" | "string" => "text in quotes",
        "socket address" => "text in quotes such as \"127.0.0.1:7463\"",
        _ if is_struct => object,
        other => other,
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_name_becomes_the_word_that_a_user_knows() {
        for (message, expected) in [
            (
                "invalid type: integer `1`, expected struct EngineSettings",
                "expected an object, not integer `1`",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "expected a whole number of 0 or more, not integer `-1`",
            ),
            (
                "invalid type: integer `9` as i128, expected a nonzero usize",
                "expected a whole number of 1 or more, not integer `9`",
            ),
            (
                "invalid type: string \"a, expected b\", expected a map",
                "expected an object, not string \"a, expected b\"",
            ),
            ("unknown field `a`, expected `b`", "unknown field `a`, expected `b`"),
        ] {
            assert_eq!(without_type_names(message, "an object"), expected);
        }
    }
}
