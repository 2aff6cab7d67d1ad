//! Whether a target is met. A miss is a finding, not a failure.

/// Prints whether what was reached is no more than the target.
pub fn at_most(what: &str, reached: f64, target: f64, unit: &str) {
    verdict(reached <= target, what, reached, &format!("at most {}", digits(target)), unit);
}

/// Prints whether what was reached is no less than the target.
pub fn at_least(what: &str, reached: f64, target: f64, unit: &str) {
    verdict(reached >= target, what, reached, &format!("at least {}", digits(target)), unit);
}

fn verdict(met: bool, what: &str, reached: f64, target: &str, unit: &str) {
    let word = if met { "pass" } else { "miss" };
    println!("{word}: {what}: {}{unit}, target {target}{unit}", digits(reached));
}

/// Enough digits to tell a miss from a pass.
fn digits(figure: f64) -> String {
    let text = if figure.abs() < 1.0 { format!("{figure:.3}") } else { format!("{figure:.2}") };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_figures_keep_their_digits() {
        assert_eq!(digits(0.025), "0.025");
        assert_eq!(digits(2.5), "2.5");
        assert_eq!(digits(10.0), "10");
    }
}
