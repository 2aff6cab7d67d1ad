//! All samples in order, and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::quantity::Quantity;

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Since the start of the load.
    pub(crate) minutes: f64,
    pub(crate) values: BTreeMap<Quantity, f64>,
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) samples: Vec<Sample>,
}

impl Record {
    /// One quantity over time.
    pub(crate) fn of(&self, quantity: Quantity) -> Vec<(f64, f64)> {
        let points = self.samples.iter();
        points.filter_map(|sample| Some((sample.minutes, *sample.values.get(&quantity)?))).collect()
    }

    pub(crate) fn csv(&self) -> String {
        let mut text = String::from("minutes");
        Quantity::ALL.iter().for_each(|quantity| text.extend([",", quantity.name()]));
        for sample in &self.samples {
            // Writing to a string does not fail.
            let _ = write!(text, "\n{:.4}", sample.minutes);
            for quantity in Quantity::ALL {
                let value = sample.values.get(&quantity);
                let _ = write!(text, ",{}", value.map(|value| format!("{value:.2}")).unwrap_or_default());
            }
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_column_per_quantity_and_a_line_per_sample() {
        let values = BTreeMap::from([(Quantity::ServerMemory, 4096.0), (Quantity::Busy, 61.5)]);
        let record = Record { samples: vec![Sample { minutes: 0.25, values }] };

        let csv = record.csv();

        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[0].starts_with("minutes,server memory,server file descriptors"));
        assert_eq!(lines[1], "0.2500,4096.00,,,,,,,,,,,,61.50");
        assert_eq!(lines.len(), 2);
        assert_eq!(record.of(Quantity::ServerMemory), [(0.25, 4096.0)]);
    }
}
