//! Chooses the text format of `/metrics` by the `Accept` headers: classic Prometheus text, unless OpenMetrics is named
//! and preferred at least as much. Quality values are those of RFC 9110, section 12.5.1.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use pinfold_metrics::TextFormat;

/// One media range of an `Accept` header.
struct Range<'a> {
    kind: &'a str,
    version: Option<&'a str>,
    quality: f32,
}

pub(super) fn text_format(headers: &HeaderMap) -> TextFormat {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<_> = values.flat_map(|value| value.split(',')).filter_map(range).collect();
    let is_open = |range: &&Range<'_>| {
        range.kind.eq_ignore_ascii_case("application/openmetrics-text")
            && range.version.is_none_or(|version| version == "1.0.0")
    };
    let best = |qualities: Vec<f32>| qualities.into_iter().reduce(f32::max);
    let of_kind = |kind: &str| {
        let named = ranges.iter().filter(|range| range.kind.eq_ignore_ascii_case(kind));
        best(named.map(|range| range.quality).collect())
    };
    let open = best(ranges.iter().filter(is_open).map(|range| range.quality).collect()).unwrap_or(0.0);
    let classic =
        of_kind("text/plain").or_else(|| of_kind("text/*")).or_else(|| of_kind("*/*")).unwrap_or(0.0);
    if open > 0.0 && open >= classic { TextFormat::OpenMetrics } else { TextFormat::Classic }
}

/// None: not a media range.
fn range(text: &str) -> Option<Range<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().filter(|kind| kind.contains('/'))?;
    let (mut version, mut quality) = (None, 1.0);
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim() {
            "version" => version = Some(value),
            "q" | "Q" => quality = value.parse::<f32>().ok().filter(|it| (0.0..=1.0).contains(it))?,
            _ => {}
        }
    }
    Some(Range { kind, version, quality })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn format_for(accept: &[&str]) -> TextFormat {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_str(value).unwrap());
        }
        text_format(&headers)
    }

    #[test]
    fn openmetrics_must_be_named_and_preferred() {
        for accept in [
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=1.0.0; charset=utf-8",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            "application/openmetrics-text, */*",
            "text/*;q=0.2, application/openmetrics-text;q=0.3",
        ] {
            assert_eq!(format_for(&[accept]), TextFormat::OpenMetrics, "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "application/json",
            "application/*",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.5, text/plain",
            "application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text;q=7",
            "application/openmetrics-text;q=x",
            ";;;,,,q=1",
        ] {
            assert_eq!(format_for(&[accept]), TextFormat::Classic, "{accept}");
        }
        assert_eq!(
            format_for(&["text/plain;q=0.1", "application/openmetrics-text"]),
            TextFormat::OpenMetrics
        );
    }
}
