//! Picks out of a Markdown text what names things: code, in spans and fenced blocks, and the targets of links.

use std::collections::BTreeSet;

/// A piece of text and the line it stands on.
pub(super) type Piece<'a> = (usize, &'a str);

/// Every code span, and every line of every fenced block.
pub(super) fn code_in(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for (number, line, is_fenced) in lines_of(text) {
        if is_fenced {
            pieces.push((number, line));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            pieces.extend(spans.map(|span| (number, span)));
        }
    }
    pieces
}

/// The target of every link and image, without its title and its anchor.
pub(super) fn links_in(text: &str) -> Vec<Piece<'_>> {
    let without_anchor =
        |target: &'_ str| target.split_once('#').map_or(target.len(), |(path, _)| path.len());
    link_targets(text).into_iter().map(|(line, target)| (line, &target[..without_anchor(target)])).collect()
}

/// Every link with an anchor: the line it stands on, the document (empty: this one) and the anchor.
pub(super) fn anchors_in(text: &str) -> Vec<(usize, &str, &str)> {
    let targets = link_targets(text).into_iter();
    targets
        .filter_map(|(line, target)| target.split_once('#').map(|(path, anchor)| (line, path, anchor)))
        .collect()
}

/// The anchors of a document's headings, as GitHub makes them.
pub(super) fn headings_of(text: &str) -> BTreeSet<String> {
    let headings = lines_of(text).filter(|(_, line, is_fenced)| !is_fenced && line.starts_with('#'));
    headings.map(|(_, line, _)| anchor_of(line.trim_start_matches('#'))).collect()
}

fn anchor_of(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The target of every link and image, with its anchor and without its title.
fn link_targets(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for (number, line, is_fenced) in lines_of(text) {
        if is_fenced {
            continue;
        }
        for (start, opening) in line.match_indices("](") {
            let target = &line[start + opening.len()..];
            let end = target.find([')', ' ']).unwrap_or(target.len());
            pieces.push((number, &target[..end]));
        }
    }
    pieces
}

/// Lines with their number and whether they are inside a fenced block. The fences themselves are left out.
fn lines_of(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            return None;
        }
        Some((index + 1, line, is_fenced))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_in_spans_and_in_fenced_blocks() {
        let text = "Run `one` and `two three`.\n```sh\nfour `five`\n```\nnot this, but `six`\n";

        assert_eq!(code_in(text), [(1, "one"), (1, "two three"), (3, "four `five`"), (5, "six")]);
    }

    #[test]
    fn links_are_found_without_title_and_anchor() {
        let text = "[a](docs/a.md#top) and ![b](b.png \"title\")\n[c](#here)\n```\n[d](d)\n```\n";

        assert_eq!(links_in(text), [(1, "docs/a.md"), (1, "b.png"), (2, "")]);
        assert_eq!(anchors_in(text), [(1, "docs/a.md", "top"), (2, "", "here")]);
    }

    #[test]
    fn anchors_of_headings_are_made_as_github_makes_them() {
        let text = "# How many are there? (2 minutes)\n```\n# no heading\n```\n## `seq` and after\n";

        assert_eq!(
            headings_of(text).into_iter().collect::<Vec<_>>(),
            ["how-many-are-there-2-minutes", "seq-and-after"]
        );
    }
}
