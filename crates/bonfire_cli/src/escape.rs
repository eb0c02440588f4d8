//! Text from outside, made safe for a terminal.

use std::borrow::Cow;
use std::path::Path;

/// Text from outside, with everything escaped that a terminal might act on.
pub(crate) fn escaped(text: &str) -> String {
    text.escape_debug().to_string()
}

pub(crate) fn escaped_path(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

/// Text that should be escaped already: whatever slipped through is escaped, the rest is left alone.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) { visible.extend(char.escape_debug()) } else { visible.push(char) }
    }
    Cow::Owned(visible)
}

/// Whether a character would change how a terminal shows the text around it.
pub(crate) fn is_hidden(char: char) -> bool {
    char.is_control() || (!char.is_ascii() && char.escape_debug().len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_others_left_alone() {
        assert_eq!(visible("a \"b\" \\ é 火"), "a \"b\" \\ é 火");
        assert_eq!(visible("\u{1b}[31m\u{9b}\u{202e}\n"), "\\u{1b}[31m\\u{9b}\\u{202e}\\n");
    }
}
