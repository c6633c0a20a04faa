//! Words of programs, servers and files, fit for a log and a terminal.

/// `text` in one line: ends of lines and tabs become spaces, and what a terminal obeys or nobody sees is shown as
/// `\x1b`.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\t' | '\n' | '\r') {
            line.push(' ');
        } else if is_hidden(c) {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| line.push_str(&format!("\\x{byte:02x}")));
        } else {
            line.push(c);
        }
    }
    line
}

/// A number of things: `1 stream`, `2 streams`.
pub fn count(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Control characters, ends of lines and paragraphs, and Unicode's format characters, some of which reverse the
/// direction of writing. The same as in `tidegate copy` and `get`.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one() {
        assert_eq!(
            [count(0_u64, "job"), count(1_u16, "job"), count(2_u8, "job")],
            ["0 jobs", "1 job", "2 jobs"]
        );
    }

    #[test]
    fn what_is_hidden_is_shown_as_the_other_programs_show_it() {
        assert_eq!(one_line("a\tb\r\nc\x1b[2J\u{202e}größe"), "a b  c\\x1b[2J\\xe2\\x80\\xaegröße");
        for c in ('\0'..=char::MAX).filter(|c| !matches!(c, '\t' | '\n' | '\r')) {
            let text = c.to_string();
            assert_eq!(one_line(&text), tidegate_transfer::text::show(text.as_bytes()), "{:x}", u32::from(c));
        }
    }
}
