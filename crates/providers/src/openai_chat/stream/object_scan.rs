/// Detects the end of a JSON object that arrives in pieces, without parsing the object again for
/// each piece. Reads only strings and brackets.
#[derive(Default)]
pub(super) struct ObjectScan {
    progress: ScanProgress,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ScanProgress {
    #[default]
    NotStarted,
    Started,
    Complete,
    /// The text that has arrived is not a single JSON object.
    Invalid,
}

impl ObjectScan {
    pub(super) fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            if self.is_in_string {
                self.push_string_byte(byte);
            } else if !byte.is_ascii_whitespace() {
                self.push_token_byte(byte);
            }
        }
    }

    /// Returns whether the text that has arrived is one complete JSON object.
    pub(super) fn is_complete(&self) -> bool {
        self.progress == ScanProgress::Complete
    }

    fn push_string_byte(&mut self, byte: u8) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if byte == b'\\' {
            self.is_escaped = true;
        } else if byte == b'"' {
            self.is_in_string = false;
        }
    }

    fn push_token_byte(&mut self, byte: u8) {
        match (self.progress, byte) {
            (ScanProgress::NotStarted, b'{') => {
                self.progress = ScanProgress::Started;
                self.depth = 1;
            }
            (ScanProgress::Started, b'"') => self.is_in_string = true,
            (ScanProgress::Started, b'{' | b'[') => self.depth += 1,
            (ScanProgress::Started, b'}' | b']') => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.progress = ScanProgress::Complete;
                }
            }
            (ScanProgress::Started, _) => {}
            (ScanProgress::NotStarted | ScanProgress::Complete | ScanProgress::Invalid, _) => {
                self.progress = ScanProgress::Invalid;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_only_a_whole_object_is_complete() {
        for (text, is_complete) in [
            ("{}", true),
            (" {\"a\": [{\"b\": \"}\\\"\"}]} \n", true),
            ("", false),
            ("{\"a\": {\"b\": 1}", false),
            ("{\"a\": \"}", false),
            ("{} {", false),
            ("null", false),
            ("[{}]", false),
        ] {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let mut scan = ObjectScan::default();
                scan.push(&text[..cut]);
                scan.push(&text[cut..]);
                assert_eq!(scan.is_complete(), is_complete, "{text} cut at {cut}");
            }
        }
    }
}
