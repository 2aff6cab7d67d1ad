//! Draws the samples: a small plot per quantity, with the baseline and the band that the end must be in.

use std::fmt::Write as _;

use crate::quantity::Quantity;
use crate::record::Record;
use crate::verdict::{BOUND, Verdict, Windows};

const COLUMNS: usize = 2;
/// Size of a plot with its labels.
const CELL: (f64, f64) = (480.0, 190.0);
/// Offset of the drawing area from the upper left corner, and its size.
const INSET: (f64, f64) = (84.0, 34.0);
const AREA: (f64, f64) = (376.0, 120.0);
const HEAD: f64 = 56.0;
const ROWS_OF_TICKS: u32 = 3;
const TICKS_OF_TIME: f64 = 6.0;

const GOOD: &str = "#1a7f37";
const BAD: &str = "#cf222e";
const PLAIN: &str = "#57606a";

const STYLE: &str = "text{font:11px sans-serif;fill:#57606a}.h{font-size:15px;fill:#24292f}\
    .t{font-size:12px;font-weight:bold}.a{fill:none;stroke:#d0d7de}.b{fill:#2da44e;opacity:.13}\
    .m{stroke:#8250df;stroke-dasharray:4 3}.l{fill:none;stroke:#0969da;stroke-width:1.2;stroke-linejoin:round}";

pub(crate) fn svg(record: &Record, verdicts: &[Verdict], windows: Windows, title: &str) -> String {
    let rows = Quantity::ALL.len().div_ceil(COLUMNS);
    let (width, height) = (CELL.0 * whole(COLUMNS), HEAD + CELL.1 * whole(rows));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text class=\"h\" x=\"16\" y=\"24\">{}</text>\n\
         <text x=\"16\" y=\"44\">dashed: the baseline at {} min; green: within {:.0} % of the baseline</text>\n",
        escaped(title),
        windows.baseline,
        BOUND * 100.0
    );
    for (place, quantity) in Quantity::ALL.into_iter().enumerate() {
        let corner = (CELL.0 * whole(place % COLUMNS), HEAD + CELL.1 * whole(place / COLUMNS));
        let verdict = verdicts.iter().find(|verdict| verdict.quantity == quantity);
        let points = record.of(quantity);
        draw(&mut text, corner, quantity, &points, verdict, windows);
    }
    text.push_str("</svg>\n");
    text
}

/// Maps values to coordinates.
struct Scale {
    corner: (f64, f64),
    end: f64,
    low: f64,
    high: f64,
}

impl Scale {
    fn x(&self, minutes: f64) -> f64 {
        self.corner.0 + INSET.0 + AREA.0 * (minutes / self.end)
    }

    fn y(&self, value: f64) -> f64 {
        self.corner.1 + INSET.1 + AREA.1 * (1.0 - (value - self.low) / (self.high - self.low))
    }
}

fn draw(
    text: &mut String,
    corner: (f64, f64),
    quantity: Quantity,
    points: &[(f64, f64)],
    verdict: Option<&Verdict>,
    windows: Windows,
) {
    let judged = verdict.filter(|_| quantity.is_bounded());
    let band = judged.map(|it| (it.at_baseline * (1.0 - BOUND), it.at_baseline * (1.0 + BOUND)));
    let (low, high) = range(points, band);
    let scale = Scale { corner, end: windows.end, low, high };
    let (left, right) = (scale.x(0.0), scale.x(windows.end));
    let (top, bottom) = (scale.y(high), scale.y(low));

    let colour = judged.map_or(PLAIN, |it| if it.holds() { GOOD } else { BAD });
    put(
        text,
        &format!(
            "<g stroke-linecap=\"round\"><text class=\"t\" x=\"{left:.1}\" y=\"{:.1}\">{}</text>",
            top - 10.0,
            quantity.name()
        ),
    );
    if let Some(verdict) = verdict {
        let [baseline, end] = [verdict.at_baseline, verdict.at_end].map(|value| quantity.format(value));
        put(
            text,
            &format!(
                "<text x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\" style=\"fill:{colour}\">{baseline} → {end}</text>",
                top - 10.0
            ),
        );
    }
    if let Some((from, to)) = band {
        let (upper, lower) = (scale.y(to), scale.y(from));
        put(
            text,
            &format!(
                "<rect class=\"b\" x=\"{left:.1}\" y=\"{upper:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                AREA.0,
                lower - upper
            ),
        );
    }
    put(
        text,
        &format!(
            "<rect class=\"a\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            AREA.0, AREA.1
        ),
    );
    for step in 0..=ROWS_OF_TICKS {
        let value = low + (high - low) * f64::from(step) / f64::from(ROWS_OF_TICKS);
        put(
            text,
            &format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                scale.y(value) + 4.0,
                quantity.format(value)
            ),
        );
    }
    for minutes in ticks_of_time(windows.end) {
        put(
            text,
            &format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{minutes} min</text>",
                scale.x(minutes),
                bottom + 16.0
            ),
        );
    }
    let baseline = scale.x(windows.baseline);
    put(
        text,
        &format!(
            "<line class=\"m\" x1=\"{baseline:.1}\" y1=\"{top:.1}\" x2=\"{baseline:.1}\" y2=\"{bottom:.1}\"/>"
        ),
    );
    let line: Vec<String> = points
        .iter()
        .map(|(minutes, value)| format!("{:.1},{:.1}", scale.x(*minutes), scale.y(*value)))
        .collect();
    put(text, &format!("<polyline class=\"l\" points=\"{}\"/></g>", line.join(" ")));
}

