/// The parsed doc comment of a function.
pub(super) struct DocComment {
    /// The first paragraph of the comment, on one line.
    pub(super) summary: Option<String>,
    parameters: Vec<DocParameter>,
}

/// One `@param` tag of a doc comment.
struct DocParameter {
    name: String,
    kind: String,
    text: String,
    /// Whether the tag is `@phpstan-param` or `@psalm-param`, which are more precise than `@param`.
    is_exact: bool,
}

impl DocComment {
    /// Parses a doc comment including its `/**` and `*/`. Any other text gives an empty result.
    pub(super) fn parse(comment: &str) -> Self {
        let comment_start = comment.trim().strip_prefix("/**").unwrap_or_default();
        let text = comment_start.strip_suffix("*/").unwrap_or(comment_start);
        let lines = text.lines().map(|line| {
            let line = line.trim();
            line.strip_prefix('*').unwrap_or(line).trim()
        });
        let mut summary_lines = Vec::new();
        let mut is_in_summary = true;
        let mut tags: Vec<String> = Vec::new();
        for line in lines {
            if line.starts_with('@') {
                tags.push(line.to_owned());
            } else if let Some(tag) = tags.last_mut() {
                // A line break marks an empty line, which ends the description in the tag. The
                // parser of the tag ignores the text after the line break.
                tag.push(if line.is_empty() { '\n' } else { ' ' });
                tag.push_str(line);
            } else if line.is_empty() {
                is_in_summary &= summary_lines.is_empty();
            } else if is_in_summary {
                summary_lines.push(line);
            }
        }
        let summary = summary_lines.join(" ");
        let parameters = tags.iter().filter_map(|tag| DocParameter::parse(tag));
        let is_inherited = summary.eq_ignore_ascii_case("{@inheritdoc}");
        Self {
            summary: (!summary.is_empty() && !is_inherited).then_some(summary),
            parameters: parameters.collect(),
        }
    }

    /// Returns the type of a parameter, as the doc comment writes it.
    pub(super) fn parameter_type(&self, name: &str) -> Option<&str> {
        let tags_of_name = || (self.parameters.iter()).filter(|parameter| parameter.name == name);
        let exact_tag = tags_of_name().find(|tag| tag.is_exact && !tag.kind.is_empty());
        let tag = exact_tag.or_else(|| tags_of_name().find(|tag| !tag.kind.is_empty()));
        tag.map(|tag| tag.kind.as_str())
    }

    /// Returns the description of a parameter.
    pub(super) fn parameter_description(&self, name: &str) -> Option<&str> {
        let mut tags_of_name = (self.parameters.iter()).filter(|parameter| parameter.name == name);
        let tag = tags_of_name.find(|tag| !tag.text.is_empty())?;
        Some(&tag.text)
    }
}

impl DocParameter {
    fn parse(tag: &str) -> Option<Self> {
        let (tag_name, content) = tag.split_once(char::is_whitespace)?;
        let is_exact = match tag_name {
            "@param" => false,
            "@phpstan-param" | "@psalm-param" => true,
            _ => return None,
        };
        let first_line = content.split('\n').next().unwrap_or_default();
        // The first dollar sign starts the parameter's name, because no supported type contains a
        // dollar sign.
        let (kind_text, after_dollar) = first_line.split_once('$')?;
        let name_length = after_dollar
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(after_dollar.len());
        let (name, text) = after_dollar.split_at(name_length);
        let kind = kind_text.trim().trim_end_matches(['.', '&']).trim();
        let words: Vec<_> = text.split_whitespace().collect();
        Some(Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            text: words.join(" "),
            is_exact,
        })
    }
}
