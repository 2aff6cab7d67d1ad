//! Picks out of a Markdown text what names things: code, in spans and fenced blocks, and the targets of links.

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
    let mut pieces = Vec::new();
    for (number, line, is_fenced) in lines_of(text) {
        if is_fenced {
            continue;
        }
        for (start, opening) in line.match_indices("](") {
            let target = &line[start + opening.len()..];
            let end = target.find([')', ' ', '#']).unwrap_or(target.len());
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
    }
}