fn put(text: &mut String, element: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{element}");
}

/// The range of all samples and of the band, with a margin. Never empty, so that a flat line can be drawn.
fn range(points: &[(f64, f64)], band: Option<(f64, f64)>) -> (f64, f64) {
    let values = points.iter().map(|(_, value)| *value);
    let all = values.chain(band.into_iter().flat_map(|(from, to)| [from, to]));
    let (low, high) =
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return (0.0, 1.0);
    }
    if high <= low {
        return ((low - 1.0).max(0.0), high + 1.0);
    }
    let air = (high - low) * 0.08;
    ((low - air).max(0.0), high + air)
}

/// Ticks at whole minutes, at most as many as fit.
fn ticks_of_time(end: f64) -> impl Iterator<Item = f64> {
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0].into_iter().find(|step| end / step <= TICKS_OF_TIME);
    let step = step.unwrap_or(end / TICKS_OF_TIME);
    (0_u32..).map(move |tick| f64::from(tick) * step).take_while(move |minutes| *minutes <= end)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[expect(clippy::cast_precision_loss, reason = "a handful of plots")]
fn whole(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::Sample;

    const WINDOWS: Windows = Windows { baseline: 5.0, end: 30.0 };

    fn drawn(value: impl Fn(f64) -> f64) -> String {
        let sample = |minute: u32| {
            let minutes = f64::from(minute);
            Sample { minutes, values: BTreeMap::from([(Quantity::ServerMemory, value(minutes))]) }
        };
        let record = Record { samples: (0..=30).map(sample).collect() };
        let verdict = Verdict::of(&record, Quantity::ServerMemory, WINDOWS);
        svg(&record, verdict.as_slice(), WINDOWS, "20 < 21 & more")
    }

    #[test]
    fn every_quantity_has_a_plot_with_its_baseline() {
        let svg = drawn(|_| 1e6);

        for quantity in Quantity::ALL {
            assert!(svg.contains(&format!(">{}</text>", quantity.name())), "{}", quantity.name());
        }
        assert_eq!(svg.matches("class=\"m\"").count(), Quantity::ALL.len());
        assert_eq!(svg.matches("<polyline").count(), Quantity::ALL.len());
        assert!(svg.contains("20 &lt; 21 &amp; more"));
    }

    #[test]
    fn only_bounded_quantities_have_a_band_and_a_colour() {
        let (good, bad) = (drawn(|_| 1e6), drawn(|minutes| 1e6 * (1.0 + minutes)));

        assert_eq!(good.matches("class=\"b\"").count(), 1);
        assert!(good.contains(GOOD) && !good.contains(BAD));
        assert!(bad.contains(BAD) && !bad.contains(GOOD));
    }

    #[test]
    fn every_point_is_within_its_frame() {
        let svg = drawn(|minutes| 1e6 * (3.0 + (minutes * 1.7).sin()));

        let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in line.split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((INSET.0..=INSET.0 + AREA.0).contains(&x), "{point}");
            assert!((HEAD + INSET.1..=HEAD + INSET.1 + AREA.1).contains(&y), "{point}");
        }
    }

    #[test]
    fn flat_and_empty_series_can_be_drawn() {
        assert_eq!(range(&[(0.0, 0.0), (1.0, 0.0)], Some((0.0, 0.0))), (0.0, 1.0));
        assert_eq!(range(&[], None), (0.0, 1.0));
        assert!(!drawn(|_| 0.0).contains("NaN"));
    }

    #[test]
    fn time_ticks_are_spaced_to_be_readable() {
        assert_eq!(ticks_of_time(30.0).collect::<Vec<_>>(), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(ticks_of_time(8.0).collect::<Vec<_>>(), [0.0, 2.0, 4.0, 6.0, 8.0]);
    }
}
